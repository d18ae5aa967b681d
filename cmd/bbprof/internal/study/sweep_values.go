package study

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/values"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// sweepValues varies the values of a block's operands.
func (s *sweepCmd) sweepValues(std cli.Streams) error {
	if err := blockflags.OneMode(&s.Opts, profiler.Unroll); err != nil {
		return err
	}
	var block profiler.Block
	var err error
	if s.Block.Given() || s.state == "" {
		if block, err = s.Block.Read(std); err != nil {
			return err
		}
	}
	if s.state != "" {
		if err := blockflags.StartState(&block, s.state); err != nil {
			return err
		}
		if block.Setup.Captured.Header != nil {
			return cli.BadUsage("-state %s is of a loop, and -values changes what a block reads: capture its blocks, without -loops", s.state)
		}
	}
	s.Opts.Detail = true
	switch {
	case s.runs == 0:
		s.runs = values.DefaultRounds
	case s.runs < values.LeastRounds:
		return cli.BadUsage("-runs %d: the intervals of -values take %d runs or more", s.runs, values.LeastRounds)
	}
	return blockflags.WithProfiler(std, s.Opts, func(ctx context.Context, p *pool.Patient) error {
		done := cli.Progress(s.Out.Notes(std), 0, "measurements")
		got, err := values.Run(ctx, p, block, experiment.Plan{Rounds: s.runs, Seed: s.seed, Done: done.Step})
		done.End()
		if err != nil {
			return err
		}
		return s.showValues(std, got)
	})
}

func (s *sweepCmd) showValues(std cli.Streams, got values.Sweep) (err error) {
	switch {
	case got.Base.Status != profiler.OK:
		return s.Show(std, got, "", got.Base, nil)
	case s.Out.JSON:
		err = s.Out.Write(std, got, "")
	default:
		if err = s.Out.Stream(std, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(valueRows(got)) }); err == nil {
			_, err = io.WriteString(s.Out.Notes(std), valueSummary(got))
		}
	}
	if err == nil && !slices.ContainsFunc(got.Points, values.Point.Measured) {
		err = cli.ErrRejected
	}
	return err
}

func valueRows(s values.Sweep) [][]string {
	rows := [][]string{{"input", "dependent", "values", "set", "status", "reason", "addresses_changed", "cycles", "effect", "effect_low", "effect_high"}}
	for _, p := range s.Points {
		row := []string{p.Input, strconv.FormatBool(p.Waits), p.Values, p.Set, p.Status, string(p.Reason), strconv.FormatBool(p.Moved)}
		for _, v := range []float64{p.Cycles, p.Effect, p.Low, p.High} {
			cell := ""
			if p.Measured() {
				cell = strconv.FormatFloat(v, 'f', 4, 64)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// inputs counts the inputs without that of all together.
func inputs(s values.Sweep) (n int) {
	for _, f := range s.Inputs {
		if f.Name != values.All {
			n++
		}
	}
	return n
}

func valueSummary(s values.Sweep) string {
	var w strings.Builder
	fixed, again := s.Points[0], s.Points[1]
	says := fmt.Sprintf("%.3f cycles, and measured so again ", fixed.Cycles)
	switch {
	case !fixed.Measured():
		says = fmt.Sprintf("%s (%s)", fixed.Status, fixed.Reason)
	case again.Measured():
		says += fmt.Sprintf("%+.2f %% (%+.2f to %+.2f)", 100*again.Effect/fixed.Cycles, 100*again.Low/fixed.Cycles, 100*again.High/fixed.Cycles)
	default:
		says += fmt.Sprintf("%s (%s)", again.Status, again.Reason)
	}
	fmt.Fprintf(&w, "bbprof: %s of %s, %s each; with fixed values %s\n",
		words.Plural(len(s.Points), "point"), words.Plural(inputs(s), "input"), words.Plural(s.Rounds, "measurement"), says)
	if s.Dependent != s.Independent {
		fmt.Fprintf(&w, "bbprof: measured as %s and as %s, which put back what the block overwrites, with and without waiting for it\n", s.Dependent, s.Independent)
	}
	table := cli.NewTable("lll", "input", "outcome", "")
	for _, f := range s.Inputs {
		table.Row(f.Name, string(f.Outcome), valueFinding(s, f))
	}
	w.WriteString(table.String())
	for _, what := range s.Beyond {
		fmt.Fprintf(&w, "bbprof: not varied: %s\n", what)
	}
	if h := s.Base.Host; h != nil {
		fmt.Fprintf(&w, "bbprof: on %s; speculative store bypass: %s; data operand independent timing mode: %s\n",
			strings.TrimSpace(h.CPU.Brand), h.SpeculativeStoreBypass, host.OperandIndependentTiming(h.CPU.Vendor, h.OnCPU))
	}
	w.WriteString("bbprof: this holds on this core with its microcode, at steady state and in L1; it says nothing of other cores, speculation or misses\n")
	return w.String()
}

// valueFinding says how much an input's values change the time, and what to know of them.
func valueFinding(s values.Sweep, f values.Finding) string {
	at := func(i int) string {
		p := s.Points[i]
		return fmt.Sprintf("%+.1f %% (%s, %.3f cycles)", 100*p.Share(), p.Values, p.Cycles)
	}
	var text string
	switch f.Outcome {
	case values.Untried:
		text = "no value could be measured"
	case values.NoEffect:
		text = fmt.Sprintf("above %.1f %%", 100*f.Within)
	case values.Unclear:
		text = "the intervals are too wide: more -runs, or an idle core"
	case values.Depends:
		text = at(f.Fastest) + " to " + at(f.Slowest)
	case values.Addresses:
		text = "values change where accesses go: " + at(f.Fastest) + " to " + at(f.Slowest)
	}
	if f.Fading {
		text += "; only the first iteration of a run sees it, since the block overwrites it"
	}
	return text
}
