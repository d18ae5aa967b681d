package matrix

import (
	"math"
	"slices"
)

type Order string

const (
	Constant     Order = "constant"
	Logarithmic  Order = "log n"
	Linear       Order = "n"
	Linearithmic Order = "n log n"
	Quadratic    Order = "n^2"
	Other        Order = "other" // none of them fits
)

type order struct {
	Order
	of func(n float64) float64
}

// orders lists all, from the slowest growth to the fastest.
var orders = []order{
	{Constant, nil},
	{Logarithmic, math.Log},
	{Linear, func(n float64) float64 { return n }},
	{Linearithmic, func(n float64) float64 { return n * math.Log(n) }},
	{Quadratic, func(n float64) float64 { return n * n }},
	{Other, nil},
}

func (a Order) faster(b Order) bool { return rank(a) > rank(b) }

// rank returns -1 for an unknown order.
func rank(o Order) int {
	return slices.IndexFunc(orders, func(other order) bool { return other.Order == o })
}

const (
	// sameRatio is the largest ratio of the largest to the smallest count that is constant: a formula's branches differ
	// by an instruction or two.
	sameRatio = 1.1
	worstFit  = 0.25
	// A function that grows faster than one that fits must have less than half its error and simpler: sizes near one another fit both, and
	// remainders of unrolled loops make exact counts slightly irregular.
	simpler = 0.005
)

// fit finds the order of growth of counts at three or more sizes above 1, by the maximal relative error of the functions a + b·f(n), b > 0.
func fit(sizes []int, counts []float64) Order {
	if slices.Max(counts) <= sameRatio*slices.Min(counts) {
		return Constant
	}
	best, least := Other, worstFit
	for _, o := range orders {
		if o.of == nil {
			continue
		}
		if err := worstError(sizes, counts, o.of); err < least && (best == Other || 2*err+simpler < least) {
			best, least = o.Order, err
		}
	}
	return best
}

// worstError is the largest relative error of a + b·f(n), fitted by least squares of the relative errors, since sizes
// and counts span orders of magnitude.
func worstError(sizes []int, counts []float64, f func(float64) float64) float64 {
	var w, x, y, xx, xy float64
	for i, n := range sizes {
		g, c := f(float64(n)), counts[i]
		weight := 1 / (c * c)
		w, x, y, xx, xy = w+weight, x+weight*g, y+weight*c, xx+weight*g*g, xy+weight*g*c
	}
	b := (w*xy - x*y) / (w*xx - x*x)
	if !(b > 0) {
		return math.Inf(1)
	}
	a, worst := (y-b*x)/w, 0.0
	for i, n := range sizes {
		worst = math.Max(worst, math.Abs(a+b*f(float64(n))-counts[i])/counts[i])
	}
	return worst
}
