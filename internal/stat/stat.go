// Package stat holds bbprof's estimators. They are few, robust and pure; each cites its source.
package stat

import (
	"math"
	"slices"
	"sync"
)

// Estimate is a location with the half-width of its two-sided 95 % confidence interval.
type Estimate struct {
	Value float64
	Half  float64
	N     int // number of values
}

func (e Estimate) Low() float64 { return e.Value - e.Half }

func (e Estimate) High() float64 { return e.Value + e.Half }

// Prediction widens a mean's confidence interval so that the mean of another, independent sample of the same size
// lies in it with 95 % probability: both means vary, so the variance doubles (Hahn and Meeker, Statistical
// Intervals, section 4.8).
func (e Estimate) Prediction() Estimate {
	e.Half *= math.Sqrt2
	return e
}

// Median is the middle value, or the mean of the two middle ones; NaN if empty, or if any is NaN.
func Median(xs []float64) float64 { return middle(sorted(xs)) }

// middle is the median of sorted values.
func middle(s []float64) float64 {
	n := len(s)
	switch {
	case n == 0 || math.IsNaN(s[0]): // a sort puts it first
		return math.NaN()
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

func sorted(xs []float64) []float64 {
	s := slices.Clone(xs)
	slices.Sort(s)
	return s
}

// MidMean is the mean of the middle half of xs: a 25 % trimmed mean. It suits values of a few speeds with an
// occasional outlier: the median would jump between the speeds, and the mean would follow the outliers.
//
// Its interval is that of Tukey and McLaughlin (Sankhya A 25, 1963) as given in Wilcox, Introduction to Robust
// Estimation, section 4.3: the winsorised standard deviation over (1-2γ)√n, Student's t with n-2g-1 degrees of
// freedom. With fewer than four values the half-width is infinite. A NaN cannot be trimmed, because its rank is
// unknown: the estimate is NaN.
func MidMean(xs []float64) Estimate {
	const share = 0.25 // γ, trimmed at either end
	s := sorted(xs)
	n := len(s)
	if n == 0 || math.IsNaN(s[0]) { // a sort puts it first
		return Estimate{Value: math.NaN(), Half: math.Inf(1), N: n}
	}
	g := int(share * float64(n))
	value := Mean(s[g : n-g])
	if n < 4 {
		return Estimate{Value: value, Half: math.Inf(1), N: n}
	}
	for i := range g {
		s[i], s[n-1-i] = s[g], s[n-1-g]
	}
	se := sd(s) / ((1 - 2*share) * math.Sqrt(float64(n)))
	return Estimate{Value: value, Half: T95(n-2*g-1) * se, N: n}
}

// Core is the mean of the values within slack plus four median absolute deviations of the median. It is for
// readings of a clock that moves in steps: their mean is right, whereas trimming cuts a step in two and is off by
// up to a quarter of one. With slack for the steps, only what an interrupt added is cut. The interval is
// Student's, over the values kept.
func Core(xs []float64, slack float64) Estimate {
	kept := core(xs, slack)
	e := Estimate{Value: Mean(kept), Half: math.Inf(1), N: len(kept)}
	if e.N > 1 {
		e.Half = T95(e.N-1) * sd(kept) / math.Sqrt(float64(e.N))
	}
	return e
}

// CoreMean returns Core's value, quickly if the values are nearly equal.
func CoreMean(xs []float64, slack float64) float64 {
	if len(xs) > 0 && slices.Max(xs)-slices.Min(xs) <= slack { // keep all, in any order
		return Mean(xs)
	}
	return Mean(core(xs, slack))
}

// CoreSlope returns the least-squares slope of successive clock readings. xs are their differences in order, of which
// it uses those that Core keeps. Their mean depends only on the first and last readings, each of which a clock that
// moves in steps gives too low or too high; with n equal differences, the slope's error is √(6n/((n+1)(n+2))) of
// that.
func CoreSlope(xs []float64, slack float64) float64 {
	low, high := slices.Min(xs), slices.Max(xs)
	if high-low > slack {
		core := core(xs, slack)
		low, high = core[0], core[len(core)-1]
	}
	var sum, weights float64
	for from := 0; from < len(xs); {
		to := from // the next dropped difference: it separates two lines with one slope
		for to < len(xs) && low <= xs[to] && xs[to] <= high {
			to++
		}
		for i, x := range xs[from:to] {
			weight := float64((i + 1) * (to - from - i)) // number of pairs of readings around it
			sum, weights = sum+weight*x, weights+weight
		}
		from = to + 1
	}
	return sum / weights
}

// core returns the values that Core keeps, sorted; none if any is NaN.
func core(xs []float64, slack float64) []float64 {
	s := sorted(xs)
	median := middle(s)
	off := make([]float64, len(s))
	for i, x := range s {
		off[i] = math.Abs(x - median)
	}
	reach := slack + 4*Median(off)
	return slices.DeleteFunc(s, func(x float64) bool { return !(math.Abs(x-median) <= reach) })
}

// T95 is the two-sided 95 % quantile of Student's t distribution; infinite without degrees of freedom.
func T95(degrees int) float64 {
	if degrees < 1 {
		return math.Inf(1)
	}
	return t95(degrees)
}

var t95 = cached(func(degrees int) float64 { return Student(degrees).Quantile(0.975) })

// cached keeps the quantiles that it has found: one takes some 10 µs, and every window of a block needs one of a few.
func cached[K comparable](quantile func(K) float64) func(K) float64 {
	var known sync.Map // K to float64
	return func(k K) float64 {
		if q, ok := known.Load(k); ok {
			return q.(float64)
		}
		q := quantile(k)
		known.Store(k, q)
		return q
	}
}

// Mean is the arithmetic mean; NaN if empty.
func Mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

func sd(xs []float64) float64 {
	m := Mean(xs)
	var sum float64
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(xs)-1))
}

// MedianInterval returns the median of xs with a distribution-free confidence interval for the population's
// median: from the k-th smallest to the k-th largest value, with the largest k that gives at least 95 % (David and
// Nagaraja, Order Statistics, section 7.1: the number of values below the median is binomial). With fewer than 6
// values the interval is infinite. NaN if empty, or if any is NaN.
func MedianInterval(xs []float64) (median, low, high float64) { return JointMedianInterval(xs, 1) }

// JointMedianInterval returns one of several medians' intervals that jointly hold with 95 % (Bonferroni).
func JointMedianInterval(xs []float64, medians int) (median, low, high float64) {
	median = Median(xs)
	if math.IsNaN(median) {
		return median, math.NaN(), math.NaN()
	}
	s := sorted(xs)
	k := 0
	for k < len(s)/2 && 2*coinCDF(len(s), k) <= Level/float64(medians) {
		k++
	}
	if k == 0 {
		return median, math.Inf(-1), math.Inf(1)
	}
	return median, s[k-1], s[len(s)-k]
}
