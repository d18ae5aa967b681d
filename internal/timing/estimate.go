package timing

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// enoughReplicates are what a block gets whose interval will not be narrow after all of them: the
// whole design twice, if that is enough to know whether it is steady.
const enoughReplicates = 4 * passReplicates

const (
	// speedShare is by how much a window may differ from the mean without being of another speed: more
	// than the ends of the images make.
	speedShare = 0.02
	// speedFloor is the same in cycles, for blocks that take a fraction of one.
	speedFloor = 0.005
	// processShare is what one process differs from the next by besides, as a share of the cycles: with
	// it 95 % of the blocks of one speed were inside the interval of another run, without it 91 %
	// (docs/precision.md).
	processShare = 0.002
)

// sample is the windows of a block with what their interval depends on besides.
type sample struct {
	windows    []Window
	clock      clock.Clock
	rate       clockRate
	runs       int // of an image between two readings
	iterations int // that the longer image has more
	precision  float64
}

// estimate is the block's cycles per iteration, the mean over the layouts, with the interval in which
// another run's lie. As long as a layout was visited only once, what differs between layouts cannot be told
// from noise, and the interval is that of windows drawn at random. From the second visit on it rests on
// replicates. Where layouts differ by more than noise, only what does not repeat within a layout is
// noise, since all runs have the same layouts; where they do not, the mean is trimmed, because what
// disturbs a few replicates is no layout's.
// The interval is never narrower than the clock's steps make it, in which both the block's time and
// the rate move: the one of the block's samples, the other of earlier replicates, too.
func (s sample) estimate() (stat.Estimate, stat.Design) {
	cycles := perIteration(s.windows)
	design := s.design(cycles)
	var e stat.Estimate
	switch {
	case design.Repeated() && design.Differ:
		e = design.Estimate
	case design.Repeated():
		e = stat.MidMean(s.replicates())
	default:
		e = stat.MidMean(cycles)
	}
	n := len(s.windows) * windowSamples
	block := s.clock.Resolution(n, float64(s.runs*s.iterations)) / s.rate.ticks
	rate := e.Value * s.clock.RateResolution(max(s.rate.samples, n)) / s.rate.ticks
	e.Half = math.Hypot(math.Hypot(max(e.Half, block), rate), processShare*e.Value)
	return e.Prediction(), design
}

// replicates are the means of each replicate's windows.
func (s sample) replicates() (means []float64) {
	by := map[int][]float64{}
	for _, w := range s.windows {
		by[w.Replicate] = append(by[w.Replicate], w.Cycles)
	}
	for _, cycles := range by {
		means = append(means, stat.Mean(cycles))
	}
	slices.Sort(means) // maps have no order
	return means
}

func (s sample) design(cycles []float64) stat.Design {
	visits := make([]stat.Visit, len(s.windows))
	for i, w := range s.windows {
		visits[i] = stat.Visit{Cell: int(w.Layout), Batch: w.Replicate, Value: w.Cycles}
	}
	return stat.NewDesign(visits, speedLimit(stat.Median(cycles))/2)
}

func speedLimit(cycles float64) float64 { return math.Max(speedShare*cycles, speedFloor) }

// narrow reports whether the interval is narrow enough. Before layouts were visited again, all
// windows must show one speed besides: the mean trims away a layout that is slow by itself.
func (s sample) narrow() bool {
	e, design := s.estimate()
	if !s.narrowEnough(e) {
		return false
	}
	return design.Repeated() || !slices.ContainsFunc(s.windows, func(w Window) bool {
		return math.Abs(w.Cycles-e.Value) > speedLimit(e.Value)
	})
}

func (s sample) narrowEnough(e stat.Estimate) bool {
	return e.Half <= s.precision*math.Max(e.Value, 1)
}

// hopeless reports whether more replicates than n are of no use: the block is steady, and its
// interval will not be narrow after all of them either. The width of an interval falls as the root of
// their number.
func (s sample) hopeless(n int) bool {
	e, _ := s.estimate()
	last := e
	last.Half *= math.Sqrt(float64(n) / float64(slices.Max(checked)))
	return n >= enoughReplicates && Steady(e) && !s.narrowEnough(last)
}

// AtOffsetsOf is the mean over those layouts that have a dispatch offset of one of these windows, and
// how far the slowest and the fastest of them are from it at most. Where layouts do not differ it is that of
// all, and there is no spread.
func (t Timed) AtOffsetsOf(windows []Window) (mean, spread float64) {
	if !t.Design.Differ {
		return t.Estimate.Value, 0
	}
	var means []float64
	for _, c := range t.Design.Cells {
		if slices.ContainsFunc(windows, func(w Window) bool { return w.Layout.Offset() == Layout(c.Number).Offset() }) {
			means = append(means, c.Mean)
		}
	}
	if len(means) == 0 {
		return t.Estimate.Value, 0
	}
	mean = stat.Mean(means)
	return mean, max(slices.Max(means)-mean, mean-slices.Min(means))
}
