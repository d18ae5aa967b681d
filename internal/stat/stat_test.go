package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

var inf, nan = math.Inf(1), math.NaN()

// same compares with a relative tolerance of 1e-9; NaN equals itself.
func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Abs(b)
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{
		{nil, nan},
		{[]float64{7}, 7},
		{[]float64{3, 1}, 2},
		{[]float64{3, 1, 2}, 2},
		{[]float64{9, 1, 2, 3}, 2.5},
		{[]float64{inf, 1, 2}, 2},
		{[]float64{1, nan, 3}, nan},
	} {
		if got := Median(c.xs); !same(got, c.want) {
			t.Errorf("Median(%v) = %g, want %g", c.xs, got, c.want)
		}
	}
}

func TestMidMean(t *testing.T) {
	for _, c := range []struct {
		name        string
		xs          []float64
		value, half float64
		n           int
	}{
		{"none", nil, nan, inf, 0},
		{"one", []float64{5}, 5, inf, 1},
		// Three values: none is trimmed. With one more, one on each side is.
		{"three", []float64{1, 2, 9}, 4, inf, 3},
		// Winsorised 2 2 3 3: deviation √(1/3), standard error √(1/3)/(½·√4), t(1) = 12.7062.
		{"four", []float64{10, 2, 3, 1}, 2.5, 12.706204736432095 * math.Sqrt(1.0/3), 4},
		// Winsorised 2 2 3 5 5: mean 3.4, squares 9.2, deviation √2.3, t(2) = 4.30265.
		{"five", []float64{5, 1, 2, 3, 10}, 10.0 / 3, 4.302652729911275 * math.Sqrt(2.3) / (0.5 * math.Sqrt(5)), 5},
		{"equal values", []float64{2, 2, 2, 2, 2, 2, 2, 2}, 2, 0, 8},
		{"two wild ones of eight", []float64{2, 2, 2, 2, 2, 2, 1e9, 1e9}, 2, 0, 8},
		{"three wild ones of eight", []float64{2, 2, 2, 2, 2, 1e9, 1e9, 1e9}, (3*2 + 1e9) / 4, nan, 8},
		{"infinite outlier", []float64{1, 1, 1, 1, 1, 1, inf, math.Inf(-1)}, 1, 0, 8},
		{"a value that is not a number", []float64{1, 1, nan, 1, 1, 1, 1, 1}, nan, inf, 8},
		// The self-awareness data of Wilcox, Introduction to Robust Estimation, with his
		// formulas of section 4.3 at a trimming of 25 %: 4 of 19 on each side, t(10) = 2.22814.
		{"self-awareness", []float64{77, 87, 88, 114, 151, 210, 219, 246, 253, 262, 296, 299, 306, 376, 428, 515, 666, 1310, 2611},
			3046.0 / 11, 111.46456167444462, 19},
	} {
		before := slices.Clone(c.xs)
		got := MidMean(c.xs)
		if !same(got.Value, c.value) || !same(got.Half, c.half) && !math.IsNaN(c.half) || got.N != c.n {
			t.Errorf("%s: %+v, want %.9g ± %.9g of %d", c.name, got, c.value, c.half, c.n)
		}
		require.Equal(t, c.name+": the input", before, c.xs, cmpopts.EquateNaNs())
	}
}

// A 95 % interval holds the true value in 95 of 100 cases. The sizes are those of windows and their samples; the
// seed is fixed, and 3,000 cases have a deviation of 0.4 %.
func TestIntervalCovers(t *testing.T) {
	for _, n := range []int{6, 12, 24, 100} {
		rng := rand.New(rand.NewPCG(uint64(n), 7))
		const cases, mean, deviation = 3000, 17.25, 0.5
		held := 0
		xs := make([]float64, n)
		for range cases {
			for i := range xs {
				xs[i] = mean + deviation*rng.NormFloat64()
			}
			if e := MidMean(xs); e.Low() <= mean && mean <= e.High() {
				held++
			}
		}
		share := 100 * float64(held) / cases
		t.Logf("n = %d: %.1f %%", n, share)
		if share < 93 || share > 97.5 {
			t.Errorf("n = %d: the interval holds the value in %.1f %% of the cases, not in 95", n, share)
		}
	}
}

// Core keeps values within slack plus four median absolute deviations of the median.
func TestCore(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
		kept int
	}{
		{nil, nan, 0}, {[]float64{5}, 5, 1}, {[]float64{5, 9}, 7, 2}, {[]float64{1, nan, 3}, nan, 0},
		{[]float64{100, 100, 100, 105, 106}, 405. / 4, 4}, // one within a slack of 5, one beyond it
		{[]float64{100, 102, 98, 103, 97, 112, 88, 125}, 700. / 7, 7},
		{[]float64{626, 626, 624, 452, 566, 626, 628, 616}, 3746. / 6, 6},
		{[]float64{5, 5, 5, 9, 9, 9}, 7, 6},
	} {
		before := slices.Clone(c.xs)
		if e := Core(c.xs, 5); !same(e.Value, c.want) || e.N != c.kept || !same(CoreMean(c.xs, 5), c.want) {
			t.Errorf("%v: %+v, CoreMean %g; want %g of %d", c.xs, e, CoreMean(c.xs, 5), c.want, c.kept)
		}
		require.Equal(t, "the input", before, c.xs, cmpopts.EquateNaNs())
	}
}

// CoreSlope is the least-squares slope of running sums, computed naively here; a dropped difference starts another
// line.
func TestCoreSlope(t *testing.T) {
	for _, c := range []struct {
		xs          []float64
		slack, want float64
	}{
		{[]float64{7}, 2, 7},
		{[]float64{7, 9}, 2, 8},
		{[]float64{6, 8, 6}, 2, 6.8}, // the middle one counts most
		{[]float64{5, 5, 5, 5, 5}, 2, 5},
		{[]float64{5, 7, 5, 99, 7, 5, 7}, 2, (3*5 + 4*7 + 3*5 + 3*7 + 4*5 + 3*7) / 20.},
		{[]float64{99, 5, 7, 5, 6, -99}, 2, (4*5 + 6*7 + 6*5 + 4*6) / 20.},
		{[]float64{3, 6, 5, 2, 9, 1}, 100, 129. / 28}, // numpy.polyfit(range(7), [0, 3, 9, 14, 16, 25, 26], 1)[0]
	} {
		if got := CoreSlope(c.xs, c.slack); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %g, want %g", c.xs, got, c.want)
		}
	}
}
