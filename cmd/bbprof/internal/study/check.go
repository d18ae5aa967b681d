package study

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:    "check",
		Summary: "find blocks that have become slower than a baseline says",
		Synopsis: []string{"check [flags] BASELINE  (a result of bbprof batch; - is standard input)",
			"check -against FILE [flags] BASELINE  (two results, without measuring)"},
		About: `For continuous integration: it exits with 1 if a block is slower by more than -threshold, and lists
such blocks. If nothing has changed, fewer than 5 % of runs raise any alarm, however many blocks
there are. A block that looks slower is measured again, once in each of eight new child processes;
only those values decide, corrected for the number of blocks (Holm). A block that would be an alarm
is last measured with its code at four starts in a cache line, and cleared if it is as fast as its
baseline at one of them.

With -against a result takes the place of new measurements, and the same rule judges it. A baseline
of another microarchitecture, or measured with other flags, is refused.
`,
		Notes: "docs/ci.md has examples for make and CI; docs/compare.md explains the test.\n",
		Examples: `bbprof batch -o baseline.csv blocks.csv      once
bbprof check baseline.csv                    from then on
`,
		Exits: cli.Exits("no block is slower", "a block is slower", map[int]string{
			cli.ExitUsage: "bad usage, a baseline that cannot be read or is refused, or no block can be measured",
			cli.ExitHost:  "this host cannot measure, or left no block alone for long enough"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := checkCmd{threshold: 0.02}
			f.Operands = &c.operands
			cli.Parsed(f, &c.threshold, cli.ParseShare, "threshold", "P", "slowdown to accept: a fraction such as 0.05, or 5%").Fallback = "2%"
			f.Text(&c.against, "against", "FILE", "measure nothing: test the cycles of FILE, which bbprof batch wrote for the same blocks later or elsewhere")
			f.Toggle(&c.anyway, "anyway", "accept a baseline of another CPU, or measured with other flags")
			f.Toggle(&c.verbose, "v", "list all blocks")
			f.Toggle(&c.out.JSON, "json", "one JSON object on one line for each block")
			c.out.AddFile(f)
			measuring.Flags(f, &c.measuring)
			return c.out.Resumable(f, c.run)
		},
	}
}

type checkCmd struct {
	measuring profiler.Options
	operands  []string
	against   string
	threshold float64
	anyway    bool
	verbose   bool
	out       cli.Output
}

func (c *checkCmd) run(std cli.Streams) error {
	r := cli.Rules{Err: measuring.OneMode(&c.measuring, profiler.Hot)}
	r.Not(len(c.operands) != 1, "name one baseline, a file that bbprof batch wrote, or - for standard input; %s", cli.HowMany(c.operands))
	r.Not(c.against == "-" && cli.First(c.operands) == "-", "standard input can be the baseline or the result of -against, not both")
	if r.Err != nil {
		return r.Err
	}
	blocks, other, err := c.read(c.operands[0], std)
	if err != nil {
		return cli.Usage(err)
	}
	if c.against != "" {
		return c.finish(std, check.Against(blocks, other, identity, c.threshold), nil)
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	done := cli.Progress(c.out.Notes(std), len(blocks), "blocks")
	outcomes, err := check.Run(ctx, blocks, check.Options{
		Threshold: c.threshold,
		Start:     func() (measure.ProfileCloser, error) { return measuring.Open(ctx, std, c.measuring) },
		Screened:  done.Step,
	})
	done.End()
	return c.finish(std, outcomes, err)
}

func (c *checkCmd) finish(std cli.Streams, outcomes []check.Outcome, err error) error {
	return cli.Ended(err, outcomes != nil, func() error {
		if writeErr := cli.WriteLines(&c.out, std, outcomes, c.report(outcomes, err)); writeErr != nil || err != nil {
			return writeErr
		}
		return checkOutcome(outcomes)
	})
}

// checkOutcome is how the command ends: it fails if nothing could be measured or if bbprof failed on a block.
func checkOutcome(outcomes []check.Outcome) error {
	disturbed := func(o check.Outcome) bool { return o.Rejection.Reason.Noise() }
	failed := slices.IndexFunc(outcomes, func(o check.Outcome) bool { return o.Status == check.Failed })
	switch n := statuses(outcomes); {
	case n[check.Slower] > 0:
		return cli.ErrRejected
	case failed >= 0:
		return fmt.Errorf("internal failure in %s, first in row %d: %s", words.Plural(n[check.Failed], "block"),
			outcomes[failed].Row, outcomes[failed].Failure)
	case n[check.Unknown] == len(outcomes) && !slices.ContainsFunc(outcomes, disturbed):
		return cli.BadUsage("none of the blocks can be measured%s", reasons(outcomes))
	case n[check.Unknown] == len(outcomes):
		return &verdict.HostError{
			Missing: "not one block of the baseline could be measured",
			Remedy:  "bbprof check -v lists why; if other work keeps the core busy, choose another with -cpus or give more time with -budget",
		}
	}
	return nil
}

// read returns the blocks to check and, with -against, those of the other result. An error is about the baseline or the
// file compared with it.
func (c *checkCmd) read(name string, std cli.Streams) (blocks, other []check.Block, err error) {
	b, err := readBaseline(name, std.In)
	if err != nil {
		return nil, nil, err
	}
	conditions := []resultfile.Run{{Version: cli.Version(), Host: resultfile.HostOf(host.Detect(c.measuring.CPUs...)),
		Settings: resultfile.SettingsOf(c.measuring)}}
	var unlike, told []string
	if c.against != "" {
		result, err := readBaseline(c.against, std.In)
		if err != nil {
			return nil, nil, err
		}
		if other, conditions = result.rows, result.runs.All(); len(conditions) == 0 {
			unlike = append(unlike, c.against+" does not say on which CPU and with which settings (column run_header)")
		}
	}
	for _, run := range conditions {
		d := b.runs.Against(run)
		unlike, told = append(unlike, d.Unlike...), append(told, d.Told...)
	}
	if b.runs.None() {
		unlike = append(unlike, "it does not say on which CPU and with which settings (columns run and run_header)")
	}
	if len(unlike) > 0 && !c.anyway {
		return nil, nil, fmt.Errorf("%s was measured under other conditions, so a difference would say nothing of its "+
			"blocks:\n  %s\nmeasure a new baseline, give the flags that it was measured with, or say -anyway",
			name, strings.Join(unlike, "\n  "))
	}
	for _, d := range slices.Concat(unlike, told) {
		fmt.Fprintf(std.Err, "bbprof: warning: %s: %s\n", name, d)
	}
	b.ignored.Warn(std.Err)
	blocks, without := distinctBaseline(b.rows)
	if len(blocks) == 0 {
		return nil, nil, fmt.Errorf("%s holds no block that was measured", name)
	}
	if without > 0 {
		busy := ""
		if b.busy > 0 {
			busy = fmt.Sprintf(", %d of them of a busy core,", b.busy)
		}
		fmt.Fprintf(c.out.Notes(std), "bbprof: %s: %s without cycles%s which cannot be checked\n", name, words.Plural(without, "row"), cmp.Or(busy, ","))
	}
	return blocks, other, nil
}

func identity(b check.Block) string { return batch.Identity(b.Code, b.At, b.Set.String()) }

// distinctBaseline returns the blocks with a measurement to compare with, and the number of rows without. Rows that
// repeat another row's measurement are dropped.
func distinctBaseline(rows []check.Block) (blocks []check.Block, without int) {
	type key struct {
		identity     string
		cycles, half float64
	}
	seen := map[key]bool{}
	for _, r := range rows {
		k := key{identity(r), r.Cycles, r.Half}
		switch {
		case !r.Measured():
			without++
		case !seen[k]:
			seen[k] = true
			blocks = append(blocks, r)
		}
	}
	return blocks, without
}

// report lists the slower and failed blocks, or with -v all, and counts the others. err is what ended the run early.
func (c *checkCmd) report(outcomes []check.Outcome, err error) string {
	var w strings.Builder
	listed := outcomes
	if !c.verbose {
		listed = slices.DeleteFunc(slices.Clone(outcomes), func(o check.Outcome) bool { return o.Status != check.Slower && o.Status != check.Failed })
	}
	if len(listed) > 0 {
		t := cli.NewTable("rrrrlrll", "row", "baseline", "now", "slower, %", "95 % interval", "p, adj.", "", "block")
		for _, o := range listed {
			row, baseline, code := strconv.Itoa(o.Row), fmt.Sprintf("%.3f", o.Baseline), short(o.Hex)
			switch o.Status {
			case check.Unknown:
				t.Row(row, baseline, "", "", "", "", string(o.Status), code+": "+string(o.Rejection.Reason))
			case check.Failed:
				t.Row(row, baseline, "", "", "", "", string(o.Status), code+": "+o.Failure)
			default:
				t.Row(row, baseline, fmt.Sprintf("%.3f", o.Cycles), signed(o.Slowdown), interval(o.Low, o.High),
					fmt.Sprintf("%.2g", o.P), string(o.Status), code)
			}
		}
		w.WriteString(t.String())
	}
	n := statuses(outcomes)
	cleared := fmt.Sprintf("%d cleared when measured again, ", n[check.Cleared])
	if c.against != "" {
		cleared = ""
	}
	fmt.Fprintf(&w, "%s: %d slower by more than %g %%, %s%d not measured%s\n",
		words.Plural(len(outcomes), "block"), n[check.Slower], 100*c.threshold, cleared, n[check.Unknown], reasons(outcomes))
	if n[check.Failed] > 0 {
		fmt.Fprintf(&w, "bbprof failed on %s\n", words.Plural(n[check.Failed], "block"))
	}
	if n[check.Interrupted]+n[check.Suspect] > 0 {
		fmt.Fprintf(&w, "incomplete: %s before %s were measured and %s confirmed\n", measuring.EndedBy(err),
			words.Plural(n[check.Interrupted], "block"), words.Plural(n[check.Suspect], "suspect"))
	}
	return w.String()
}

func statuses(outcomes []check.Outcome) map[check.Status]int {
	n := map[check.Status]int{}
	for _, o := range outcomes {
		n[o.Status]++
	}
	return n
}

func reasons(outcomes []check.Outcome) string {
	n := map[verdict.Reason]int{}
	for _, o := range outcomes {
		if o.Status == check.Unknown {
			n[o.Rejection.Reason]++
		}
	}
	if len(n) == 0 {
		return ""
	}
	return " (" + strings.Join(cli.Frequent(n), ", ") + ")"
}

type baseline struct {
	rows    []check.Block // without cycles where nothing was measured
	runs    resultfile.Runs
	busy    int // rows of a busy core
	ignored input.Ignored
}

func readBaseline(name string, stdin io.Reader) (b baseline, err error) {
	in, err := resultfile.OpenRows(name, stdin)
	if err != nil {
		return b, err
	}
	defer in.Close()
	if err := in.Schema.Require("hex", "status", "cycles", "ci_low", "ci_high"); err != nil {
		return b, in.Error(fmt.Errorf("%w: a baseline is what bbprof batch writes", err))
	}
	for row, err := range in.All() {
		if err != nil {
			return b, err
		}
		block := check.Block{Row: row.Number}
		if row.Cell("status") != string(profiler.OK) { // with -against, the reason is reported
			block.Code, _ = asm.ParseHex(row.Cell("hex"), profiler.MaxBlock)
			block.Reason = verdict.Reason(row.Cell("reason"))
		} else {
			if block, err = baselineRow(row); err != nil {
				return b, err
			}
			if _, readable := input.Address(row.Cell(input.AddressColumn)); !readable {
				b.ignored.Address(fmt.Sprintf("row %d of the baseline", row.Number))
			}
		}
		b.rows = append(b.rows, block)
	}
	b.runs, b.busy = in.Runs, in.Busy
	return b, nil
}

func baselineRow(row resultfile.Row) (block check.Block, err error) {
	code, err := asm.ParseHex(row.Cell("hex"), profiler.MaxBlock)
	if err != nil {
		return block, row.Error(fmt.Errorf("hex: %w", err))
	}
	var v [3]float64
	for i, name := range []string{"cycles", "ci_low", "ci_high"} {
		if v[i], err = row.Float(name); err != nil {
			return block, err
		}
	}
	if block, err = check.NewBlock(row.Number, code, v[0], v[1], v[2]); err != nil {
		return block, row.Error(err)
	}
	block.At, _ = input.Address(row.Cell(input.AddressColumn))
	if set := row.Cell(input.SetColumn); set != "" {
		if block.Set, err = initial.ParseSet(set); err != nil {
			return block, row.Error(fmt.Errorf("%s: %w", input.SetColumn, err))
		}
	}
	return block, nil
}
