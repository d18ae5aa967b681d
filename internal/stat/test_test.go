package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/bbprof/bbprof/internal/require"
)

// The extra hours of sleep in Student's paper, from R's data set sleep; the expected results are from its t.test.
var (
	sleepA = []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0}
	sleepB = []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
)

func TestStudentsSleep(t *testing.T) {
	var diffs []float64
	for i := range sleepA {
		diffs = append(diffs, sleepB[i]-sleepA[i])
	}
	paired := Test{Mean: 1.58, T: 4.0621, DF: 9, P: 0.002833, Low: 0.7001142, High: 2.4598858}
	welch := Test{Mean: 1.58, T: 1.8608, DF: 17.776, P: 0.07939, Low: -0.2054832, High: 3.3654832}
	require.Equal(t, "paired and Welch", []Test{paired, welch}, []Test{OneSample(diffs), Welch(sleepA, sleepB)},
		cmpopts.EquateApprox(2e-4, 0), cmpopts.IgnoreFields(Test{}, "Error"))
}

func TestOneSampleAtTheEdges(t *testing.T) {
	for _, c := range []struct {
		xs      []float64
		p       float64
		bounded bool
	}{
		{nil, 1, false}, {[]float64{3}, 1, false}, {[]float64{3, 3}, 0, true}, {[]float64{0, 0}, 1, true},
	} {
		if got := OneSample(c.xs); got.P != c.p || math.IsInf(got.High, 0) == c.bounded {
			t.Errorf("%v: %+v", c.xs, got)
		}
	}
	require.Equal(t, "p of one value against two", 1.0, Welch([]float64{1}, []float64{2, 3}).P)
}

// TestCrossed: about 5 % of tests of a mean of 0 find a difference, whichever of rows, columns and cells vary. A
// test that assumes independent cells finds one in most.
func TestCrossed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	const runs, rows, columns = 2000, 12, 8
	for _, c := range []struct {
		row, column, cell float64
		least, most       int // tests that find a difference
	}{
		{0, 0, 1, 0, 139}, {1, 0, 0.1, 61, 139}, {0, 1, 0.1, 61, 139}, {1, 1, 1, 40, 139}, {1, 0.5, 1, 40, 139}, // 100 and four standard deviations
	} {
		found, naive := 0, 0
		for range runs {
			table := make([][]float64, rows)
			of := make([]float64, columns)
			for j := range of {
				of[j] = c.column * r.NormFloat64()
			}
			for i := range table {
				mean := c.row * r.NormFloat64()
				for j := range columns {
					table[i] = append(table[i], mean+of[j]+c.cell*r.NormFloat64())
				}
			}
			if Crossed(table).P < Level {
				found++
			}
			if OneSample(slices.Concat(table...)).P < Level {
				naive++
			}
		}
		if found < c.least || found > c.most {
			t.Errorf("rows vary by %v, columns by %v, cells by %v: %d of %d find a difference, want %d to %d", c.row, c.column,
				c.cell, found, runs, c.least, c.most)
		}
		if c.cell < 1 && naive < runs/3 {
			t.Errorf("rows vary by %v, columns by %v: %d of %d find a difference when cells are taken for independent", c.row, c.column, naive, runs)
		}
	}
	require.Equal(t, "of one column", OneSample([]float64{1, 2, 4}), Crossed([][]float64{{1}, {2}, {4}}))
	if same := Crossed([][]float64{{3, 3}, {3, 3}}); same.P != 0 || same.Low != 3 || same.High != 3 {
		t.Errorf("of equal values: %+v", same)
	}
}

// TestEnough compares sample sizes with those of Cohen, Statistical Power Analysis for the Behavioral Sciences,
// section 2.4, with differences in standard deviations and, for two samples, the size of one.
func TestEnough(t *testing.T) {
	one := Test{Error: 1 / math.Sqrt(20), DF: 19} // 20 values with a standard deviation of 1
	two := Test{Error: math.Sqrt(2.0 / 20), DF: 38}
	for _, c := range []struct {
		of         Test
		n          int
		difference float64
		want       int
	}{
		{one, 20, 0.5, 34}, {one, 20, 1, 10}, {one, 20, 2, 5}, {one, 20, one.Detectable(0.8), 20},
		{two, 20, 0.2, 394}, {two, 20, 0.5, 64}, {two, 20, 0.8, 26},
		{Test{Error: 0, DF: 19}, 20, 1, 2}, {one, 20, 0, Many}, {one, 20, 1e-9, Many}, {Test{Error: math.Inf(1)}, 1, 1, Many},
	} {
		require.Equal(t, fmt.Sprintf("%+v, for %g", c.of, c.difference), c.want, c.of.Enough(c.n, c.difference, 0.8))
	}
}

func TestHolm(t *testing.T) {
	// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
	four := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	require.Equal(t, "four", []float64{0.03, 0.06, 0.06, 0.02}, four, cmpopts.EquateApprox(1e-12, 0))
	require.Equal(t, "beyond 1", []float64{1, 1}, Holm([]float64{0.6, 0.7}))
	require.Equal(t, "none", []float64(nil), Holm(nil), cmpopts.EquateEmpty())
}

func TestMedianInterval(t *testing.T) {
	for _, c := range []struct {
		n         int
		low, high float64
	}{
		// Two-sided 95 % intervals for a median by the sign test, ranks as in Conover, Practical Nonparametric
		// Statistics, table A3: 5 values give 93.75 % at most.
		{1, -inf, inf}, {5, -inf, inf}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {11, 2, 10}, {12, 3, 10}, {15, 4, 12}, {20, 6, 15}, {25, 8, 18},
	} {
		var xs []float64
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(c.n) {
			xs = append(xs, float64(i+1))
		}
		median, low, high := MedianInterval(xs)
		if median != float64(c.n+1)/2 || low != c.low || high != c.high {
			t.Errorf("%d values: %g, %g to %g; want %g to %g", c.n, median, low, high, c.low, c.high)
		}
	}
	for _, xs := range [][]float64{nil, {1, 2, math.NaN(), 4, 5, 6, 7, 8, 9}} {
		if median, low, high := MedianInterval(xs); !math.IsNaN(median) || !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("%v: %g, %g to %g", xs, median, low, high)
		}
	}
}

// TestDistributions compares them with Gonum's.
func TestDistributions(t *testing.T) {
	same := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
			t.Errorf("%s is %v, Gonum has %v", what, got, want)
		}
	}
	ps := []float64{0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.999}
	for _, df := range []float64{1, 1.5, 7, 300} {
		theirs := distuv.StudentsT{Sigma: 1, Nu: df}
		for _, p := range ps {
			same("a quantile of Student's", Student(df).Quantile(p), theirs.Quantile(p))
			same("a quantile of F", fQuantile(df, 5, p), distuv.F{D1: df, D2: 5}.Quantile(p))
		}
		for _, x := range []float64{-30, -2, 0, 1e-9, 2, 30, math.Inf(1), math.Inf(-1)} {
			same("Student's survival", Student(df).survival(x), theirs.Survival(x))
		}
	}
	for _, p := range ps {
		same("a normal quantile", NormalQuantile(p), distuv.UnitNormal.Quantile(p))
	}
	for _, n := range []int{1, 6, 40} {
		for k := 0; k <= n; k++ {
			same("a binomial probability", coinCDF(n, k), distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k)))
		}
	}
}

// TestBootstrapOfHugeNumbers: figures whose squares and cubes leave a float64's range have intervals, and those that are
// infinite in some resamples are computed from the others.
func TestBootstrapOfHugeNumbers(t *testing.T) {
	for _, huge := range []float64{1e100, 1e155, 1e300, math.MaxFloat64, math.Inf(1)} {
		values := []float64{1, 2, 3, 4, huge}
		of := func(indices []int) []float64 {
			sum := 0.0
			for _, i := range indices {
				sum += values[i]
			}
			return []float64{sum / float64(len(indices)), float64(indices[0])}
		}
		got := Bootstrap(len(values), 1000, of([]int{0, 1, 2, 3, 4}), 1, of)
		if got[0].High < got[0].Low || !(got[1].Low <= 0 && got[1].High > 0) {
			t.Errorf("%g: %v", huge, got)
		}
	}
}
