package timing

import (
	"math"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// clockRate is how fast the clock ticks, in ticks per core cycle, as the last child runs have it. A
// core keeps its clock for thousands of child runs, in which each measures it again to a few tenths
// of a percent, what the clock's steps allow: their mean is better known than any of them.
type clockRate struct {
	ticks   float64
	samples int // that it is the mean of; 0 if it is only a first idea

	latest mean // of the child runs since it was last compared
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
	// passSamples are those of the first pass if it was not disturbed. So many are compared with
	// what was before: fewer would not tell a clock that has moved from its steps.
	passSamples = passWindows
	// rateSamples are the most that the mean is of: 20 passes, some 3 ms.
	rateSamples = 20 * passSamples
)

// add takes a child run's rate in. Where a replicate's worth of them differs from the mean by more
// than its 95 % interval, the core's clock has moved, or it is the one in twenty for which it has
// not: it stands alone then.
func (r *clockRate) add(run stat.Estimate, clock clock.Clock) {
	within := clock.RateResolution(r.latest.samples + run.N)
	if r.latest.samples == 0 {
		within = math.Max(within, run.Half)
	}
	r.latest.add(run.Value, run.N)
	if r.samples > 0 && r.latest.samples < passSamples {
		return
	}
	known := mean{r.ticks, min(r.samples, max(rateSamples-r.latest.samples, 0))}
	if math.Abs(r.latest.value-known.value) > within {
		known = mean{}
	}
	known.add(r.latest.value, r.latest.samples)
	*r = clockRate{ticks: known.value, samples: known.samples}
}

// knownSamples is how many samples of a child run the mean of earlier ones counts for in the rate during that run. On Zen 5 the core's clock
// is off that mean by some 0.17 % from one child run to the next; twelve readings in steps of 26 ticks tell it to 0.1 %. Of 0 to 20 samples,
// 2 to 6 left blocks the least scatter.
const knownSamples = 4

// during is the rate during the child run that was added last, of its own samples and of what is known.
func (r clockRate) during(run stat.Estimate) float64 {
	m := mean{r.ticks, knownSamples}
	m.add(run.Value, run.N)
	return m.value
}
