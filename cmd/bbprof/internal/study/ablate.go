package study

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/ablate"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func ablateCommand() *cli.Command {
	return &cli.Command{
		Name:    "ablate",
		Summary: "switch on the techniques that make a block measurable, one by one",
		Synopsis: []string{"ablate [flags] -hex HEX  (cycles and misses of a block at each step)",
			"ablate [flags] FILE...   (the share of a corpus that is measured at each step)"},
		About: `The steps are those of the BHive paper, then bbprof's own, each on top of the one before:
  nothing                        no page is mapped; the time of 100 copies, divided by 100
  a physical page for each page  pages are mapped as the block accesses them
  one frame for all pages        all of them on one physical page
  no subnormals                  they count as zero
  difference of two images       the time of 200 copies less that of 100, divided by 100
  smaller unroll factors         as many copies as the front end holds
  separate frames where needed   a frame for each page where sharing one would cost time
  invalid traces rejected        for split accesses, aliasing, misses
  other initial states           for blocks that fail in the paper's
Misses are of a whole run: counted with hardware counters, else predicted; the last line says which.
`,
		Notes: "docs/explain.md shows a corpus beside the paper's shares.\n",
		Examples: `bbprof ablate -hex '48 8b 03 48 81 c3 40 10 00 00'
bbprof ablate blocks.csv
`,
		Exits: cli.Exits("measured at one step at least; the end of the corpus was reached", "the block is rejected at every step", nil),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			a := ablateCmd{Study: blockflags.Study{Opts: profiler.Options{Detail: true}}}
			a.Block.Add(f)
			f.Operands = &a.files
			a.Out.Add(f, "the table")
			blockflags.WhereFlags(f, &a.Opts)
			return a.Out.Resumable(f, a.run)
		},
	}
}

type ablateCmd struct {
	blockflags.Study
	files []string
}

func (a *ablateCmd) run(std cli.Streams) error {
	if err := a.OneOrFiles(a.files); err != nil {
		return err
	}
	if !a.Block.Given() && len(a.files) == 0 {
		return cli.BadUsage("no block: give one with -hex, or name a file of blocks")
	}
	if len(a.files) > 0 {
		return a.corpus(std)
	}
	block, err := a.Block.Read(std)
	if err != nil {
		return err
	}
	return blockflags.WithProfiler(std, a.Opts, func(ctx context.Context, p *pool.Patient) error {
		stages, err := ablate.Block(ctx, p, block)
		return cli.Ended(err, cli.Stopped(err) && len(stages) > 0, func() error {
			if writeErr := a.write(std, stages, stageTable(stages), err); writeErr != nil || err != nil {
				return writeErr
			}
			return stagesOutcome(stages)
		})
	})
}

func stagesOutcome(stages []ablate.Stage) error {
	err := error(cli.ErrRejected)
	for _, s := range stages {
		switch s.Result.Status {
		case profiler.OK:
			err = nil
		case profiler.Failed:
			return fmt.Errorf("%s: %s", s.Step, s.Result.Failure)
		}
	}
	return err
}

func (a *ablateCmd) write(std cli.Streams, steps any, table string, err error) error {
	object := map[string]any{"steps": steps}
	if err != nil {
		object["incomplete"] = true
		table += "incomplete: " + blockflags.EndedBy(err) + " before the end\n"
	}
	return a.Out.Write(std, object, table)
}

func (a *ablateCmd) corpus(std cli.Streams) error {
	in, err := rowflags.OpenBlocks(a.files, std.In)
	if err != nil {
		return cli.Usage(err)
	}
	defer in.Close()
	return blockflags.WithProfiler(std, a.Opts, func(ctx context.Context, p *pool.Patient) error { return a.shares(ctx, p, in, std) })
}

func (a *ablateCmd) shares(ctx context.Context, p pool.Profiler, in *input.Input, std cli.Streams) error {
	done := cli.Progress(a.Out.Notes(std), 0, "blocks")
	shares, err := ablate.Corpus(ctx, p, func() (profiler.Block, *verdict.Rejection, error) {
		row, err := in.Next()
		return row.Block(), row.Rejection, err
	}, done.Step)
	done.End()
	in.Ignored().Warn(std.Err)
	if err == nil && shares[0].Blocks == 0 {
		return cli.BadUsage("%s: no block in it; blocks are hexadecimal, such as 4801c0", strings.Join(a.files, ", "))
	}
	return cli.Ended(err, shares[0].Blocks > 0, func() error {
		return a.write(std, shares, shareTable(shares), err)
	})
}

func stageTable(stages []ablate.Stage) string {
	var w strings.Builder
	l1d, l1dKind := misses(stages, pmu.L1DReadMiss)
	l1i, l1iKind := misses(stages, pmu.L1IMiss)
	fmt.Fprintf(&w, "%-31s%11s  %-21s%9s%9s  %s\n", "on top of the steps before", "cycles", "95 % interval", "L1D", "L1I", "pages, frames, copies")
	for i, s := range stages {
		r := s.Result
		fmt.Fprintf(&w, "%-31s", s.Step)
		outcome := "rejected"
		if ablate.Crashed(r) {
			outcome = "crashed"
		}
		switch r.Status {
		case profiler.OK:
			fmt.Fprintf(&w, "%11.3f  %-21s%9s%9s  %d, %d, %s\n", r.Cycles, fmt.Sprintf("%.3f to %.3f", r.CILow, r.CIHigh),
				l1d[i], l1i[i], r.Pages, r.Frames, copiesText(r))
		case profiler.Rejected:
			fmt.Fprintf(&w, "%11s  %s: %s\n", outcome, r.Reason, r.Rejection.Detail)
		default:
			fmt.Fprintf(&w, "%11s  %s\n", "error", r.Failure)
		}
	}
	fmt.Fprintf(&w, "cycles are per iteration, misses those of a run of all copies; misses of L1D are %s, of L1I %s\n", l1dKind, l1iKind)
	return w.String()
}

func copiesText(r profiler.Result) string {
	if r.UnrollShort == 0 {
		return strconv.Itoa(r.UnrollLong)
	}
	return fmt.Sprintf("%d and %d", r.UnrollShort, r.UnrollLong)
}

// misses returns a run's misses at each stage: counted if every measured stage has a count, else predicted.
func misses(stages []ablate.Stage, role pmu.Role) (text []string, kind string) {
	kind = "predicted"
	counted := func(s ablate.Stage) bool { return countOf(s.Result, role) != nil }
	without := func(s ablate.Stage) bool { return s.Result.Status == profiler.OK && !counted(s) }
	if slices.ContainsFunc(stages, counted) && !slices.ContainsFunc(stages, without) {
		kind = "counted"
	}
	for _, s := range stages {
		p, copies := s.Result.Predicted, float64(s.Result.UnrollLong)
		switch c := countOf(s.Result, role); {
		case kind == "counted" && c != nil:
			text = append(text, wholeNumber(*c*copies))
		case p == nil:
			text = append(text, "")
		case role == pmu.L1IMiss:
			text = append(text, wholeNumber(p.RunL1IMisses))
		default:
			text = append(text, wholeNumber(p.L1DMisses*copies))
		}
	}
	return text, kind
}

func wholeNumber(n float64) string { return fmt.Sprintf("%.0f", n) }

func countOf(r profiler.Result, role pmu.Role) *float64 {
	for _, c := range r.Counters {
		if c.Role == string(role) && c.Kind == invariants.Counted {
			return c.PerIteration
		}
	}
	return nil
}

func shareTable(shares []ablate.Share) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%-31s%9s%9s  %s\n", "on top of the steps before", "measured", "paper", "most frequent reasons of the others")
	for _, s := range shares {
		paper := ""
		if s.Paper > 0 {
			paper = fmt.Sprintf("%.2f %%", s.Paper)
		}
		fmt.Fprintf(&w, "%-31s%9s%9s  %s\n", s.Step, fmt.Sprintf("%.2f %%", s.Percent()), paper, topReasons(s))
	}
	fmt.Fprintf(&w, "of %s\n", words.Plural(shares[0].Blocks, "block"))
	return w.String()
}

func topReasons(s ablate.Share) string {
	const few = 4
	text := words.Frequent(s.Reasons)
	text = text[:min(few, len(text))]
	if s.Failed > 0 {
		text = append(text, fmt.Sprintf("error %d", s.Failed))
	}
	return strings.Join(text, ", ")
}
