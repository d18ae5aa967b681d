package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// resamples is how many resamples Bootstrap takes: enough for the 2.5 % and 97.5 % quantiles of what
// they give to be within a tenth of the interval (Efron and Tibshirani, An Introduction to the
// Bootstrap, section 14.5).
const resamples = 400

// Interval is a two-sided 95 % confidence interval.
type Interval struct{ Low, High float64 }

// Bootstrap gives 95 % intervals for figures of n observations. statistic computes them from some of
// the observations, which indices names, with repetition. estimate is what it gives of all. A resample
// has at most some of them.
//
// The intervals are basic bootstrap intervals (Davison and Hinkley, Bootstrap Methods and their
// Application, section 5.2). Of many observations a resample takes fewer than n, and the spread,
// which falls with the square root of the size, is scaled (Bickel, Götze and van Zwet, Statistica
// Sinica 7, 1997). A figure that is NaN in a resample is left out of that resample.
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
			if d := scale * (v - estimate[i]); !math.IsNaN(d) {
				deviations[i] = append(deviations[i], d)
			}
		}
	}
	intervals := make([]Interval, len(estimate))
	for i, d := range deviations {
		intervals[i] = Interval{math.NaN(), math.NaN()}
		if len(d) > 0 {
			slices.Sort(d)
			tail := int(Level / 2 * float64(len(d)))
			intervals[i] = Interval{estimate[i] - d[len(d)-1-tail], estimate[i] - d[tail]}
		}
	}
	return intervals
}
