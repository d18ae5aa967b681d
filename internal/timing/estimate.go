package timing

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

const (
	mostReplicates = 12 * passReplicates // limit at usualPrecision: every layout six times
	variesAfter    = 4 * passReplicates  // after these, a block that will not converge is reported with its present interval
	usualPrecision = 0.01                // profiler's default
	finest         = 4                   // a finer precision takes up to this many times as many replicates

	// A layout whose window is further from the mean, before layouts are visited again, may itself be slow.
	onceShare = 0.04
	onceFloor = 0.005 // in cycles, for blocks that take a fraction of a cycle
	// A window further from the others of its layout was disturbed. Two modes within a layout differ by less.
	disturbedShare = 0.15
	disturbedFloor = 0.05  // in cycles
	processShare   = 0.002 // difference between processes, as a share of the cycles
)

// replicates returns the numbers of replicates after which the interval is checked, and the number after which a block that varies by
// itself is given up. Checks are few, because an interval that is checked often is sometimes narrow by chance.
func replicates(precision float64) (checked []int, varies int) {
	more := min(max(math.Pow(usualPrecision/precision, 2), 1), finest) // the half-width falls with the square root of the number
	most := int(mostReplicates * more)
	for n := passReplicates; n < most; n *= 2 {
		checked = append(checked, n)
	}
	return append(checked, most), int(variesAfter * more)
}

// estimate is the interval of a sample.
type estimate struct {
	sample
	stat.Estimate
	design stat.Design
	speeds [][]stat.Cell // layouts grouped by speed
}

// sample holds the windows of a block and the other inputs of their interval.
type sample struct {
	windows    []Window
	clock      clock.Clock
	rate       clockRate
	runs       int // per timing
	iterations int // long image minus short image
	precision  float64
}

// estimate returns the block's cycles per iteration, the mean over the layouts, and the interval that holds
// another run's result. While some layout has a single visit, layouts cannot be separated from noise: the estimate
// is then the midmean of all windows, with the interval of windows drawn at random. From the second visit on,
// layouts are fixed effects, and the interval rests on replicates.
// The interval is at least as wide as the clock's steps make it, for the block's time (from its own samples, as if all
// runs of a timing counted) and for the rate (from earlier replicates too).
func (s sample) estimate() estimate {
	cycles := PerIteration(s.windows)
	design := s.design(cycles)
	e := design.Estimate
	if !design.Repeated() {
		e = stat.MidMean(cycles)
	}
	n := len(s.windows)
	block := s.clock.Resolution(windowSamples*n, precisionGain(s.runs, s.clock)*float64(s.iterations)) / s.rate.ticks
	rate := e.Value * s.clock.RateResolution(max(s.rate.samples, n)) / s.rate.ticks
	e.Half = math.Hypot(math.Hypot(max(e.Half, block), rate), processShare*e.Value)
	return estimate{s, e.Prediction(), design, speedsOf(design)}
}

func (s sample) design(cycles []float64) stat.Design {
	visits := make([]stat.Visit, len(s.windows))
	for i, w := range s.windows {
		visits[i] = stat.Visit{Cell: int(w.Layout), Batch: w.Replicate, Value: w.Cycles}
	}
	return stat.NewDesign(visits, math.Max(disturbedShare*stat.Median(cycles), disturbedFloor))
}

// Two speeds differ by speedGap of the cycles, or of one cycle if that is more, and by speedErrors standard errors.
const (
	speedGap    = 0.04
	speedErrors = 8
)

// speedsOf groups the layouts of a design by speed, the fastest first. It returns one group if layouts cannot be separated from noise.
func speedsOf(d stat.Design) [][]stat.Cell {
	if !d.Repeated() || !d.Differ {
		return [][]stat.Cell{d.Cells}
	}
	return d.Groups(func(mean float64) float64 { return speedGap * max(mean, 1) }, speedErrors)
}

// enough reports whether n replicates suffice: the interval is narrow, or it would not be after the largest number, and that number would not change whether
// the block is steady.
func (e estimate) enough(n int) bool {
	checked, varies := replicates(e.precision)
	last := e.predictAfter(n, checked[len(checked)-1])
	return e.narrow() || n >= varies && e.design.Repeated() && last.Half > e.requestedHalf(e.Value) && Steady(e.Estimate) == Steady(last)
}

// narrow reports whether the interval is as narrow as requested. Before layouts have a second visit, all windows must agree as well: the midmean would
// ignore slow layouts.
func (e estimate) narrow() bool {
	asked := e.requestedHalf(e.Value)
	if e.Half > asked || e.design.Repeated() {
		return e.Half <= asked
	}
	cycles := PerIteration(e.windows)
	far := func(c float64) bool { return math.Abs(c-e.Value) > math.Max(onceShare*e.Value, onceFloor) }
	return 2*math.Abs(e.Value-stat.Mean(cycles)) <= asked && !slices.ContainsFunc(cycles, far)
}

// requestedHalf returns the requested half-width at this number of cycles.
func (s sample) requestedHalf(cycles float64) float64 { return s.precision * math.Max(cycles, 1) }

// predictAfter predicts the interval after replicates from that of n: its width falls with the square root of the number.
func (e estimate) predictAfter(n, replicates int) stat.Estimate {
	last := e.Estimate
	last.Half *= math.Sqrt(float64(n) / float64(replicates))
	return last
}

// AtOffsetsOf returns the mean over the layouts that share a dispatch offset with these windows, and the
// largest distance of one of them from it. If layouts do not differ, it returns the mean over all and
// spread 0.
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
