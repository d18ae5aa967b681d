package timing

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
)

// image is the code that one row of the sampler's table times.
type image struct {
	entry uint64
	warm  int // untimed runs first, at least 1; 0: the image stores its start, and its window is its first run in a while
	runs  int // runs per timing; 0: the child run searches for the number

	spread float64 // see Image
}

// runPlan lists the image pairs to time in one child run (from one stop of the child to the next).
type runPlan struct {
	pairs      []pairPlan
	samples    int    // per window
	rows       rows   // of a sample
	wait       int    // limit of busy probe readings while waiting for an idle core, over all windows
	polls      int    // limit of probe readings per window
	idle       uint64 // longest probe reading of an idle core, in ticks
	idleStores uint64 // the same for a burst of stores; 0: no limit
	vectorBits int    // width of the vector units to keep awake
}

// pairPlan is an image pair and the windows to take of it. Both images have the same number of runs per timing.
type pairPlan struct {
	setup       []tracee.Op // maps the pages first
	short, long image
	offsets     []int // rename phases, one window each
}

// childRun holds the windows of all pairs in the order of the plan.
type childRun struct {
	windows  []window
	switches uint64 // context switches seen
	runs     int    // runs per timing, if the child run searched for it
}

// window holds samples taken at one rename phase.
type window struct {
	columns  [][]float64  // ticks: contention probe and chains, one per sample; whole timings of short and long
	perRun   [2][]float64 // ticks of one run of short and long, one per timing
	pair     int          // index in the plan
	offset   int
	runs     int        // per timing
	polls    int        // probe readings spent
	raw      [][]uint64 // all runs of short and long alternately, when recording
	complete bool       // has all samples of the plan
}

const (
	columnProbe  = 0
	columnChains = 1
)

// samples returns the number of timings of each image.
func (w window) samples() int { return len(w.columns[len(w.columns)-1]) }

// disagreeShare is the largest difference between the two timings of an image in a window, as a share of the faster
// one. It finds interrupts, and neighbours that are active for less than a timing, which the probe on both sides of the
// window misses.
const disagreeShare = 0.01

// disagrees reports whether timings of an image differ by more than disagreeShare and the clock's steps explain.
func (w window) disagrees(c clock.Clock) bool {
	for _, runs := range w.perRun {
		fastest, slowest := slices.Min(runs), slices.Max(runs)
		if slowest-fastest > max(disagreeShare*fastest, clockSlack(c)/precisionGain(w.runs, c)) {
			return true
		}
	}
	return false
}

// After a remap, each image runs warmShort or warmLong times before its first window, to fill caches, op cache and
// predictors. After a change of rename phase only the predictor must learn it.
const (
	warmShort  = 16
	warmLong   = 56
	offsetRuns = 4
)

// windows lists the plan's windows, without samples.
func (p runPlan) windows() (windows []window) {
	for i, pair := range p.pairs {
		for _, offset := range pair.offsets {
			windows = append(windows, window{pair: i, offset: offset})
		}
	}
	return windows
}

// runChild executes a plan in the child.
func (t *TSC) runChild(p runPlan) (childRun, error) {
	got := childRun{windows: p.windows()}
	out, err := newOutput(t.child, t.mostRuns, len(got.windows), p)
	if err != nil {
		return childRun{}, err
	}
	out.raw = t.Record != nil
	t.setSlots(p, out)
	list, searches := t.list(p, out)
	t.yield()
	if err := t.child.Complete(list, runLimit, "timing"); err != nil {
		return childRun{}, err
	}
	got.switches = t.child.Switches()
	if searches {
		if got.runs = int(t.child.Word(layout.SlotRuns)); got.runs < 1 || got.runs > t.mostRuns {
			return childRun{}, fmt.Errorf("the control page was overwritten: %d runs a sample", got.runs)
		}
	}
	for i := range got.windows {
		w := &got.windows[i]
		runs := cmp.Or(p.pairs[w.pair].long.runs, got.runs)
		if err := out.read(w, i, p, runs, t.clock); err != nil {
			return childRun{}, err
		}
	}
	return got, nil
}

func (t *TSC) setSlots(p runPlan, out output) {
	chain := 0
	for i, kind := range p.rows {
		if kind == 'c' {
			for _, w := range t.chains[chain].phase(i, t.chains[chain].runs) {
				t.child.SetWord(w.slot, w.value)
			}
			chain++
		}
	}
	t.child.SetWord(layout.SlotPhasesEnd, layout.Phases+uint64(len(p.rows))*layout.PhaseSize)
	t.child.SetWord(layout.SlotIdleProbe, p.idle)
	t.child.SetWord(layout.SlotIdleStores, cmp.Or(p.idleStores, math.MaxUint32))
	t.child.SetWord(layout.SlotWait, uint64(max(p.wait, 1)))
	t.child.SetWord(layout.SlotRuns, uint64(out.runs)) // a search overwrites it
}

// list builds the child's list for a plan, in memory that the next call reuses, with at most one search.
func (t *TSC) list(p runPlan, out output) (list []tracee.Op, searches bool) {
	list = append(t.steps[:0], tracee.UsageBefore())
	sampler := t.samplerFor(p.vectorBits)
	at := 0 // index of the next window
	for _, pair := range p.pairs {
		list = append(list, pair.setup...)
		for _, i := range p.rows.images() {
			im := pair.short
			if p.rows[i] == 'l' {
				im = pair.long
			}
			words := im.phase(i, out.runs)
			known := words[:]
			if im.runs == 0 {
				known = words[:2] // the search writes the others
			}
			for _, w := range known {
				list = append(list, tracee.Put(w.slot, w.value))
			}
		}
		if pair.long.runs == 0 && !searches {
			list = append(list, tracee.Run(pair.long.entry, searchedRuns), tracee.Run(t.search, uint64(pair.long.warm)))
			searches = true
		}
		warm := [2]uint64{warmShort, warmLong}
		if t.CPU.SettlesAtOnce {
			warm = [2]uint64{offsetRuns, offsetRuns}
		}
		for _, offset := range pair.offsets {
			if p.wait > 0 {
				list = append(list, tracee.Run(sampler.wait, 0))
			}
			list = append(list,
				tracee.Put(layout.SlotDispatch, uint64(offset)),
				tracee.Put(layout.SlotOut, out.samples(at)),
				tracee.Put(layout.SlotKept, out.samples(at)),
				tracee.Put(layout.SlotSamples, uint64(p.samples)),
				tracee.Put(layout.SlotPolls, uint64(p.polls)))
			if pair.short.warm > 0 { // after SlotDispatch: the predictor learns the new phase
				list = append(list, tracee.Run(pair.short.entry, warm[0]))
			}
			list = append(list,
				tracee.Run(pair.long.entry, warm[1]),
				tracee.Run(sampler.sample, 0),
				tracee.Move(out.tail(at), layout.SlotKept),
				tracee.Move(out.tail(at)+8, layout.SlotPolls))
			at++
			warm = [2]uint64{offsetRuns, offsetRuns}
		}
	}
	t.steps = append(list, tracee.UsageAfter())
	return t.steps, searches
}

type slotWord struct{ slot, value uint64 }

// rows lists the rows of the sampler's table, which it times in this order: c is a chain of adds, s the short image,
// l the long one. A sample holds the probe's word, then one for each chain, and one for each run of each timing.
type rows string

const (
	windowRows rows = "cslcsl"
	startRows  rows = "ccsl"
	addChains       = 2 // in both
)

// images lists the rows of the images.
func (r rows) images() (all []int) {
	for i, kind := range r {
		if kind != 'c' {
			all = append(all, i)
		}
	}
	return all
}

// bytes returns the size of a sample with timings of this many runs.
func (r rows) bytes(runs int) int { return 8 * (1 + addChains + (len(r)-addChains)*runs) }

// phase returns row i of the sampler's table for this image, with room for the times of room runs.
func (im image) phase(i, room int) [4]slotWord {
	at := layout.Phases + uint64(i)*layout.PhaseSize
	return [...]slotWord{
		{at, im.entry},
		{at + 24, 8 * uint64(room)},
		{at + 8, uint64(im.warm + im.runs)},
		{at + 16, uint64(im.runs)},
	}
}

// output is the memory of the samples. Each window starts on a page, so that all use the same sets of
// L1D. The values of SlotKept and SlotPolls after each window are at the end.
type output struct {
	memory []byte
	runs   int    // words per timing
	raw    bool   // keep the times of all runs
	sample int    // bytes
	room   uint64 // bytes per window
	tails  uint64 // address of the slots' values
}

const tailSize = 16

func newOutput(child *tracee.Tracee, most, windows int, p runPlan) (output, error) {
	runs := 0
	for _, pair := range p.pairs {
		runs = max(runs, cmp.Or(pair.long.runs, most))
	}
	sample := p.rows.bytes(runs)
	o := output{
		memory: child.Samples(), runs: runs, sample: sample,
		room:  (uint64(sample*p.samples) + layout.PageSize - 1) &^ (layout.PageSize - 1),
		tails: layout.Samples + layout.SamplesSize - uint64(windows)*tailSize,
	}
	if o.samples(windows-1)+uint64(sample*p.samples) > o.tails {
		return o, fmt.Errorf("%d windows of %d samples do not fit", windows, p.samples)
	}
	return o, nil
}

func (o output) samples(window int) uint64 { return layout.Samples + uint64(window)*o.room }
func (o output) tail(window int) uint64    { return o.tails + uint64(window)*tailSize }
func (o output) word(addr uint64) uint64   { return sampleWord(o.memory, addr) }
func (o output) ticks(addr uint64) float64 { return float64(o.word(addr)) }

// sampleWord reads a word from the area of samples and counts.
func sampleWord(samples []byte, addr uint64) uint64 {
	return binary.LittleEndian.Uint64(samples[addr-layout.Samples:])
}

// read fills in window i of a plan from timings of runs runs each.
func (o output) read(w *window, i int, p runPlan, runs int, c clock.Clock) error {
	at := o.samples(i)
	kept, polls := int(o.word(o.tail(i))-at), p.polls-int(o.word(o.tail(i)+8))
	n := kept / o.sample
	if kept < 0 || n > p.samples || kept%o.sample != 0 || polls < 0 || polls > p.polls {
		return fmt.Errorf("the control page was overwritten: %d samples of %d, %d polls of %d", n, p.samples, polls, p.polls)
	}
	w.runs, w.polls, w.complete = runs, polls, n == p.samples
	w.columns = make([][]float64, 1+addChains+2)
	add := func(to *[]float64, v float64) { *to = append(*to, v) }
	spreads := [2]float64{p.pairs[w.pair].short.spread, p.pairs[w.pair].long.spread}
	var buffer [maxRuns]float64
	for i := range n {
		at := at + uint64(i*o.sample)
		add(&w.columns[columnProbe], o.ticks(at))
		at += 8
		chain, image := columnChains, 0
		for _, kind := range p.rows {
			if kind == 'c' {
				add(&w.columns[chain], o.ticks(at))
				at += 8
				chain++
				continue
			}
			times := o.times(at, runs, buffer[:])
			if o.raw {
				w.raw = append(w.raw, wholeTicks(times))
			}
			all, one := runTimes(times, c, spreads[image])
			add(&w.columns[1+addChains+image], all)
			add(&w.perRun[image], one)
			at += 8 * uint64(o.runs)
			image = 1 - image // the long one follows the short one
		}
	}
	return nil
}

// runTimes returns the time of all runs and the time of one: the mean of the core, because the loop before the copies
// is mispredicted in some runs. The core has all runs that differ by no more than spread, as a share, and the clock's
// steps explain.
func runTimes(times []float64, c clock.Clock, spread float64) (all, one float64) {
	for _, t := range times {
		all += t
	}
	slack := clockSlack(c) + spread*all/float64(len(times))
	if coarse(c) {
		return all, stat.CoreSlope(times, slack)
	}
	return all, stat.CoreMean(times, slack)
}

// From a clock step of coarseStep ticks on, a line through all readings of a timing replaces that through two.
const coarseStep = 10

func coarse(c clock.Clock) bool { return c.Step() >= coarseStep }

// precisionGain is the factor by which undisturbed runs reduce the error of the clock's steps in the time of one.
func precisionGain(runs int, c clock.Clock) float64 {
	n := float64(runs)
	if coarse(c) {
		return math.Sqrt(n * (n + 1) * (n + 2) / 6)
	}
	return n
}

func (o output) times(at uint64, runs int, buffer []float64) []float64 {
	for i := range runs {
		buffer[i] = o.ticks(at + 8*uint64(i))
	}
	return buffer[:runs]
}

func wholeTicks(times []float64) (ticks []uint64) {
	for _, t := range times {
		ticks = append(ticks, uint64(t))
	}
	return ticks
}

// A profiling goroutine yields once every yieldEvery. If it has not yielded for 10 ms (forcePreemptNS,
// runtime/proc.go), Go's monitor takes its processor as soon as it waits for the child, and then polls every 20 µs
// for a while, which disturbs windows.
const yieldEvery = 4 * time.Millisecond

func (t *TSC) yield() {
	if now := time.Now(); now.Sub(t.yielded) > yieldEvery {
		runtime.Gosched()
		t.yielded = now
	}
}

// samplerFor returns the sampler that keeps units of this width awake, or the 128-bit one if the CPU lacks them.
func (t *TSC) samplerFor(bits int) sampler {
	if has, ok := t.samplers[bits]; ok {
		return has
	}
	return t.samplers[128]
}

func (w window) ticks() float64 {
	var sum float64
	for _, c := range w.columns {
		for _, d := range c {
			sum += d
		}
	}
	return sum
}

// rate returns the clock rate over all windows of the run, in ticks per cycle.
func (r childRun) rate(clock clock.TSC) stat.Estimate {
	chains := make([][]float64, addChains)
	for i := range chains {
		for _, w := range r.windows {
			chains[i] = append(chains[i], w.columns[columnChains+i]...)
		}
	}
	return clock.Rate(chains)
}

// clockSlack returns the largest error of the difference of two readings, in ticks.
func clockSlack(c clock.Clock) float64 { return clock.StepSlack * c.Step() }

// chains returns the columns of the chains of adds.
func (w window) chains() [][]float64 { return w.columns[columnChains : columnChains+addChains] }

// clockMoved reports whether the window's own chains differ from the known rate by more than the clock's steps
// explain: the core's clock moved during or before the window. On Granite Rapids it moves by 2.4 % and
// back within a child run whenever wide vectors come into use.
func (w window) clockMoved(clock clock.TSC, known float64) bool {
	own := clock.Rate(w.chains())
	return math.Abs(own.Value-known) > max(clock.RateResolution(own.N), movedShare*known)
}

// movedShare is the least deviation of a window's rate that counts as a move.
const movedShare = 0.005

// cycles returns the window's cycles per iteration, at rate ticks per cycle; NaN without samples.
func (w window) cycles(p Pair, rate float64) float64 {
	return p.cycles(stat.Mean(w.perRun[0]), stat.Mean(w.perRun[1]), rate)
}

// measured returns what a window of a placement shows, at rate ticks per cycle; NaN without samples.
func (w window) measured(p *placement, rate float64) Window {
	m := Window{Layout: LayoutOf(p.place, w.offset), Replicate: p.number, Cycles: w.cycles(p.Pair, rate)}
	if p.Short.Iterations > 0 { // else the longer image is timed alone
		m.Short = stat.Mean(w.perRun[0]) / rate
		m.Around = m.Short - m.Cycles*float64(p.Short.Iterations)
	}
	return m
}
