package timing

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

const (
	// mostReplicates end the work on a block, at a precision of usualPrecision: every layout six times.
	mostReplicates = 12 * passReplicates
	// variesAfter are the replicates after which a block that will not be narrow by mostReplicates is reported with the interval that it has: every layout
	// twice, so that layouts are told from noise.
	variesAfter = 4 * passReplicates
	// usualPrecision is profiler's default. A finer one takes more replicates, up to finest times as many.
	usualPrecision = 0.01
	finest         = 4

	// onceShare is by how much windows may differ from their mean before layouts were visited again, and
	// onceFloor the same in cycles, for blocks that take a fraction of one: else a layout may be slow by itself.
	onceShare = 0.04
	onceFloor = 0.005
	// disturbedShare is by how much a window differs from others of its layout that was disturbed, as a
	// share of the cycles. Blocks with two speeds in one layout differ by less, and to cut the rarer one
	// would give the mean of the other with an interval that is too narrow.
	disturbedShare = 0.15
	disturbedFloor = 0.05 // in cycles
	// processShare is what one process differs from the next by besides, as a share of the cycles: with
	// it 95 % of the blocks are inside the interval of another run, without it 92 %.
	processShare = 0.002
)

// replicates says when work on a block may end: the numbers of replicates after which its interval is looked at, few, because an interval that is looked at often is
// once narrow by chance; and after which of them a block is given up that varies by itself.
func replicates(precision float64) (checked []int, varies int) {
	more := min(max(math.Pow(usualPrecision/precision, 2), 1), finest) // a half-width falls as the root of their number
	most := int(mostReplicates * more)
	for n := passReplicates; n < most; n *= 2 {
		checked = append(checked, n)
	}
	return append(checked, most), int(variesAfter * more)
}

// estimate is what a sample says.
type estimate struct {
	sample
	stat.Estimate
	design stat.Design
	speeds [][]stat.Cell // the layouts by speed
}

// sample is the windows of a block with what their interval depends on besides.
type sample struct {
	windows    []Window
	clock      clock.Clock
	rate       clockRate
	runs       int // of an image in one timing
	iterations int // that the longer image has more
	precision  float64
}

// estimate is the block's cycles per iteration, the mean over the layouts, with the interval in which
// another run's lie. As long as a layout was visited only once, what differs between layouts cannot be told
// from noise: the estimate is the midmean of all windows, and its interval that of windows drawn at random. From the second visit on
// layouts are fixed effects, and the interval rests on replicates.
// The interval is never narrower than the clock's steps make it, in which both the block's time and
// the rate move: the one of the block's samples, as if all runs of a timing counted, the other of earlier replicates, too.
func (s sample) estimate() estimate {
	cycles := PerIteration(s.windows)
	design := s.design(cycles)
	e := design.Estimate
	if !design.Repeated() {
		e = stat.MidMean(cycles)
	}
	n := len(s.windows)
	block := s.clock.Resolution(windowSamples*n, timesOver(s.runs, s.clock)*float64(s.iterations)) / s.rate.ticks
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

const (
	// speedGap is by how much two speeds differ at least, as a share of the cycles, or of one cycle where that is more.
	speedGap = 0.04
	// speedErrors is by how many standard errors they do. With 8 and this gap the same speeds were found in two runs most often.
	speedErrors = 8
)

// speedsOf are the layouts of a design by speed, the fastest first: one group where layouts cannot be told from noise.
func speedsOf(d stat.Design) [][]stat.Cell {
	if !d.Repeated() || !d.Differ {
		return [][]stat.Cell{d.Cells}
	}
	return d.Groups(func(mean float64) float64 { return speedGap * max(mean, 1) }, speedErrors)
}

// enough reports whether n replicates are: the interval is narrow, or will not be after the most that there may be, and the block is either steady already or will
// not be then.
func (e estimate) enough(n int) bool {
	checked, varies := replicates(e.precision)
	last := e.after(n, checked[len(checked)-1])
	return e.narrow() || n >= varies && e.design.Repeated() && last.Half > e.asked(e.Value) && Steady(e.Estimate) == Steady(last)
}

// narrow reports whether the interval is as narrow as was asked for. Before layouts were visited again, all windows have to agree: the midmean leaves out
// layouts that are slow by themselves.
func (e estimate) narrow() bool {
	asked := e.asked(e.Value)
	if e.Half > asked || e.design.Repeated() {
		return e.Half <= asked
	}
	cycles := PerIteration(e.windows)
	far := func(c float64) bool { return math.Abs(c-e.Value) > math.Max(onceShare*e.Value, onceFloor) }
	return 2*math.Abs(e.Value-stat.Mean(cycles)) <= asked && !slices.ContainsFunc(cycles, far)
}

// asked is the half-width of an interval about so many cycles that was asked for.
func (s sample) asked(cycles float64) float64 { return s.precision * math.Max(cycles, 1) }

// after is what the interval of n replicates will be after so many: its width falls as the root of their number.
func (e estimate) after(n, replicates int) stat.Estimate {
	last := e.Estimate
	last.Half *= math.Sqrt(float64(n) / float64(replicates))
	return last
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
