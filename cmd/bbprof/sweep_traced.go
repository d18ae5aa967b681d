package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
)

// tracedColumn is something that is counted of a program in one set-up.
type tracedColumn struct {
	name string
	of   func(p program.Point, c trace.Counts) float64
}

// tracedColumns are those of sweep -trace, in the order of the table.
var tracedColumns = []tracedColumn{
	{"page_faults", func(p program.Point, _ trace.Counts) float64 { return medianOf(p.Faults) }},
	{"context_switches", func(p program.Point, _ trace.Counts) float64 { return medianOf(p.Switches) }},
	{"loads", func(_ program.Point, c trace.Counts) float64 { return c.Loads }},
	{"stores", func(_ program.Point, c trace.Counts) float64 { return c.Stores }},
	{"alias_4k", func(_ program.Point, c trace.Counts) float64 { return c.Alias4K }},
	{"alias_stores_back", func(_ program.Point, c trace.Counts) float64 { return float64(c.AliasStores) }},
	{"forwarded", func(_ program.Point, c trace.Counts) float64 { return c.Forwarded }},
	{"splits", func(_ program.Point, c trace.Counts) float64 { return c.Splits }},
	{"page_splits", func(_ program.Point, c trace.Counts) float64 { return c.PageSplits }},
	{"lines", func(_ program.Point, c trace.Counts) float64 { return float64(c.Lines) }},
	{"pages", func(_ program.Point, c trace.Counts) float64 { return float64(c.Pages) }},
}

func medianOf(x []float64) float64 {
	median, _, _ := stat.MedianInterval(x)
	return median
}

// countColumn is something that was counted of a program with each value.
type countColumn struct {
	name   string
	values []float64
}

func (f *programFactor) summary(points []program.Point, traces []trace.Counts) string {
	var all []countColumn
	for _, c := range tracedColumns {
		one := countColumn{name: c.name}
		for i, p := range points {
			one.values = append(one.values, c.of(p, traces[i]))
		}
		all = append(all, one)
	}
	return f.relate(points, all, fmt.Sprintf("of %s a value, counted by steps", plural(traces[0].Instructions, "instruction"))) + f.aliases(points, traces)
}

// changedShare is by how much a count at the slowest value differs from that at the fastest to be pointed out: the
// share by which "Measurement Bias from Address Aliasing" chooses events.
const changedShare = 0.25

// relate correlates what was counted with the cycles, in the given order, and finds what stands out in both.
func (f *programFactor) relate(points []program.Point, all []countColumn, how string) string {
	var w strings.Builder
	as := f.asPoints(points)
	var cycles []float64
	for _, p := range as {
		cycles = append(cycles, p.Result.Cycles)
	}
	fastest, slowest := slices.Min(cycles), slices.Max(cycles)
	at := [2]int{slices.Index(cycles, fastest), slices.Index(cycles, slowest)}
	fmt.Fprintf(&w, "bbprof: %.0f to %.0f cycles, a ratio of %.3f; %s:\n", fastest, slowest, slowest/fastest, how)
	var constant []string
	for _, c := range all {
		r := sweep.Correlate(c.name, c.values, cycles)
		if math.IsNaN(r.R) {
			constant = append(constant, c.name)
			continue
		}
		fmt.Fprintf(&w, "  %-17s correlation with cycles %+.3f, 95 %% interval %+.3f to %+.3f\n", c.name, r.R, r.Low, r.High)
		s := sweep.Stand(as, c.values)
		fmt.Fprintf(&w, "  %17s more than elsewhere at %s: median %.0f cycles there, %.0f elsewhere\n", "", numbers(s.Predicted), s.There, s.Elsewhere)
		fmt.Fprintf(&w, "  %17s slower than the usual %.0f cycles by 3 %%: %s, and of those %s\n", "", s.Usual, numbers(s.Slow), numbers(s.Both))
		if fast, slow := c.values[at[0]], c.values[at[1]]; math.Abs(slow-fast) > changedShare*min(math.Abs(fast), math.Abs(slow)) {
			fmt.Fprintf(&w, "  %17s more than 25 %% apart: %.0f at the fastest value (%d), %.0f at the slowest (%d)\n", "", fast, as[at[0]].Value, slow, as[at[1]].Value)
		}
	}
	if len(constant) > 0 {
		fmt.Fprintf(&w, "  the same at all values: %s\n", strings.Join(constant, ", "))
	}
	return w.String()
}

// asPoints are the medians and intervals of a program as those of a block, which spikes are found in.
func (f *programFactor) asPoints(points []program.Point) (as []sweep.Point) {
	for _, p := range points {
		median, low, high := stat.MedianInterval(p.Cycles)
		as = append(as, sweep.Point{Value: f.value(p.Setup), Result: profiler.Result{Status: profiler.OK, Cycles: median, CILow: low, CIHigh: high}})
	}
	return as
}

// aliases lists the instructions that alias, of each pair the values at which it does so, the most
// frequent first.
func (f *programFactor) aliases(points []program.Point, traces []trace.Counts) string {
	type pair struct {
		first  trace.Alias
		values []int
		times  int
	}
	var pairs []*pair
	for i, t := range traces {
		for _, a := range t.Aliases {
			at := slices.IndexFunc(pairs, func(p *pair) bool { return p.first.Load.Place == a.Load.Place && p.first.Store.Place == a.Store.Place })
			if at < 0 {
				at = len(pairs)
				pairs = append(pairs, &pair{first: a})
			}
			pairs[at].values = append(pairs[at].values, f.value(points[i].Setup))
			pairs[at].times += a.Times
		}
	}
	slices.SortStableFunc(pairs, func(a, b *pair) int { return b.times - a.times })
	var w strings.Builder
	const most = 8
	for _, p := range pairs[:min(len(pairs), most)] {
		a := p.first
		fmt.Fprintf(&w, "  aliased by %s at %s:\n    %s at %s loads %s (%#x)\n    after %s at %s stored to %s (%#x)\n", plural(p.times, "load"), numbers(p.values),
			a.Load.Text, a.Load.Place, a.Load.What, a.Load.Addr, a.Store.Text, a.Store.Place, a.Store.What, a.Store.Addr)
	}
	if len(pairs) > most {
		fmt.Fprintf(&w, "  and %s of instructions\n", plural(len(pairs)-most, "more pair"))
	}
	return w.String()
}
