package stat

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

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
			same("Student's survival", Student(df).Survival(x), theirs.Survival(x))
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
