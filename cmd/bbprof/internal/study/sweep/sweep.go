// Package sweep varies one factor of a set-up: it measures a block or program at each value, and correlates the cycles
// with what was counted or predicted.
package sweep

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
)

type Sweep struct {
	Factor, Axis string // column name with unit, and axis label
	Points       []Point
	Groups       []Group
	OfBlock      bool // points have a status, and cycles are per iteration
	Incomplete   bool
}

// Point is the measurement at one value of the factor.
type Point struct {
	Value             int
	Cycles, Low, High float64 // NaN or infinite: not measured; no interval
	Runs              int
	Status, Reason    string // for blocks
}

// Group is a set of columns from one source.
type Group struct {
	Title   string // "" if obvious
	Columns []Column
	Brief   bool // many columns: one line each
}

// Column is a quantity known at each point besides its cycles.
type Column struct {
	Name   string
	Values []float64 // NaN: unknown
	Beside bool      // do not relate it to the cycles
	Why    string    // why it is unknown at every point
}

// Factor is what a block's sweep varies.
type Factor struct {
	Name   string // column name with unit, such as code_offset_bytes
	Label  string // axis label
	Values []int
	Setup  func(value int) profiler.Setup
}

// Run measures the block at every value of the factor. Each result is the measured run with the median cycles, so that
// a short disturbance makes no spike. On ctx's error it returns the results so far; values without a run have the
// status Interrupted.
func Run(ctx context.Context, p pool.Profiler, code []byte, f Factor, plan experiment.Plan) ([]profiler.Result, error) {
	results, err := experiment.Run(ctx, len(f.Values), plan, func(ctx context.Context, i int) (profiler.Result, error) {
		r, err := p.Profile(ctx, profiler.Block{Code: code, Setup: f.Setup(f.Values[i])})
		if err == nil && r.Status == profiler.Failed {
			err = fmt.Errorf("%s %d: %s", f.Name, f.Values[i], r.Failure)
		}
		return r, err
	})
	if err != nil && (ctx.Err() == nil || !slices.ContainsFunc(results, func(of []profiler.Result) bool { return of != nil })) {
		return nil, err
	}
	var middles []profiler.Result
	for _, of := range results {
		middles = append(middles, middle(of))
	}
	return middles, err
}

const interrupted profiler.Status = "interrupted"

// middle returns the measured result with the median cycles, the faster of the middle two, or the first if none was
// measured.
func middle(results []profiler.Result) profiler.Result {
	measured := slices.DeleteFunc(slices.Clone(results), func(r profiler.Result) bool { return r.Status != profiler.OK })
	switch {
	case len(results) == 0:
		return profiler.Result{Status: interrupted}
	case len(measured) == 0:
		return results[0]
	}
	slices.SortStableFunc(measured, func(a, b profiler.Result) int { return cmp.Compare(a.Cycles, b.Cycles) })
	return measured[(len(measured)-1)/2]
}

const l1dMisses = "l1d_misses"

var predictions = []struct {
	name   string
	of     func(invariants.Prediction) float64
	beside bool
}{
	{"loads", func(p invariants.Prediction) float64 { return p.Loads }, true},
	{"stores", func(p invariants.Prediction) float64 { return p.Stores }, true},
	{"alias_4k", func(p invariants.Prediction) float64 { return p.Alias4K }, false},
	{"alias_stores_back", func(p invariants.Prediction) float64 { return float64(p.AliasStores) }, true},
	{"forwarded", func(p invariants.Prediction) float64 { return p.Forwarded }, false},
	{"alias_frame", func(p invariants.Prediction) float64 { return p.AliasFrame }, false},
	{"splits", func(p invariants.Prediction) float64 { return p.Splits }, false},
	{"page_splits", func(p invariants.Prediction) float64 { return p.PageSplits }, false},
	{l1dMisses, func(p invariants.Prediction) float64 { return p.L1DMisses }, false},
	{"l1i_misses", func(p invariants.Prediction) float64 { return p.L1IMisses }, false},
}

// OfBlock makes a sweep of these results of a block and the counted events, if any.
func OfBlock(code []byte, f Factor, results []profiler.Result, events []Column) Sweep {
	s := Sweep{Factor: f.Name, Axis: f.Label, OfBlock: true, Groups: []Group{{}}}
	for i, r := range results {
		p := Point{Value: f.Values[i], Status: string(r.Status), Reason: string(r.Reason), Cycles: math.NaN(), Low: math.NaN(), High: math.NaN()}
		if r.Status == profiler.OK {
			p.Cycles, p.Low, p.High = r.Cycles, r.CILow, r.CIHigh
		}
		s.Points = append(s.Points, p)
	}
	for _, c := range predictions {
		one := Column{Name: c.name, Beside: c.beside}
		for _, r := range results {
			v := math.NaN()
			if r.Predicted != nil {
				v = c.of(*r.Predicted)
			}
			one.Values = append(one.Values, v)
		}
		s.Groups[0].Columns = append(s.Groups[0].Columns, one)
	}
	if f.Name == codeOffset {
		s.Groups[0].Columns = slices.Concat(s.Groups[0].Columns, crossings(code, f.Values, results))
	}
	if len(events) > 0 {
		s.Groups = append(s.Groups, Group{Title: "events an iteration, each counted with a few others in runs of its own", Columns: events, Brief: true})
	}
	return s
}

// Runs makes a program's point: the median of its runs, with an interval from order statistics.
func Runs(value int, cycles []float64) Point {
	p := Point{Value: value, Runs: len(cycles)}
	p.Cycles, p.Low, p.High = stat.MedianInterval(cycles)
	return p
}

func (s Sweep) Table() [][]string {
	header := []string{s.Factor, "cycles", "ci_low", "ci_high", "runs"}
	if s.OfBlock {
		header = []string{s.Factor, "status", "reason", "cycles", "ci_low", "ci_high"}
	}
	for _, g := range s.Groups {
		for _, c := range g.Columns {
			header = append(header, c.Name)
		}
	}
	table := [][]string{header}
	for i, p := range s.Points {
		row := []string{strconv.Itoa(p.Value), s.cycles(p.Cycles), s.cycles(p.Low), s.cycles(p.High), strconv.Itoa(p.Runs)}
		if s.OfBlock {
			row = slices.Concat(row[:1], []string{p.Status, p.Reason}, row[1:4])
		}
		for _, g := range s.Groups {
			for _, c := range g.Columns {
				v := c.Values[i]
				if !s.OfBlock {
					v = math.Round(v)
				}
				row = append(row, count(v))
			}
		}
		table = append(table, row)
	}
	return table
}

// cycles formats with a batch's decimals, or none for a program. Unknown values are empty.
func (s Sweep) cycles(v float64) string {
	if v-v != 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', map[bool]int{true: 4}[s.OfBlock], 64)
}

// count formats a number of events, possibly a fractional mean; empty, not zero, if not counted.
func count(v float64) string {
	if v-v != 0 {
		return ""
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}
