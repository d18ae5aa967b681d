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

// replicates returns the numbers of replicates after which the interval is checked, and the number after which a
// block that varies by itself is given up. Checks are few, because an interval that is checked often is sometimes
// narrow by chance.
func replicates(precision float64) (checked []int, varies int) {
	more := min(max(math.Pow(usualPrecision/precision, 2), 1), finest) // the half-width falls with the square root of the number
	most := int(mostReplicates * more)
	for n := passReplicates; n < most; n *= 2 {
		checked = append(checked, n)
	}
	return append(checked, most), int(variesAfter * more)
}

// derive sets the block's cycles per iteration, the mean over the layouts, with the interval that holds another run's
// result. While some layout has a single visit, layouts cannot be separated from noise: the estimate is then the midmean
// of all windows, with the interval of windows drawn at random. It holds their mean too, since the midmean ignores slow
// layouts. From the second visit on, layouts are fixed effects, and the interval rests on replicates. The interval is at
// least as wide as the clock's steps make it, for the block's time (from its own samples, as if all runs of a timing
// counted) and for the rate (from earlier replicates too).
func (t *Timed) derive(c clock.Clock, r clockRate, p Pair, uneven bool) {
	alike := t.Windows
	if !uneven {
		alike = inOneState(t.Windows)
	}
	t.Mixed = len(t.Windows) - len(alike)
	n, cycles := len(alike), PerIteration(alike)
	visits := make([]stat.Visit, n)
	for i, w := range alike {
		visits[i] = stat.Visit{Cell: int(w.Layout), Batch: w.Replicate, Value: w.Cycles}
	}
	t.Design = stat.NewDesign(visits, math.Max(disturbedShare*stat.Median(cycles), disturbedFloor))
	t.Speeds = speedsOf(t.Design)
	e := t.Design.Estimate
	if !t.Design.Repeated() {
		e = stat.MidMean(cycles)
		e.Half = max(e.Half, math.Sqrt2*math.Abs(e.Value-stat.Mean(cycles))) // Prediction makes it twice
	}
	block := c.Resolution(windowSamples*n, precisionGain(t.RunsPerSample, c)*float64(p.iterations())) / r.ticks
	rate := e.Value * c.RateResolution(max(r.samples, n)) / r.ticks
	e.Half = math.Hypot(math.Hypot(max(e.Half, block), rate), processShare*e.Value)
	t.Estimate = e.Prediction()
	t.Estimate.Half = math.Hypot(t.Estimate.Half, p.Own/2)
}

const (
	// Mispredicted is what a mispredicted branch costs at most, in cycles.
	Mispredicted = 15
	stateShare   = 0.1 // of the shorter image
	stateFloor   = 4 * Mispredicted
)

// inOneState returns the windows whose two images ran in one state. An image that begins in another state takes another time for each of its
// iterations, and the difference of two such images is no time of the block. It shows in what the shorter image takes beside its iterations, which
// would be the same in all windows.
func inOneState(windows []Window) (alike []Window) {
	var around []float64
	for _, w := range windows {
		around = append(around, w.Around)
	}
	if len(windows) == 0 {
		return windows
	}
	slices.Sort(around)
	usual := around[len(around)/2] // of a window: the mean of two states is none
	for _, w := range windows {
		if math.Abs(w.Around-usual) <= max(stateShare*w.Short, stateFloor) {
			alike = append(alike, w)
		}
	}
	return alike
}

// Two speeds differ by speedGap of the cycles, or of one cycle if that is more, and by speedErrors standard errors.
const (
	speedGap    = 0.04
	speedErrors = 8
)

// speedsOf groups the layouts of a design by speed, the fastest first, if they differ by more than noise.
func speedsOf(d stat.Design) [][]stat.Cell {
	if !d.Repeated() || !d.Differ {
		return [][]stat.Cell{d.Cells}
	}
	return d.Groups(func(mean float64) float64 { return speedGap * max(mean, 1) }, speedErrors)
}

// enough reports whether n replicates suffice: the interval is narrow, or it would not be after the largest number,
// and that number would not change whether the block is steady. An interval's width falls with the square root of the
// number.
func (t Timed) enough(n int, precision float64) bool {
	if t.narrow(precision) {
		return true
	}
	checked, varies := replicates(precision)
	last := t.Estimate
	last.Half *= math.Sqrt(float64(n) / float64(checked[len(checked)-1]))
	return n >= varies && t.Design.Repeated() && last.Half > precision*max(last.Value, 1) && Steady(t.Estimate) == Steady(last)
}

// narrow reports whether the interval is as narrow as requested. Before layouts have a second visit, no window may be
// far from the others either: it may be of a slow layout.
func (t Timed) narrow(precision float64) bool {
	e := t.Estimate
	far := func(w Window) bool { return math.Abs(w.Cycles-e.Value) > math.Max(onceShare*e.Value, onceFloor) }
	return e.Half <= precision*max(e.Value, 1) && (t.Design.Repeated() || !slices.ContainsFunc(t.Windows, far))
}

// AtOffsetsOf returns the mean over the layouts that share a dispatch offset with these windows, and the largest
// distance of one of them from it. If layouts do not differ, it returns the mean over all and spread 0.
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
