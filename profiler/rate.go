package profiler

import (
	"math"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// clockRate is how fast the clock ticks, in ticks per core cycle, as the last stays have it. A core
// keeps its clock for thousands of stays, in which each measures it anew to a few tenths of a
// percent, what the clock's steps allow: their mean is better known than any of them.
type clockRate struct {
	ticks   float64
	samples int // that it is the mean of; 0 if it is only a first idea

	latest mean // of the stays since it was last compared
}

// mean is a mean and how many samples it is of.
type mean struct {
	value   float64
	samples int
}

func (m *mean) add(value float64, samples int) {
	m.samples += samples
	m.value += (value - m.value) * float64(samples) / float64(m.samples)
}

const (
	// lookSamples are those of a look that nobody disturbed. So many are compared with what was
	// before: fewer would not tell a clock that has moved from its steps.
	lookSamples = lookWindows * windowSamples
	// rateSamples are the most that the mean is of: 20 looks, some 3 ms.
	rateSamples = 20 * lookSamples
)

// add takes a stay's rate in. Where a look's worth of them differs from the mean by more than its
// 95 % interval, the core's clock has moved, or it is the one in twenty for which it has not: it
// stands alone then.
func (r *clockRate) add(stay stat.Estimate, clock clock.Clock) {
	within := clock.RateResolution(r.latest.samples + stay.N)
	if r.latest.samples == 0 {
		within = math.Max(within, stay.Half)
	}
	r.latest.add(stay.Value, stay.N)
	if r.samples > 0 && r.latest.samples < lookSamples {
		return
	}
	known := mean{r.ticks, min(r.samples, max(rateSamples-r.latest.samples, 0))}
	if math.Abs(r.latest.value-known.value) > within {
		known = mean{}
	}
	known.add(r.latest.value, r.latest.samples)
	*r = clockRate{ticks: known.value, samples: known.samples}
}
