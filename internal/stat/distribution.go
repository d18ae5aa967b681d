package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// The distributions that tests need, from the incomplete beta function (Abramowitz and Stegun, Handbook of
// Mathematical Functions, 26.5 to 26.7). Gonum's versions would link all of its linear algebra.

// Student is Student's t distribution with that many degrees of freedom.
type Student float64

// Quantile returns the value with a probability of p below it; p is between 0 and 1.
func (s Student) Quantile(p float64) float64 {
	if p == 0.5 {
		return 0
	}
	x := mathext.InvRegIncBeta(float64(s)/2, 0.5, 2*min(p, 1-p))
	return math.Copysign(math.Sqrt(float64(s)*(1-x)/x), p-0.5)
}

func (s Student) survival(t float64) float64 {
	beyond := mathext.RegIncBeta(float64(s)/2, 0.5, float64(s)/(t*t+float64(s))) / 2
	if t < 0 {
		return 1 - beyond
	}
	return beyond
}

// fQuantile returns a quantile of the F distribution.
func fQuantile(d1, d2, p float64) float64 {
	x := mathext.InvRegIncBeta(d1/2, d2/2, p)
	return d2 * x / (d1 * (1 - x))
}

func coinCDF(n, k int) float64 {
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 0.5)
}

func NormalQuantile(p float64) float64 { return mathext.NormalQuantile(p) }

func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
