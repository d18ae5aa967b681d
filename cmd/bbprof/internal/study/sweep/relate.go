package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
)

// Related is a column and its relation to the cycles, at the points where both are known.
type Related struct {
	Name   string
	Points []Point
	Values []float64
	// R is Pearson's correlation, NaN if the column or the cycles are constant. Low to High is its 95 % interval by
	// Fisher's transformation, which needs four points.
	R, Low, High float64
	Spikes
}

// Relate relates a group's columns to the cycles, the strongest correlation first and constant columns last.
func (s Sweep) Relate(g Group) (all []Related) {
	for _, c := range g.Columns {
		if !c.Beside && c.Why == "" {
			all = append(all, s.relate(c))
		}
	}
	strength := func(r Related) float64 {
		if math.IsNaN(r.R) {
			return -1
		}
		return math.Abs(r.R)
	}
	slices.SortStableFunc(all, func(a, b Related) int { return cmp.Compare(strength(b), strength(a)) })
	return all
}

func (s Sweep) relate(c Column) Related {
	r := Related{Name: c.Name}
	var cycles []float64
	for i, p := range s.Points {
		if v := c.Values[i]; !math.IsNaN(p.Cycles) && !math.IsNaN(v) {
			r.Points, r.Values, cycles = append(r.Points, p), append(r.Values, v), append(cycles, p.Cycles)
		}
	}
	r.R, r.Low, r.High = correlate(r.Values, cycles)
	r.Spikes = stand(r.Points, r.Values)
	return r
}

func correlate(x, y []float64) (r, low, high float64) {
	r, low, high = math.NaN(), math.NaN(), math.NaN()
	constant := func(x []float64) bool { return slices.Max(x)-slices.Min(x) < 1e-9 } // sums of the same numbers in another order
	if len(x) < 2 || constant(x) || constant(y) {
		return r, low, high
	}
	r = stat.Pearson(x, y)
	if len(x) > 3 {
		// Fisher (1915): atanh r is close to normal with a variance of 1/(n-3).
		half := stat.NormalQuantile(0.975) / math.Sqrt(float64(len(x)-3))
		z := math.Atanh(math.Max(-1, math.Min(1, r)))
		low, high = math.Tanh(z-half), math.Tanh(z+half)
	}
	return r, low, high
}

// A spike is slower than the usual cycles by more than spikeShare: more than two runs of one set-up differ, with rare
// exceptions (docs/method.md).
const spikeShare = 0.03

// Spikes holds a sweep's slow points, and those predicted.
type Spikes struct {
	Usual     float64 // median cycles of all points
	There     float64 // of those where the column exceeds its minimum; NaN without such points
	Elsewhere float64 // of all others
	Slow      []int   // values whose interval lies above the usual by 3 %
	Predicted []int   // values where the column exceeds its minimum
	Both      []int
	Known     bool // all points have an interval, without which none can be called slow
}

// stand compares a column's predicted slow points with the measured ones.
func stand(ps []Point, column []float64) (s Spikes) {
	if len(ps) == 0 {
		return s
	}
	var cycles, there, elsewhere []float64
	for _, p := range ps {
		cycles = append(cycles, p.Cycles)
	}
	s.Usual = stat.Median(cycles)
	s.Known = !slices.ContainsFunc(ps, func(p Point) bool { return math.IsInf(p.Low, 0) || math.IsNaN(p.Low) })
	least := slices.Min(column)
	for i, p := range ps {
		slow, predicted := p.Low > s.Usual*(1+spikeShare), column[i] > least+1e-9
		if slow {
			s.Slow = append(s.Slow, p.Value)
		}
		if predicted {
			s.Predicted, there = append(s.Predicted, p.Value), append(there, p.Cycles)
		} else {
			elsewhere = append(elsewhere, p.Cycles)
		}
		if slow && predicted {
			s.Both = append(s.Both, p.Value)
		}
	}
	s.There, s.Elsewhere = stat.Median(there), stat.Median(elsewhere)
	return s
}

// changedShare is the difference of a count between the slowest and the fastest value that is reported: the share by
// which "Measurement Bias from Address Aliasing" chooses events.
const changedShare = 0.25

// reasons lists how often points were rejected for what.
func (s Sweep) reasons() string {
	number := map[string]int{}
	for _, p := range s.Points {
		if p.Reason != "" {
			number[p.Reason]++
		}
	}
	if len(number) == 0 {
		return ""
	}
	return ": rejected: " + strings.Join(words.Frequent(number), ", ")
}

// Summary reports the cycles' range, the spikes, and each column's correlation with the cycles.
func (s Sweep) Summary() string {
	all := s.relate(Column{Values: make([]float64, len(s.Points))})
	if len(all.Points) == 0 {
		return fmt.Sprintf("bbprof: none of %d values of %s was measured%s\n", len(s.Points), s.Factor, s.reasons())
	}
	decimals := map[bool]int{true: 3}[s.OfBlock]
	byCycles := func(a, b Point) int { return cmp.Compare(a.Cycles, b.Cycles) }
	least, most := slices.MinFunc(all.Points, byCycles), slices.MaxFunc(all.Points, byCycles)
	var w strings.Builder
	fmt.Fprintf(&w, "bbprof: %d of %d values of %s were measured: %.*f to %.*f cycles, a ratio of %.3f; %s\n", len(all.Points), len(s.Points), s.Factor,
		decimals, least.Cycles, decimals, most.Cycles, most.Cycles/least.Cycles, all.slower(decimals))
	for _, g := range s.Groups {
		g.describe(&w, s.Relate(g), decimals)
	}
	return w.String()
}

func (g Group) describe(w *strings.Builder, related []Related, decimals int) {
	if g.Title != "" {
		fmt.Fprintf(w, "bbprof: %s:\n", g.Title)
	}
	columns := 0
	for _, r := range related {
		columns = max(columns, len(r.Name))
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-*s  %s\n", columns, name, fmt.Sprintf(format, args...))
	}
	var constant []string
	misses := 0.0 // of the data at all values, which its cycles hold
	for _, r := range related {
		if math.IsNaN(r.R) {
			if constant = append(constant, r.Name); r.Name == l1dMisses {
				misses = r.Values[0]
			}
			continue
		}
		coefficient := fmt.Sprintf("%+.3f, 95 %% interval %+.3f to %+.3f", r.R, r.Low, r.High)
		if math.IsNaN(r.Low) {
			coefficient = fmt.Sprintf("%+.3f, no interval from fewer than four values", r.R)
		}
		line(r.Name, "correlation with cycles %s", coefficient)
		if !g.Brief {
			line("", "more than elsewhere at %s: median %.*f cycles there, %.*f elsewhere", Numbers(r.Predicted), decimals, r.There, decimals, r.Elsewhere)
		}
		if !g.Brief && r.Known {
			line("", "%s, and of those %s", r.slower(decimals), Numbers(r.Both))
		}
		if text := r.difference(); text != "" && g.Title != "" {
			line("", "%s", text)
		}
	}
	if len(constant) > 0 {
		fmt.Fprintf(w, "  the same at all values: %s\n", strings.Join(constant, ", "))
	}
	if misses > 0 {
		fmt.Fprintf(w, "  at all values the data, on frames of their own, miss L1D %s times an iteration: -frames 1 has them on one\n", count(misses))
	}
	for _, c := range g.Columns {
		if c.Why != "" {
			fmt.Fprintf(w, "  %s is not counted: %s\n", c.Name, c.Why)
		}
	}
}

func (s Spikes) slower(decimals int) string {
	if !s.Known {
		return "too few runs to tell slow values from chance; that takes -runs 6 or more"
	}
	return fmt.Sprintf("slower than the usual %.*f cycles by 3 %%: %s", decimals, s.Usual, Numbers(s.Slow))
}

// difference reports a count that differs between the slowest and the fastest value.
func (r Related) difference() string {
	fastest, slowest := 0, 0
	for i, p := range r.Points {
		if p.Cycles < r.Points[fastest].Cycles {
			fastest = i
		}
		if p.Cycles > r.Points[slowest].Cycles {
			slowest = i
		}
	}
	fast, slow := r.Values[fastest], r.Values[slowest]
	if math.Abs(slow-fast) <= changedShare*min(math.Abs(fast), math.Abs(slow)) {
		return ""
	}
	return fmt.Sprintf("more than 25 %% apart: %s at the fastest value (%d), %s at the slowest (%d)", count(fast),
		r.Points[fastest].Value, count(slow), r.Points[slowest].Value)
}

func Numbers(n []int) string {
	const few = 6
	var s []string
	for _, v := range n[:min(len(n), few)] {
		s = append(s, strconv.Itoa(v))
	}
	switch {
	case len(n) == 0:
		return "none"
	case len(n) > few:
		s = append(s, "...")
	}
	return fmt.Sprintf("%s (%s)", words.Plural(len(n), "value"), strings.Join(s, ", "))
}
