package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/check"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// checkFlags are what the user may say of a check.
type checkFlags struct {
	measuring profiler.Options
	baseline  string
	blocks    string
	threshold float64
	anyway    bool
	json      bool
	verbose   bool
}

// checking finds blocks that have become slower than a baseline says: bbprof check.
func checking(args []string, std streams) int {
	c, code, done := parseCheck(args, std)
	if done {
		return code
	}
	blocks, err := c.read(std)
	if err != nil {
		return usageError(std, "check: %v", err)
	}
	ctx, stop := untilSignal()
	defer stop()
	outcomes, err := check.Run(ctx, blocks, check.Options{
		Threshold: c.threshold,
		Start:     func() (measure.ProfileCloser, error) { return profiler.New(c.measuring) },
		Screened:  progress(std, len(blocks), "blocks"),
	})
	if err != nil {
		return failure(std, err)
	}
	if c.json {
		err = writeChecked(std.out, outcomes)
	} else {
		_, err = io.WriteString(std.out, c.report(outcomes))
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the result: %w", err))
	}
	return checkCode(outcomes, std)
}

// checkCode is the exit code: where nothing could be measured, nothing was checked.
func checkCode(outcomes []check.Outcome, std streams) int {
	disturbed := func(o check.Outcome) bool { return o.Rejection.Reason.Noise() }
	switch n := statuses(outcomes); {
	case n[check.Slower] > 0:
		return exitRejected
	case n[check.Unknown] == len(outcomes) && !slices.ContainsFunc(outcomes, disturbed):
		return usageError(std, "check: not one of the blocks can be measured%s", reasons(outcomes))
	case n[check.Unknown] == len(outcomes):
		return failure(std, &verdict.HostError{
			Missing: "not one block of the baseline could be measured",
			Remedy:  "bbprof check -v lists why; if other work keeps the core busy, choose another with -cpu or give more time with -budget",
		})
	}
	return exitOK
}

// parseCheck reads the flags of bbprof check. If done is true the command ends with code.
func parseCheck(args []string, std streams) (c checkFlags, code int, done bool) {
	f := newFlags("bbprof check")
	c.threshold = 0.02
	f.Func("threshold", "", func(s string) (err error) {
		c.threshold, err = parseThreshold(s)
		return err
	})
	f.StringVar(&c.blocks, "blocks", "", "")
	f.BoolVar(&c.anyway, "anyway", false, "")
	f.BoolVar(&c.json, "json", false, "")
	f.BoolVar(&c.verbose, "v", false, "")
	measuring(f, &c.measuring)
	operands, code, done := parse(f, args, usageCheck, std)
	if done {
		return c, code, true
	}
	if err := c.measuring.Check(); err != nil {
		return c, usageError(std, "check: %v", err), true
	}
	if c.measuring.Mode == profiler.Both {
		return c, usageError(std, "check: -mode both gives two numbers; choose unroll or loop"), true
	}
	if len(operands) != 1 {
		return c, usageError(std, "check: %d baselines named; name one, a file that bbprof batch wrote, or - for standard input", len(operands)), true
	}
	c.baseline = operands[0]
	if c.baseline == "-" && c.blocks == "-" {
		return c, usageError(std, "check: standard input can be the baseline or the blocks, not both"), true
	}
	return c, 0, false
}

// parseThreshold reads a share such as 0.05, or percent such as 5%.
func parseThreshold(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	t, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		t /= 100
	}
	if err != nil || !(t >= 0 && t < math.Inf(1)) {
		return 0, errors.New("write a share such as 0.05, or 5%")
	}
	return t, nil
}

// read is the blocks to check. An error is about the baseline, or the code that replaces its.
func (c *checkFlags) read(std streams) ([]check.Block, error) {
	b, err := c.readBaseline(std.in)
	if err != nil {
		return nil, err
	}
	here, err := c.here()
	if err != nil {
		return nil, err
	}
	unlike, told := b.against(here)
	if len(unlike) > 0 && !c.anyway {
		return nil, fmt.Errorf("%s was measured under other conditions, so a difference would say nothing of its blocks:\n  %s\nmeasure a new baseline, give the flags that it was measured with, or say -anyway",
			c.baseline, strings.Join(unlike, "\n  "))
	}
	for _, d := range slices.Concat(unlike, told) {
		fmt.Fprintf(std.err, "bbprof: warning: %s: %s\n", c.baseline, d)
	}
	if c.blocks != "" {
		if err := c.replace(b.rows, std); err != nil {
			return nil, err
		}
	}
	blocks := check.Distinct(b.rows)
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s holds no block that was measured", c.baseline)
	}
	return blocks, nil
}

// readBaseline reads the file that is named, or standard input.
func (c *checkFlags) readBaseline(stdin io.Reader) (baseline, error) {
	var (
		in     resultfile.Reader
		closer io.Closer = io.NopCloser(nil)
		err    error
	)
	if c.baseline == "-" {
		in, err = resultfile.OpenStream(stdin)
	} else {
		in, closer, err = resultfile.OpenFile(c.baseline)
	}
	if err != nil {
		return baseline{}, err
	}
	defer closer.Close()
	b, err := readBaseline(in)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.baseline, err)
	}
	return b, err
}

// here is what this check measures with, as a baseline tells of its run.
func (c *checkFlags) here() (resultfile.Run, error) {
	settings, err := resultfile.SettingsOf(c.measuring)
	return resultfile.Run{Version: versionText(), Host: resultfile.HostOf(host.Detect()), Settings: settings}, err
}

// replace puts other code, row by row, in the place of the baseline's.
func (c *checkFlags) replace(rows []check.Block, std streams) error {
	s, err := readSide("-blocks", c.blocks, std.in)
	if err != nil {
		return err
	}
	if s.kind == aCommand {
		return fmt.Errorf("-blocks %s is a program; name a file of blocks", c.blocks)
	}
	if len(s.rows) != len(rows) {
		return fmt.Errorf("-blocks: %s has %s and the baseline %s: they are compared row by row", c.blocks, plural(len(s.rows), "block"), plural(len(rows), "row"))
	}
	for i := range rows {
		if s.rows[i].Rejection != nil && rows[i].Measured() {
			return fmt.Errorf("-blocks: %s: %w", c.blocks, s.rows[i].Rejection)
		}
		rows[i].Code = s.rows[i].Code
	}
	return nil
}

// checkedJSON is an outcome as JSON.
type checkedJSON struct {
	Row       int                `json:"row"`
	Hex       string             `json:"hex"`
	Status    check.Status       `json:"status"`
	Baseline  float64            `json:"baseline_cycles"`
	Cycles    float64            `json:"cycles,omitzero"`
	Slowdown  float64            `json:"slowdown_percent"`
	Low       float64            `json:"ci_low_percent"`
	High      float64            `json:"ci_high_percent"`
	P         float64            `json:"p_adjusted"`
	Fresh     int                `json:"fresh_measurements"`
	FastAt    *int               `json:"as_fast_at_start,omitempty"`
	Rejection *verdict.Rejection `json:"rejection,omitempty"`
}

func writeChecked(w io.Writer, outcomes []check.Outcome) error {
	e := json.NewEncoder(w)
	for _, o := range outcomes {
		err := e.Encode(checkedJSON{o.Block.Row, fmt.Sprintf("%x", o.Block.Code), o.Status, o.Block.Cycles, o.Cycles, o.Slowdown, o.Low, o.High, o.P, o.Fresh, o.FastAt, o.Rejection})
		if err != nil {
			return err
		}
	}
	return nil
}

// report lists the blocks that are slower, or with -v all, and counts the others.
func (c *checkFlags) report(outcomes []check.Outcome) string {
	var w strings.Builder
	listed := outcomes
	if !c.verbose {
		listed = slices.DeleteFunc(slices.Clone(outcomes), func(o check.Outcome) bool { return o.Status != check.Slower })
	}
	if len(listed) > 0 {
		fmt.Fprintf(&w, "%6s  %9s  %9s  %9s  %-18s  %8s  %-12s  %s\n", "row", "baseline", "now", "slower, %", "95 % interval", "p, adj.", "", "block")
	}
	for _, o := range listed {
		if o.Status == check.Unknown {
			fmt.Fprintf(&w, "%6d  %9.3f  %9s  %9s  %-18s  %8s  %-12s  %s: %s\n", o.Block.Row, o.Block.Cycles, "", "", "", "", o.Status, short(fmt.Sprintf("%x", o.Block.Code)), o.Rejection.Reason)
			continue
		}
		fmt.Fprintf(&w, "%6d  %9.3f  %9.3f  %9s  %-18s  %8.2g  %-12s  %s\n", o.Block.Row, o.Block.Cycles, o.Cycles,
			signed(o.Slowdown), signed(o.Low)+" to "+signed(o.High), o.P, o.Status, short(fmt.Sprintf("%x", o.Block.Code)))
	}
	n := statuses(outcomes)
	fmt.Fprintf(&w, "%s: %d slower by more than %g %%, %d looked so and were not when measured again, %d not measured%s\n",
		plural(len(outcomes), "block"), n[check.Slower], 100*c.threshold, n[check.Cleared], n[check.Unknown], reasons(outcomes))
	return w.String()
}

func statuses(outcomes []check.Outcome) map[check.Status]int {
	n := map[check.Status]int{}
	for _, o := range outcomes {
		n[o.Status]++
	}
	return n
}

// reasons tells why blocks were not measured, the most frequent first.
func reasons(outcomes []check.Outcome) string {
	n := map[verdict.Reason]int{}
	for _, o := range outcomes {
		if o.Status == check.Unknown {
			n[o.Rejection.Reason]++
		}
	}
	var list []string
	for _, r := range slices.SortedFunc(maps.Keys(n), func(a, b verdict.Reason) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) }) {
		list = append(list, fmt.Sprintf("%s %d", r, n[r]))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}
