package profiler

import (
	"math"

	"github.com/bbprof/bbprof/counter"
	"github.com/bbprof/bbprof/stat"
)

// clockRate is how fast the clock ticks, in ticks per core cycle, as the last stays have it. A core
// keeps its clock for thousands of stays, in which each measures it anew to a few tenths of a
// percent, what the clock's steps allow: their mean is better known than any of them.
type clockRate struct {
	ticks   float64
	samples int // that it is the mean of
}

// rateSamples are the most that the mean is of: some 20 looks, of 3 ms.
const rateSamples = 20 * lookWindows * windowSamples

// add takes a stay's rate in. One that differs by more than its own 95 % interval, or than the
// steps make that, says that the core's clock has moved, or is the one in twenty that has not;
// it stands alone then.
func (r *clockRate) add(stay stat.Estimate, clock counter.Clock) {
	if math.Abs(stay.Value-r.ticks) > math.Max(stay.Half, clock.RateResolution(stay.N)) {
		*r = clockRate{}
	}
	r.samples = min(r.samples+stay.N, max(rateSamples, stay.N))
	r.ticks += (stay.Value - r.ticks) * float64(stay.N) / float64(r.samples)
}
