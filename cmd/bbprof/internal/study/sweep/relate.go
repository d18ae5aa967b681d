package sweep

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
)

// Counted is something that is known of each of some points beside its cycles.
type Counted struct {
	Name   string
	Values []float64
}

// Related is a Counted with what it says of the cycles.
type Related struct {
	Counted
	Correlation
	Spikes
}

// predictions are what the trace predicts of an iteration, in the order of the table.
var predictions = []struct {
	name string
	of   func(invariants.Prediction) float64
}{
	{"alias_4k", func(p invariants.Prediction) float64 { return p.Alias4K }},
	{"forwarded", func(p invariants.Prediction) float64 { return p.Forwarded }},
	{"alias_frame", func(p invariants.Prediction) float64 { return p.AliasFrame }},
	{"splits", func(p invariants.Prediction) float64 { return p.Splits }},
	{"page_splits", func(p invariants.Prediction) float64 { return p.PageSplits }},
	{"l1d_misses", func(p invariants.Prediction) float64 { return p.L1DMisses }},
	{"l1i_misses", func(p invariants.Prediction) float64 { return p.L1IMisses }},
}

// Correlation is Pearson's between a column and the cycles.
type Correlation struct {
	Column string
	N      int // points that were measured
	// R is NaN where the column or the cycles are the same at all points. Low to High is its
	// 95 % interval by Fisher's transformation, which takes four points.
	R, Low, High float64
}

// Relate relates what the trace predicts to the cycles of the points that were measured, by strength.
func Relate(points []Point) []Related {
	ps := measured(points)
	var all []Counted
	for _, c := range predictions {
		one := Counted{Name: c.name}
		for _, p := range ps {
			one.Values = append(one.Values, c.of(*p.Result.Predicted))
		}
		all = append(all, one)
	}
	return ByStrength(RelateTo(ps, all))
}

// RelateTo relates what was counted to the cycles of points that were all measured.
func RelateTo(ps []Point, counted []Counted) (all []Related) {
	var cycles []float64
	for _, p := range ps {
		cycles = append(cycles, p.Result.Cycles)
	}
	for _, c := range counted {
		all = append(all, Related{c, Correlate(c.Name, c.Values, cycles), stand(ps, cycles, c.Values)})
	}
	return all
}

// ByStrength puts the strongest correlation first; what does not vary comes last.
func ByStrength(all []Related) []Related {
	slices.SortStableFunc(all, func(a, b Related) int { return compareStrength(a.R, b.R) })
	return all
}

// Correlate relates one column to the cycles.
func Correlate(name string, x, cycles []float64) Correlation {
	c := Correlation{Column: name, N: len(x), R: math.NaN(), Low: math.NaN(), High: math.NaN()}
	if len(x) < 2 || constant(x) || constant(cycles) {
		return c
	}
	c.R = stat.Pearson(x, cycles)
	if len(x) > 3 {
		// Fisher (1915): atanh r is close to normal with a variance of 1/(n-3).
		half := stat.NormalQuantile(0.975) / math.Sqrt(float64(len(x)-3))
		z := math.Atanh(math.Max(-1, math.Min(1, c.R)))
		c.Low, c.High = math.Tanh(z-half), math.Tanh(z+half)
	}
	return c
}

// constant takes sums of the same numbers in another order for the same.
func constant(x []float64) bool { return slices.Max(x)-slices.Min(x) < 1e-9 }

// compareStrength puts the stronger correlation first and none last.
func compareStrength(a, b float64) int {
	strength := func(r float64) float64 {
		if math.IsNaN(r) {
			return -1
		}
		return math.Abs(r)
	}
	switch a, b := strength(a), strength(b); {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// A point is a spike if it is slower than the usual cycles by spikeShare: more
// than two runs of one set-up differ, with rare exceptions (docs/method.md).
const spikeShare = 0.03

// Spikes are what stands out of a sweep, and what was expected to.
type Spikes struct {
	Usual     float64 // median cycles of all points
	There     float64 // and of those where the column is above its least; NaN without such points
	Elsewhere float64 // and of all others
	Slow      []int   // values whose interval lies above the usual by 3 %
	Predicted []int   // values where the column is above its least
	Both      []int
	Known     bool // all points have an interval: without it none can be told to be slow
}

// SpikesOf are the values that stand out, whatever goes along with them.
func SpikesOf(points []Point) Spikes {
	var cycles []float64
	for _, p := range points {
		cycles = append(cycles, p.Result.Cycles)
	}
	return stand(points, cycles, make([]float64, len(points)))
}

// stand compares where a column predicts slow points with where they are.
func stand(ps []Point, cycles, column []float64) Spikes {
	var s Spikes
	if len(ps) == 0 {
		return s
	}
	s.Usual = median(cycles)
	s.Known = !slices.ContainsFunc(ps, func(p Point) bool { return math.IsInf(p.Result.CILow, 0) || math.IsNaN(p.Result.CILow) })
	least := slices.Min(column)
	var there, elsewhere []float64
	for i, p := range ps {
		slow, predicted := p.Result.CILow > s.Usual*(1+spikeShare), column[i] > least+1e-9
		if slow {
			s.Slow = append(s.Slow, p.Value)
		}
		if predicted {
			s.Predicted = append(s.Predicted, p.Value)
			there = append(there, cycles[i])
		} else {
			elsewhere = append(elsewhere, cycles[i])
		}
		if slow && predicted {
			s.Both = append(s.Both, p.Value)
		}
	}
	s.There, s.Elsewhere = median(there), median(elsewhere)
	return s
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(x))[(len(x)-1)/2]
}

// measured are the points with cycles, of which the trace has said what it predicts.
func measured(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Result.Status != profiler.OK || p.Result.Predicted == nil })
}
