package timing

import (
	"math"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// clockRate is the clock's rate in ticks per core cycle over the last child runs. A core keeps its clock
// for thousands of child runs. The clock's steps limit each run's measurement to a few tenths of a
// percent, so their mean is better than any one of them.
type clockRate struct {
	ticks   float64
	samples int // in the mean; 0: a first guess

	latest mean // of the child runs since the last comparison
}

type mean struct {
	value   float64
	samples int
}

func (m *mean) add(value float64, samples int) {
	m.samples += samples
	m.value += (value - m.value) * float64(samples) / float64(m.samples)
}

const (
	passSamples = passWindows      // compared with the known rate; fewer would not tell a moved clock from the clock's steps
	rateSamples = 20 * passSamples // most samples in the mean, some 3 ms
)

// add adds a child run's rate. If passSamples samples differ from the mean by more than their 95 % interval, the
// core's clock has moved (or this is the one case in twenty where it has not), and the earlier mean is dropped.
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

// knownSamples is the weight of the mean of earlier child runs, in samples, in the rate of the present one.
const knownSamples = 4

// during returns the rate during the last child run, from its own samples and the known mean.
func (r clockRate) during(run stat.Estimate) float64 {
	m := mean{r.ticks, knownSamples}
	m.add(run.Value, run.N)
	return m.value
}
