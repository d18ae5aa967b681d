package timing

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// enoughReplicates are what a block gets before it is asked whether more are of use: the whole design twice.
const enoughReplicates = 4 * passReplicates

const (
	// coarsely is how wide the interval of a block may remain that will not be narrow after manyReplicates, in the
	// widths that were asked for. Wider ones get replicates until mostReplicates (docs/precision-notes.md, "Narrower where there is one speed" and "Twenty runs").
	coarsely = 1.4
	// coarselySeveral is the same of a block with several speeds: with 2, as many as one in ten of these differed by more than 1 % in
	// the next run, and of the others one in 400.
	coarselySeveral = 1.1

	manyReplicates = 8 * passReplicates
	mostReplicates = 6 * manyReplicates
	// steadyReplicates are those after which a block is steady or unstable.
	steadyReplicates = 2 * manyReplicates

	// onceShare is by how much a window may differ from the mean before layouts were visited again, and
	// onceFloor the same in cycles, for blocks that take a fraction of one. The trimmed mean and the mean of
	// all windows may then be half of the precision apart: that much one layout by itself can move the mean.
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
	// trim is the share of windows at either end that are not counted where layouts have one speed. An image that begins
	// anew is now and then slower or faster by a few cycles a run, in one window of ten.
	trim = 0.1
)

// estimate is what a sample says.
type estimate struct {
	sample
	stat.Estimate
	design stat.Design
	speeds [][]stat.Cell // the layouts by speed
	uneven bool          // there is one speed, and yet the mean over layouts is far off the trimmed one
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
// from noise, and the interval is that of windows drawn at random. From the second visit on it rests on
// replicates. Where layouts differ by more than noise, only what does not repeat within a layout is
// noise, since all runs have the same layouts; where they do not, the mean is trimmed, because what
// disturbs a few replicates is no layout's. But where that makes a difference the mean over layouts stands, as in a run that
// finds several speeds.
// The interval is never narrower than the clock's steps make it, in which both the block's time and
// the rate move: the one of the block's samples, as if all runs of a timing counted, the other of earlier replicates, too.
func (s sample) estimate() estimate {
	cycles := PerIteration(s.windows)
	design := s.design(cycles)
	speeds := speedsOf(design)
	var e stat.Estimate
	switch {
	case !design.Repeated():
		e = stat.MidMean(cycles)
	case design.Differ:
		e = design.Estimate
	default:
		e = stat.Trimmed(s.replicates(), trim)
	}
	uneven := false
	if design.Repeated() && len(speeds) == 1 {
		e.Value = stat.Trimmed(cycles, trim).Value
		if uneven = !s.near(e.Value, design.Value); uneven {
			e = design.Estimate
		}
	}
	n := len(s.windows)
	block := s.clock.Resolution(windowSamples*n, timesOver(s.runs, s.clock)*float64(s.iterations)) / s.rate.ticks
	rate := e.Value * s.clock.RateResolution(max(s.rate.samples, n)) / s.rate.ticks
	e.Half = math.Hypot(math.Hypot(max(e.Half, block), rate), processShare*e.Value)
	return estimate{s, e.Prediction(), design, speeds, uneven}
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
	return stat.NewDesign(visits, math.Max(disturbedShare*stat.Median(cycles), disturbedFloor))
}

const (
	// speedGap is by how much two speeds differ at least, as a share of the cycles, or of one cycle where that is more: as much as
	// tells the windows of two layouts apart before layouts are visited again.
	speedGap = onceShare
	// finerSpeeds is by how many gaps the parts of a group differ at least that is itself the result of a split: most blocks with
	// three and more speeds have a fast and a slow group within which layouts spread, and each run split these at different layouts
	// (docs/precision-notes.md, "Finer speeds").
	finerSpeeds = 2
	// speedErrors is by how many standard errors they do. With 8 and these gaps the same speeds were found in two runs most often
	// (docs/layouts.md).
	speedErrors = 8
)

// speedsOf are the layouts of a design by speed, the fastest first: one group where layouts cannot be told from noise.
func speedsOf(d stat.Design) [][]stat.Cell {
	if !d.Repeated() || !d.Differ {
		return [][]stat.Cell{d.Cells}
	}
	return d.Groups(func(mean float64) float64 { return speedGap * max(mean, 1) }, finerSpeeds, speedErrors)
}

// doubtful reports whether layouts have several speeds after n replicates, and were visited less than four times: which layout
// has which speed is less certain than their mean, and one in some 10,000 blocks had a layout that was slow for some
// milliseconds, twice in a row (docs/threat-model.md). Of four visits two that are disturbed are cut (stat.NewDesign). So it is where
// the mean over layouts is more than half of the precision off the trimmed one: some layout may well have another speed.
func (e estimate) doubtful(n int) bool {
	return n < manyReplicates && (len(e.speeds) > 1 || e.uneven)
}

// narrow reports whether the interval is narrow enough. Before layouts were visited again, the mean is to
// hold for all of them besides: the trimmed mean leaves out a layout that is slow by itself.
func (e estimate) narrow() bool {
	if !e.narrowEnough(e.Half) || e.design.Repeated() {
		return e.narrowEnough(e.Half)
	}
	cycles := PerIteration(e.windows)
	return e.near(e.Value, stat.Mean(cycles)) && !slices.ContainsFunc(cycles, func(c float64) bool {
		return math.Abs(c-e.Value) > math.Max(onceShare*e.Value, onceFloor)
	})
}

func (e estimate) narrowEnough(half float64) bool { return half <= e.asked(e.Value) }

// near reports whether two means are within half of the precision of each other.
func (s sample) near(a, b float64) bool { return 2*math.Abs(a-b) <= s.asked(a) }

// asked is the half-width of an interval about so many cycles that was asked for.
func (s sample) asked(cycles float64) float64 { return s.precision * math.Max(cycles, 1) }

// coarse reports whether the interval is as narrow as one is that may remain.
func (e estimate) coarse() bool {
	widths := coarsely
	if len(e.speeds) > 1 {
		widths = coarselySeveral
	}
	return e.narrowEnough(e.Half / widths)
}

// hopeless reports whether more replicates than n are of no use: the block will not be steady after
// steadyReplicates; or it is, and its interval is coarse already and will not be narrow after manyReplicates.
func (e estimate) hopeless(n int) bool {
	switch {
	case n < enoughReplicates || !e.design.Repeated(): // as long as a window is owed, what layouts differ by is in the interval
		return false
	case !Steady(e.Estimate):
		return !Steady(e.after(n, steadyReplicates))
	case n >= manyReplicates:
		return e.coarse()
	}
	return e.coarse() && !e.narrowEnough(e.after(n, manyReplicates).Half)
}

// wide reports whether it may be other work that keeps the interval of n replicates from being narrow: a block that varies by itself is given up earlier, unless
// it may become narrow. They are not complete if the time was up.
func (e estimate) wide(n int, complete bool) bool {
	return !e.narrowEnough(e.Half) && (n >= steadyReplicates || !complete)
}

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
