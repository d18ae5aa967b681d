package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/stat"
)

// count sweeps a program again for each event, which is then all that is counted, so that none shares a counter. If
// ctx ends, its error comes with the events until then.
func (s *sweeping) count(ctx context.Context, r *program.Runner, c program.Command, setups []program.Setup, runs int, notes io.Writer) ([]countColumn, error) {
	events, note, err := r.Events(ctx, s.opts.Events)
	if err != nil {
		if errors.As(err, new(*program.UnknownEventError)) {
			err = &usageError{err}
		}
		return nil, err
	}
	if note != "" {
		fmt.Fprintf(notes, "bbprof: %s\n", note)
	}
	each := len(setups) * runs
	done := progress(notes, len(events)*each, "runs that count")
	defer done.end()
	var all []countColumn
	for i, e := range events {
		plan := program.Plan{Runs: runs, Seed: s.seed, Done: func(n int) { done.step(i*each + n) }}
		points, err := program.Sweep(ctx, program.Counter{Runner: r, Event: e}, c, setups, plan)
		if err != nil {
			return all, err
		}
		one := countColumn{name: e.Name}
		for _, p := range points {
			one.values = append(one.values, stat.Median(p.Counts))
		}
		all = append(all, one)
	}
	return all, nil
}

// screen is what events say, the strongest correlation first.
func (f *programFactor) screen(points []program.Point, events []countColumn, runs int) string {
	var cycles []float64
	for _, p := range points {
		cycles = append(cycles, medianOf(p.Cycles))
	}
	strength := func(c countColumn) float64 {
		if r := sweep.Correlate(c.name, c.values, cycles).R; !math.IsNaN(r) {
			return math.Abs(r)
		}
		return -1 // constant
	}
	sorted := slices.Clone(events)
	sort.SliceStable(sorted, func(i, j int) bool { return strength(sorted[i]) > strength(sorted[j]) })
	return f.relate(points, sorted, fmt.Sprintf("events of %s a value, each counted alone in runs of its own", plural(runs, "run")))
}
