package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/selftest"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// selftesting measures blocks whose time is known: bbprof selftest.
func selftesting(args []string, std streams) int {
	var (
		opts   profiler.Options
		f      = newFlags("bbprof selftest")
		short  = f.Bool("short", false, "")
		asJSON = f.Bool("json", false, "")
	)
	where(f, &opts)
	operands, code, done := parse(f, args, usageSelftest, std)
	if done {
		return code
	}
	if len(operands) > 0 {
		return usageError(std, "selftest: unexpected argument %q: it has blocks of its own", operands[0])
	}
	cpu := host.Detect()
	outcomes, clocks, err := selftestClocks(opts, cpu, selftest.Scope(*short))
	if err != nil {
		return failure(std, err)
	}
	if *asJSON {
		err = json.NewEncoder(std.out).Encode(selftestJSON{cpu, selftest.Count(outcomes), outcomes, clocks})
	} else {
		_, err = io.WriteString(std.out, selftestReport(cpu, outcomes)+clocks.report())
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the result: %w", err))
	}
	if code := selftestCode(selftest.Count(outcomes), std); code != exitOK || clocks.agree() {
		return code
	}
	return exitRejected
}

type selftestJSON struct {
	CPU    host.CPU           `json:"cpu"`
	Count  selftest.Tally     `json:"count"`
	Blocks []selftest.Outcome `json:"blocks"`
	Clocks clocksJSON         `json:"clocks"`
}

// clocksJSON is how both clocks compare, or why there is but one.
type clocksJSON struct {
	TimedBy  profiler.ClockChoice  `json:"timed_by"` // the outcomes' clock
	NoPerf   string                `json:"no_perf,omitempty"`
	Compared []selftest.Comparison `json:"compared,omitempty"`
}

// selftestClocks measures the blocks by the best clock there is, and by the other too where
// both exist.
func selftestClocks(opts profiler.Options, cpu host.CPU, scope selftest.Scope) (outcomes []selftest.Outcome, clocks clocksJSON, err error) {
	outcomes, clocks, err = selftestBy(opts, cpu, scope)
	if err != nil || clocks.TimedBy != profiler.PerfClock {
		return outcomes, clocks, err
	}
	opts.Clock = profiler.TSCClock
	byTSC, _, err := selftestBy(opts, cpu, scope)
	clocks.Compared = selftest.CompareClocks(outcomes, byTSC)
	return outcomes, clocks, err
}

func selftestBy(opts profiler.Options, cpu host.CPU, scope selftest.Scope) (outcomes []selftest.Outcome, clocks clocksJSON, err error) {
	p, err := profiler.New(opts)
	if err != nil {
		return nil, clocks, err
	}
	defer p.Close()
	var noPerf error
	if clocks.TimedBy, noPerf = p.Clock(); noPerf != nil {
		clocks.NoPerf = noPerf.Error()
		if lacks := (*verdict.HostError)(nil); errors.As(noPerf, &lacks) {
			clocks.NoPerf = lacks.Missing
		}
	}
	outcomes, err = selftest.Run(context.Background(), p, cpu, scope)
	return outcomes, clocks, err
}

// agree reports whether no block's times by the two clocks differ.
func (c clocksJSON) agree() bool {
	return !slices.ContainsFunc(c.Compared, func(c selftest.Comparison) bool { return !c.Agree })
}

// report is a line on the clocks, and one for each block that they disagree on.
func (c clocksJSON) report() string {
	if c.TimedBy != profiler.PerfClock {
		return fmt.Sprintf("clock: %s alone; %s\n", c.TimedBy, c.NoPerf)
	}
	var lines strings.Builder
	agree := 0
	for _, b := range c.Compared {
		if b.Agree {
			agree++
		} else {
			fmt.Fprintf(&lines, "%s: perf says %.3f, tsc %.3f: the clocks DIFFER\n", b.Text, b.Perf, b.TSC)
		}
	}
	fmt.Fprintf(&lines, "clocks: perf and tsc agree on %d of %d blocks that both measured\n", agree, len(c.Compared))
	return lines.String()
}

// selftestCode is the exit code: where no block could be judged, nothing was tested.
func selftestCode(t selftest.Tally, std streams) int {
	switch {
	case t.Fail > 0:
		return exitRejected
	case t.Pass == 0:
		return failure(std, &verdict.HostError{
			Missing: "no block was left alone for long enough",
			Remedy:  "choose another CPU with -cpu, give more time with -budget, or keep other work off this core",
			Busy:    true,
		})
	}
	return exitOK
}

// selftestReport is a table, with a failure in capitals, and the count.
func selftestReport(cpu host.CPU, outcomes []selftest.Outcome) string {
	width := 0
	for _, o := range outcomes {
		width = max(width, len(o.Text))
	}
	var w strings.Builder
	row := func(text, expected, measured, interval, outcome string) {
		line := fmt.Sprintf("%-*s  %-14s  %8s  %-16s  %s", width, text, expected, measured, interval, outcome)
		w.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	row("block", "expected", "measured", "95 % interval", "outcome")
	for _, o := range outcomes {
		var expected, measured, interval string
		outcome := string(o.Status)
		if o.Status == selftest.Fail {
			outcome = "FAIL"
		}
		if o.Why != "" {
			outcome += ": " + o.Why
		}
		if o.Status != selftest.Skipped {
			expected = o.Expected().String()
		}
		if o.Cycles > 0 {
			measured, interval = fmt.Sprintf("%.3f", o.Cycles), fmt.Sprintf("%.3f to %.3f", o.CILow, o.CIHigh)
		}
		row(o.Text, expected, measured, interval, outcome)
	}
	fmt.Fprintf(&w, "%s; answers for %s (%s)\n", selftest.Count(outcomes), core(cpu), strings.TrimSpace(cpu.Brand))
	return w.String()
}

// core says whose answers were looked for.
func core(c host.CPU) string {
	if c.Microarchitecture == cpu.Unknown {
		return fmt.Sprintf("a core that bbprof does not know, all of them bands: %s family %#x model %#x", c.Vendor, c.Family, c.Model)
	}
	return string(c.Microarchitecture)
}

// selftestLine is the count, and what failed.
func selftestLine(outcomes []selftest.Outcome) string {
	line := selftest.Count(outcomes).String()
	for _, o := range outcomes {
		if o.Status == selftest.Fail {
			line += fmt.Sprintf("; %s: %s, expected %v", o.Text, measuredOr(o, o.Why), o.Expected())
		}
	}
	return line
}

// measuredOr is what was measured, or why it was not.
func measuredOr(o selftest.Outcome, why string) string {
	if o.Cycles > 0 {
		return fmt.Sprintf("%.3f cycles", o.Cycles)
	}
	return why
}

// selftestWarning is what a batch says of a selftest that failed.
func selftestWarning(line string, unroll bool) string {
	hint := "bbprof selftest tells more"
	if unroll {
		hint = "-unroll may be why: so many copies need not fit the op cache"
	}
	return fmt.Sprintf("bbprof: warning: the selftest fails, so results may be wrong too: %s (%s)\n", line, hint)
}
