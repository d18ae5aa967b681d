package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/selftest"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func selftestCommand() *cli.Command {
	return &cli.Command{
		Name:     "selftest",
		Summary:  "test bbprof by blocks whose times are related or known",
		Synopsis: []string{"selftest [flags]"},
		About: `The last blocks are checked against the core's own other times: several chains in one block must
take the sum of their times, and the same in a loop as in a row. They fail where bbprof measures
wrongly, on any core. The others are compared with a table of what is known of this core. A number
is met within 1.5 % or 0.02 cycles.
With hardware counters, both clocks time all blocks. The outcome is
  pass
  FAIL       not the expected number, or a rejection that other work does not explain
  differs    not what the table has for this core, which may be the table's fault
  disturbed  other work on the core let none of three tries finish: neither pass nor fail
  skipped    this CPU does not execute the block, or no answer is known
`,
		Notes: "docs/method.md says how well known latencies are met.\n",
		Examples: `bbprof selftest
bbprof selftest -json | jq '.blocks[] | select(.status != "pass")'
`,
		Exits: cli.Exits("no block failed", "a block failed, or the clocks differ", map[int]string{
			cli.ExitHost:        "this host cannot measure, or every block was disturbed; the message says what would help",
			cli.ExitInterrupted: "interrupted"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			var s selftesting
			f.Stray = "it measures its own blocks"
			f.Toggle(&s.short, "short", "only four blocks of the table and three relations")
			s.out.Add(f, "the table")
			blockflags.WhereFlags(f, &s.opts)
			return s.run
		},
	}
}

type selftesting struct {
	opts  profiler.Options
	short bool
	out   cli.Output
}

func (s *selftesting) run(std cli.Streams) error {
	cpu := host.Detect(s.opts.CPUs...)
	ctx, stop := cli.UntilSignal()
	defer stop()
	outcomes, clocks, err := selftestBy(ctx, s.opts, cpu, selftest.Scope(s.short))
	if err == nil && clocks.TimedBy == profiler.PerfClock {
		opts := s.opts
		opts.Clock = profiler.TSCClock
		var byTSC []selftest.Outcome
		byTSC, _, err = selftestBy(ctx, opts, cpu, selftest.Scope(s.short))
		clocks.Compared = selftest.CompareClocks(outcomes, byTSC)
	}
	if err != nil {
		return err
	}
	tally := selftest.Count(outcomes)
	result := struct {
		CPU    host.CPU           `json:"cpu"`
		Count  selftest.Tally     `json:"count"`
		Blocks []selftest.Outcome `json:"blocks"`
		Clocks clocksJSON         `json:"clocks"`
	}{cpu, tally, outcomes, clocks}
	if err := s.out.Write(std, result, selftestReport(cpu, outcomes)+clocks.report()); err != nil {
		return err
	}
	if err := selftestOutcome(tally); err != nil || clocks.agree() {
		return err
	}
	return cli.ErrRejected
}

type clocksJSON struct {
	TimedBy  profiler.ClockChoice  `json:"timed_by"` // the outcomes' clock
	NoPerf   string                `json:"no_perf,omitempty"`
	Compared []selftest.Comparison `json:"compared,omitempty"`
}

func selftestBy(ctx context.Context, opts profiler.Options, cpu host.CPU, scope selftest.Scope) (
	outcomes []selftest.Outcome, clocks clocksJSON, err error) {
	p, err := profiler.New(ctx, opts)
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
	outcomes, err = selftest.Run(ctx, p, cpu, scope)
	return outcomes, clocks, err
}

func (c clocksJSON) agree() bool {
	return !slices.ContainsFunc(c.Compared, func(c selftest.Comparison) bool { return !c.Agree })
}

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

// selftestOutcome is how a selftest ends: where no block could be judged, nothing was tested.
func selftestOutcome(t selftest.Tally) error {
	switch {
	case t.Fail > 0:
		return cli.ErrRejected
	case t.Pass == 0 && t.Differs == 0:
		return &verdict.HostError{
			Missing: "no block was left alone for long enough",
			Remedy:  "choose another CPU with -cpus, give more time with -budget, or keep other work off this core",
			Busy:    true,
		}
	}
	return nil
}

func selftestReport(cpu host.CPU, outcomes []selftest.Outcome) string {
	t := cli.NewTable("llrl", "block", "expected", "measured", "95 % interval", "outcome")
	for _, o := range outcomes {
		var expected, measured, interval string
		outcome := string(o.Status)
		if o.Status == selftest.Fail {
			outcome = "FAIL"
		}
		if o.Why != "" {
			outcome += ": " + o.Why
		}
		if o.Status != selftest.Skipped && o.Expected() != (selftest.Answer{}) { // a relation has none if its other blocks were not measured
			expected = o.Expected().String()
		}
		if o.Cycles > 0 {
			measured, interval = fmt.Sprintf("%.3f", o.Cycles), fmt.Sprintf("%.3f to %.3f", o.CILow, o.CIHigh)
		}
		t.Row(o.Text, expected, measured, interval, outcome)
	}
	tally := selftest.Count(outcomes)
	text := fmt.Sprintf("%s%s; answers for %s (%s)\n", t, tally, core(cpu), strings.TrimSpace(cpu.Brand))
	if tally.Differs > 0 {
		text += fmt.Sprintf("%s from bbprof's table for this core, and bbprof is consistent: please report it with bbprof selftest -json, at github.com/bbprof/bbprof/issues\n",
			words.Plural(tally.Differs, "block")+map[bool]string{true: " differs", false: " differ"}[tally.Differs == 1])
	}
	return text
}

func core(c host.CPU) string {
	switch {
	case c.Microarchitecture == cpu.Unknown:
		return fmt.Sprintf("a core that bbprof does not know: %s family %#x model %#x", c.Vendor, c.Family, c.Model)
	case selftest.AnswersOf(c.Microarchitecture) == cpu.Unknown:
		return fmt.Sprintf("any core, since there are none for %s", c.Microarchitecture)
	}
	return string(c.Microarchitecture)
}
