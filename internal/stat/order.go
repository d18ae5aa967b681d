package stat

import (
	"math"
	"slices"
)

// MedianInterval is the median of xs with an interval for the median of what they are drawn
// from that needs no assumption on its distribution: from the k-th smallest to the k-th
// largest value, with the largest k that gives at least 95 % (David and Nagaraja, Order
// Statistics, section 7.1: the number of values below the median is binomial). Fewer than 6
// values do not give so much, and the interval is infinite. NaN of none, or if any is NaN.
func MedianInterval(xs []float64) (median, low, high float64) {
	median = Median(xs)
	if math.IsNaN(median) {
		return median, math.NaN(), math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	k := 0
	for k < len(s)/2 && 1-2*coinCDF(len(s), k) >= 0.95 {
		k++
	}
	if k == 0 {
		return median, math.Inf(-1), math.Inf(1)
	}
	return median, s[k-1], s[len(s)-k]
}
