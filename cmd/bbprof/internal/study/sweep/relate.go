package sweep

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
)

// Column is something that is known of every point beside its cycles.
type Column struct {
	Name string
	Of   func(invariants.Prediction) float64
}

// Columns are what the trace predicts of an iteration, in the order of the table.
func Columns() []Column {
	return []Column{
		{"alias_4k", func(p invariants.Prediction) float64 { return p.Alias4K }},
		{"forwarded", func(p invariants.Prediction) float64 { return p.Forwarded }},
		{"alias_frame", func(p invariants.Prediction) float64 { return p.AliasFrame }},
		{"splits", func(p invariants.Prediction) float64 { return p.Splits }},
		{"page_splits", func(p invariants.Prediction) float64 { return p.PageSplits }},
		{"l1d_misses", func(p invariants.Prediction) float64 { return p.L1DMisses }},
		{"l1i_misses", func(p invariants.Prediction) float64 { return p.L1IMisses }},
	}
}

// Correlation is Pearson's between a column and the cycles.
type Correlation struct {
	Column string
	N      int // points that were measured
	// R is NaN where the column or the cycles are the same at all points. Low to High is its
	// 95 % interval by Fisher's transformation, which takes four points.
	R, Low, High float64
}

// Relate correlates every column with the cycles over the points that were measured, the
// strongest first; columns that do not vary come last.
func Relate(points []Point) []Correlation {
	ps := measured(points)
	var all []Correlation
	for _, c := range Columns() {
		var x, y []float64
		for _, p := range ps {
			if p.Result.Predicted != nil {
				x, y = append(x, c.Of(*p.Result.Predicted)), append(y, p.Result.Cycles)
			}
		}
		all = append(all, Correlate(c.Name, x, y))
	}
	slices.SortStableFunc(all, func(a, b Correlation) int { return compareStrength(a.R, b.R) })
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

// spikeShare is by how much of the usual cycles a point has to be slower to be a spike: more
// than two runs of one set-up differ by, with rare exceptions (docs/precision.md).
const spikeShare = 0.03

// Spikes are what stands out of a sweep, and what was expected to.
type Spikes struct {
	Usual     float64 // median cycles of all points
	There     float64 // and of those where the column is above its least; NaN without such points
	Elsewhere float64 // and of all others
	Slow      []int   // values whose interval lies above the usual by 3 %
	Predicted []int   // values where the column is above its least
	Both      []int
}

// FindSpikes compares where a column predicts slow points with where they are.
func FindSpikes(points []Point, c Column) Spikes {
	ps := measured(points)
	var column []float64
	for _, p := range ps {
		v := 0.0
		if p.Result.Predicted != nil {
			v = c.Of(*p.Result.Predicted)
		}
		column = append(column, v)
	}
	return Stand(ps, column)
}

// Stand is FindSpikes of points that were all measured, each with the column's value in its place.
func Stand(ps []Point, column []float64) Spikes {
	var s Spikes
	if len(ps) == 0 {
		return s
	}
	var cycles []float64
	for _, p := range ps {
		cycles = append(cycles, p.Result.Cycles)
	}
	s.Usual = median(cycles)
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

func measured(points []Point) []Point {
	var ps []Point
	for _, p := range points {
		if p.Result.Status == profiler.OK {
			ps = append(ps, p)
		}
	}
	return ps
}
