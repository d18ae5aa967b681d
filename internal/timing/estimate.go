package timing

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// What a block gets that will not be narrow after all replicates.
const (
	fewReplicates    = 4 // if it will not be steady after enoughReplicates either, by far
	unitReplicates   = 6 // if it is steady: the fewest replicates whose mean has an interval of its own, since less than half of six are trimmed away
	enoughReplicates = 8 // else
)

// sample is the windows of a block with what their interval depends on besides.
type sample struct {
	windows    []float64 // cycles per iteration
	clock      clock.Clock
	rate       clockRate
	runs       int // of an image between two readings
	iterations int // that the longer image has more
	precision  float64
}

// estimate is the block's cycles per iteration with the interval in which another run's
// lie. The interval is never narrower than the clock's steps make it, in which both the block's
// time and the rate move: the one of the block's samples, the other of earlier replicates, too.
func (s sample) estimate() stat.Estimate {
	e := stat.MidMean(s.units())
	n := len(s.windows) * windowSamples
	block := s.clock.Resolution(n, float64(s.runs*s.iterations)) / s.rate.ticks
	rate := e.Value * s.clock.RateResolution(max(s.rate.samples, n)) / s.rate.ticks
	e.Half = math.Hypot(max(e.Half, block), rate)
	return e.Prediction()
}

// units are what the estimate is the mean of. Windows, while replicates are few: their scatter holds
// what differs from one mapping and layout to the next, and the effect of the dispatch offset
// besides, which is the same in every run. From unitReplicates on it is the replicates, without
// that effect.
func (s sample) units() []float64 {
	if len(s.windows) < unitReplicates*Windows {
		return s.windows
	}
	var means []float64
	for replicate := range slices.Chunk(s.windows, Windows) {
		if len(replicate) == Windows { // the time may have been up in the last
			means = append(means, stat.Mean(replicate))
		}
	}
	return means
}

// scatter is the mean of the windows with the interval that all their differences make.
func (s sample) scatter() stat.Estimate { return stat.MidMean(s.windows).Prediction() }

// wider is the estimate or the scatter, whichever is the less certain: windows of one slow
// replicate are outweighed by those of others, its mean among few is not.
func (s sample) wider() stat.Estimate {
	e, scatter := s.estimate(), s.scatter()
	if e.Half > scatter.Half {
		return e
	}
	return scatter
}

func (s sample) narrow() bool { return s.narrowEnough(s.estimate()) }

func (s sample) narrowEnough(e stat.Estimate) bool {
	return e.Half <= s.precision*math.Max(e.Value, 1)
}

// hopeless reports whether more replicates than n are of no use. The width of an interval falls
// as the root of their number.
func (s sample) hopeless(n int) bool {
	after := func(e stat.Estimate, replicates int) stat.Estimate {
		e.Half *= math.Sqrt(float64(n) / float64(replicates))
		return e
	}
	switch {
	case n < fewReplicates || s.narrowEnough(after(s.estimate(), slices.Max(checked))):
		return false
	case n < unitReplicates:
		const far = math.Sqrt2 // some windows of four replicates are only noise
		e := after(s.scatter(), enoughReplicates)
		return e.Half > far*UnstableLimit(e)
	}
	return n >= enoughReplicates || Steady(s.wider())
}
