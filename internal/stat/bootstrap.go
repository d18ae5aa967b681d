package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// resamples is the number of Bootstrap's resamples: enough to know the 2.5 % and 97.5 % quantiles to within a
// tenth of the interval (Efron and Tibshirani, An Introduction to the Bootstrap, section 14.5).
const resamples = 400

type Interval struct{ Low, High float64 }

// Bootstrap returns 95 % intervals for statistics of n observations. statistic computes them from the observations
// in indices, with repetition; estimate is its result for all. A resample has at most most observations.
//
// The intervals are bias-corrected and accelerated (BCa; Efron, JASA 82, 1987; Davison and Hinkley, Bootstrap
// Methods and their Application, section 5.3.2): quantiles over the resamples, so no interval holds impossible
// values, and a mean dominated by few large values gets a long upper side. If a resample is smaller than n, its
// spread, which falls with the square root of the size, is scaled (Bickel, Götze and van Zwet, Statistica Sinica
// 7, 1997). A statistic that is not finite in a resample skips that resample.
func Bootstrap(n, most int, estimate []float64, seed uint64, statistic func(indices []int) []float64) []Interval {
	m := min(n, most)
	scale := math.Sqrt(float64(m) / float64(n))
	deviations := make([][]float64, len(estimate))
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	indices := make([]int, m)
	for range resamples {
		for i := range indices {
			indices[i] = random.IntN(n)
		}
		for i, v := range statistic(indices) {
			if d := scale * (v - estimate[i]); finite(d) {
				deviations[i] = append(deviations[i], d)
			}
		}
	}
	accelerations := accelerations(random.Perm(n)[:m], len(estimate), scale, statistic)
	intervals := make([]Interval, len(estimate))
	for i, d := range deviations {
		intervals[i] = Interval{math.NaN(), math.NaN()}
		if len(d) > 0 {
			slices.Sort(d)
			quantile := adjusted(d, accelerations[i])
			intervals[i] = Interval{estimate[i] + quantile(Level/2), estimate[i] + quantile(1-Level/2)}
		}
	}
	return intervals
}

// adjusted returns a function for quantiles of sorted deviations, at BCa's level instead of p.
func adjusted(d []float64, acceleration float64) func(p float64) float64 {
	n := float64(len(d))
	below, _ := slices.BinarySearch(d, 0)
	upTo, _ := slices.BinarySearch(d, math.SmallestNonzeroFloat64)
	bias := NormalQuantile(min(1-0.5/n, max(0.5/n, float64(below+upTo)/2/n)))
	return func(p float64) float64 {
		z := bias + NormalQuantile(p)
		level := normalCDF(bias + z/max(1-acceleration*z, 0.1))
		return d[min(len(d)-1, int(level*n))]
	}
}

// leftOut is the number of groups left out, one at a time, to estimate accelerations.
const leftOut = 50

// accelerations estimates how fast each statistic's standard error changes with it, by the jackknife over groups
// of the observations; for all of them it is smaller, by scale.
func accelerations(observations []int, figures int, scale float64, statistic func(indices []int) []float64) []float64 {
	groups := min(leftOut, len(observations))
	values := make([][]float64, figures)
	indices := make([]int, 0, len(observations))
	for g := range groups {
		indices = indices[:0]
		for i, o := range observations {
			if i%groups != g {
				indices = append(indices, o)
			}
		}
		if len(indices) == 0 {
			break
		}
		for i, v := range statistic(indices) {
			if finite(v) {
				values[i] = append(values[i], v)
			}
		}
	}
	all := make([]float64, figures)
	for i, list := range values {
		mean, largest, squares, cubes := Mean(list), 0.0, 0.0, 0.0
		for _, v := range list {
			largest = max(largest, math.Abs(mean-v))
		}
		for _, v := range list { // in units of the largest, whose cube is finite
			d := (mean - v) / largest
			squares += d * d
			cubes += d * d * d
		}
		if a := scale * cubes / (6 * math.Pow(squares, 1.5)); finite(a) {
			all[i] = a
		}
	}
	return all
}

func finite(v float64) bool { return v-v == 0 }
