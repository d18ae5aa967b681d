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

// image is what one phase of the sampler times.
type image struct {
	entry uint64
	warm  int // runs before those that are timed, at least 1
	runs  int // timed at once; 0: as many as the child run finds to last long enough
}

// runPlan is what to do in one run of the child, from one stop to the next: one image pair after
// the other.
type runPlan struct {
	pairs      []pairPlan
	samples    int    // wanted of each window
	times      int    // how often in each the images of a pair, in turn
	wait       int    // busy probe readings to spend before all windows together
	polls      int    // probe readings to spend on a window
	idle       uint64 // longest probe reading of an idle core, in ticks
	idleStores uint64 // the same of its burst of stores; 0 is any
	vectorBits int    // width of the vector units to keep awake
}

// pairPlan is an image pair with the windows to take of it. A timing of either image is of the same number of runs.
type pairPlan struct {
	setup       []tracee.Op // before: map the pages
	short, long image
	offsets     []int // dispatch offsets, of one window each
}

// childRun is what came back: the windows of all pairs in their order.
type childRun struct {
	windows  []window
	switches uint64 // context switches seen
	runs     int    // that were found to last long enough, if that was asked
}

// window is some samples with one dispatch offset.
type window struct {
	columns  [][]float64  // ticks: contention probe and chains, once a sample; all runs of short and long, as often as they are timed
	perRun   [2][]float64 // the same of one run of short and long
	pair     int          // of the plan, by number
	offset   int
	runs     int        // in a timing
	polls    int        // probe readings spent
	raw      [][]uint64 // all runs of short and long, by turns, if the core is recorded
	complete bool       // it has all samples that were wanted
}

const (
	columnProbe  = 0
	columnChains = 1
)

// samples is how often the images were timed.
func (w window) samples() int { return len(w.columns[len(w.columns)-1]) }

const (
	// An interrupt lasts no less than interruptSeconds: of 382,870 windows of 4,000 blocks on Granite Rapids the two
	// samples of some 1,500 differed by more than 3 µs, of 81 by 1.2 to 3 µs, and of the others by less.
	interruptSeconds = 2e-6
	// interruptShare is the same as a share of what was timed: long runs differ by more by themselves.
	interruptShare = 0.25
)

// uninterrupted is the window without the samples in which a timing of the block exceeds the fastest of the same image
// by an interrupt of so many ticks.
func (w window) uninterrupted(ticks float64) window {
	disturbed := make([]bool, w.samples())
	images := w.columns[len(w.columns)-2:]
	for _, c := range images {
		for i, d := range c {
			fastest := slices.Min(c)
			disturbed[i] = disturbed[i] || d > fastest+max(ticks, interruptShare*fastest)
		}
	}
	if !slices.Contains(disturbed, true) {
		return w
	}
	w.columns = slices.Clone(w.columns)
	for i, c := range images {
		w.columns[len(w.columns)-2+i] = without(c, disturbed)
		w.perRun[i] = without(w.perRun[i], disturbed)
	}
	return w
}

// disagreeShare is by how much the two timings of an image in a window may differ, as a share of the faster one. What another hardware thread
// does for less than a timing passes the probe on both sides of the window, but seldom lengthens both timings alike: of windows on an idle
// core 6 % disagree by this much, beside such a neighbour 12 to 70 % (Zen 5).
const disagreeShare = 0.01

// disagrees reports whether the timings of either image differ by more than that, and than the clock's steps explain.
func (w window) disagrees(c clock.Clock) bool {
	for _, runs := range w.perRun {
		fastest, slowest := slices.Min(runs), slices.Max(runs)
		if slowest-fastest > max(disagreeShare*fastest, clockSlack(c)/timesOver(w.runs, c)) {
			return true
		}
	}
	return false
}

// without are the values that are not marked.
func without(values []float64, marked []bool) (kept []float64) {
	for i, v := range values {
		if !marked[i] {
			kept = append(kept, v)
		}
	}
	return kept
}

// After a remap each image runs so often, to fill caches, op cache and predictors, before its first window; offsetRuns follow another
// dispatch offset, which only the predictor has to learn. Dense code in longer images goes on getting faster for some 60 runs (Redwood Cove).
const (
	warmShort  = 16
	warmLong   = 56
	offsetRuns = 4
)

// windowOps are the steps of a window in the child's list.
const windowOps = 11

// windows lists the windows of a plan, still empty.
func (p runPlan) windows() (windows []window) {
	n := 0
	for _, pair := range p.pairs {
		n += len(pair.offsets)
	}
	windows = make([]window, 0, n)
	for i, pair := range p.pairs {
		for _, offset := range pair.offsets {
			windows = append(windows, window{pair: i, offset: offset})
		}
	}
	return windows
}

// runChild has the child carry out a plan.
func (t *TSC) runChild(p runPlan) (childRun, error) {
	got := childRun{windows: p.windows()}
	out, err := newOutput(t.child, len(t.chains), t.most, len(got.windows), p)
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
		if got.runs = int(t.child.Word(layout.SlotRuns)); got.runs < 1 || got.runs > t.most {
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
	rows := out.rows
	for i, chain := range t.chains {
		for _, w := range chain.phase(rows.chains[i], chain.runs) {
			t.child.SetWord(w.slot, w.value)
		}
	}
	t.child.SetWord(layout.SlotPhasesEnd, layout.Phases+uint64(rows.n())*layout.PhaseSize)
	t.child.SetWord(layout.SlotIdleProbe, p.idle)
	t.child.SetWord(layout.SlotIdleStores, cmp.Or(p.idleStores, math.MaxUint32))
	t.child.SetWord(layout.SlotWait, uint64(max(p.wait, 1)))
	t.child.SetWord(layout.SlotRuns, uint64(out.runs)) // unless it is searched
}

// list is the child's list for a plan, in memory that the next one takes again. It searches for the number of runs a sample
// once, where an image leaves that open.
func (t *TSC) list(p runPlan, out output) (list []tracee.Op, searches bool) {
	ops := 2 // those around all pairs
	for _, pair := range p.pairs {
		ops += len(pair.setup) + 2*p.times*phaseWords + 2 + windowOps*len(pair.offsets)
	}
	list = append(slices.Grow(t.steps[:0], ops), tracee.UsageBefore())
	sampler := t.samplerFor(p.vectorBits)
	at := 0 // the next window
	for _, pair := range p.pairs {
		list = append(list, pair.setup...)
		for _, row := range out.rows.pairs {
			for i, im := range []image{pair.short, pair.long} {
				words := im.phase(row+i, out.runs)
				known := words[:]
				if im.runs == 0 {
					known = words[:2] // the search writes the others
				}
				for _, w := range known {
					list = append(list, tracee.Put(w.slot, w.value))
				}
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
				tracee.Put(layout.SlotPolls, uint64(p.polls)),
				tracee.Run(pair.short.entry, warm[0]), tracee.Run(pair.long.entry, warm[1]))
			list = append(list,
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

const phaseWords = 4

// rows are where the chains, and each time the short image with the long one after it, stand in the sampler's table.
type rows struct{ chains, pairs []int }

// rowsOf puts a chain ahead of each timing of the images, as far as there are as many. What is left of the chains goes
// first.
func rowsOf(chains, times int) (r rows) {
	for k := range times {
		for len(r.chains) < chains-(times-1-k) {
			r.chains = append(r.chains, r.n())
		}
		r.pairs = append(r.pairs, r.n())
	}
	return r
}

func (r rows) n() int { return len(r.chains) + 2*len(r.pairs) }

// images are the rows of the images, the short one's and the long one's by turns.
func (r rows) images() (all []int) {
	for _, row := range r.pairs {
		all = append(all, row, row+1)
	}
	return all
}

// bytes are those of a sample: a word for the probe and for each chain, and one for each of so many runs of each timing of an image.
func (r rows) bytes(runs int) int { return 8 * (1 + len(r.chains) + 2*len(r.pairs)*runs) }

// phase is the image as row i of the sampler's table, with room for the times of so many runs.
func (im image) phase(i, room int) [phaseWords]slotWord {
	at := layout.Phases + uint64(i)*layout.PhaseSize
	return [...]slotWord{
		{at, im.entry},
		{at + 24, 8 * uint64(room)},
		{at + 8, uint64(im.warm + im.runs)},
		{at + 16, uint64(im.runs)},
	}
}

// output is where the windows leave their samples, and at its end what stood in SlotKept and
// SlotPolls after each. Every window starts at a page, so that all of them use the same sets
// of L1D.
type output struct {
	memory []byte // of the samples' area
	rows   rows   // of the sampler's table: after the probe's word a sample has one of each chain,
	runs   int    // and as many of each timing of an image
	raw    bool   // they are kept
	sample int    // its bytes
	room   uint64 // for a window
	tails  uint64
}

const tailSize = 16

func newOutput(child *tracee.Tracee, chains, most, windows int, p runPlan) (output, error) {
	rows, runs := rowsOf(chains, p.times), 0
	for _, pair := range p.pairs {
		runs = max(runs, cmp.Or(pair.long.runs, most))
	}
	sample := rows.bytes(runs)
	o := output{
		memory: child.Samples(), rows: rows, runs: runs, sample: sample,
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
func (o output) word(addr uint64) uint64   { return sampled(o.memory, addr) }
func (o output) ticks(addr uint64) float64 { return float64(o.word(addr)) }

// sampled reads a word of the area that samples and counts are in.
func sampled(samples []byte, addr uint64) uint64 {
	return binary.LittleEndian.Uint64(samples[addr-layout.Samples:])
}

// read fills in what window i of a plan measured, whose timings were of so many runs of either image.
func (o output) read(w *window, i int, p runPlan, runs int, c clock.Clock) error {
	at := o.samples(i)
	kept, polls := int(o.word(o.tail(i))-at), p.polls-int(o.word(o.tail(i)+8))
	n := kept / o.sample
	if kept < 0 || n > p.samples || kept%o.sample != 0 || polls < 0 || polls > p.polls {
		return fmt.Errorf("the control page was overwritten: %d samples of %d, %d polls of %d", n, p.samples, polls, p.polls)
	}
	w.runs, w.polls, w.complete = runs, polls, n == p.samples
	chains, timings := len(o.rows.chains), n*p.times
	values := make([]float64, n*(1+chains)+4*timings)
	column := func(n int) (c []float64) {
		c, values = values[:n:n], values[n:]
		return c
	}
	w.columns = make([][]float64, 0, 1+chains+2)
	for range 1 + chains {
		w.columns = append(w.columns, column(n))
	}
	w.columns = append(w.columns, column(timings), column(timings))
	w.perRun = [2][]float64{column(timings), column(timings)}
	var buffer [maxRuns]float64
	for i := range n {
		at := at + uint64(i*o.sample)
		w.columns[columnProbe][i] = o.ticks(at)
		at += 8
		chain, timing := 0, 0
		for row := range o.rows.n() {
			if chain < chains && o.rows.chains[chain] == row {
				w.columns[columnChains+chain][i] = o.ticks(at)
				at += 8
				chain++
				continue
			}
			image, timed := timing%2, i*p.times+timing/2
			times := o.times(at, runs, buffer[:])
			if o.raw {
				w.raw = append(w.raw, whole(times))
			}
			w.columns[1+chains+image][timed], w.perRun[image][timed] = runTimes(times, c)
			at += 8 * uint64(o.runs)
			timing++
		}
	}
	return nil
}

// runTimes is how long some runs took by a clock, and one of them: the core of these, since before some the loop ahead of the copies is
// mispredicted. Where less than coreShare of them are in it, the rest is the block's own, and the mean of all counts.
func runTimes(times []float64, c clock.Clock) (all, one float64) {
	for _, t := range times {
		all += t
	}
	core := stat.CoreMean
	if coarse(c) {
		core = stat.CoreSlope
	}
	one, kept := core(times, clockSlack(c))
	if float64(kept) < coreShare*float64(len(times)) {
		one = all / float64(len(times))
	}
	return all, one
}

// coarseStep is the least step of a clock, in ticks, of which all readings within a timing count. Where a step is long beside what
// one run takes more or less than the next, a line through all readings is better known than one through the first and the last, as with steps of
// 26 ticks; where it is short, as with steps of 2, the line is known less well. What is
// between was not measured: the two are alike where runs differ by a sixth of a step.
const coarseStep = 10

func coarse(c clock.Clock) bool { return c.Step() >= coarseStep }

// timesOver is by what factor so many runs tell better than a single one how long a run takes, as far as the clock's steps go and
// none of them is disturbed.
func timesOver(runs int, c clock.Clock) float64 {
	n := float64(runs)
	if coarse(c) {
		return math.Sqrt(n * (n + 1) * (n + 2) / 6)
	}
	return n
}

// coreShare is the least share of its runs that a timing's core has. It was chosen.
const coreShare = 0.6

// times are how long so many runs took, from an address on.
func (o output) times(at uint64, runs int, buffer []float64) []float64 {
	for i := range runs {
		buffer[i] = o.ticks(at + 8*uint64(i))
	}
	return buffer[:runs]
}

// whole are ticks as a recording has them.
func whole(times []float64) (ticks []uint64) {
	for _, t := range times {
		ticks = append(ticks, uint64(t))
	}
	return ticks
}

// yieldEvery is how long a goroutine profiles until it yields once. Go's monitor takes the
// processor of one that has not for 10 ms (forcePreemptNS, runtime/proc.go) as soon as it waits
// for the child, and then checks every 20 µs for a while whether there is more to take, each time
// in somebody's window. To yield costs two switches of threads.
const yieldEvery = 4 * time.Millisecond

func (t *TSC) yield() {
	if now := time.Now(); now.Sub(t.yielded) > yieldEvery {
		runtime.Gosched()
		t.yielded = now
	}
}

// samplerFor is the sampler that keeps units of a width awake, as far as this CPU has them.
func (c *code) samplerFor(bits int) sampler {
	if has, ok := c.samplers[bits]; ok {
		return has
	}
	return c.samplers[128]
}

// ticks is all that was timed.
func (w window) ticks() float64 {
	var sum float64
	for _, c := range w.columns {
		for _, d := range c {
			sum += d
		}
	}
	return sum
}

// rate is the clock's rate over all windows of the run, in ticks per cycle.
func (r childRun) rate(clock clock.Clock) stat.Estimate {
	chains := make([][]float64, len(clock.Chains()))
	for i := range chains {
		chains[i] = make([]float64, 0, len(r.windows))
		for _, w := range r.windows {
			chains[i] = append(chains[i], w.columns[columnChains+i]...)
		}
	}
	return clock.Rate(chains)
}

// clockSlack is by how many ticks the difference of two readings can be off.
func clockSlack(c clock.Clock) float64 { return clock.StepSlack * c.Step() }

// chains are the columns of the first n chains.
func (w window) chains(n int) [][]float64 { return w.columns[columnChains : columnChains+n] }

// moved reports whether the window's own chains differ from the known rate by more than the clock's steps
// explain: the core's clock moved while or before it was taken. On Granite Rapids it moves by 2.4 % and
// back within a child run whenever wide vectors come into use.
func (w window) moved(clock clock.Clock, known float64) bool {
	own := clock.Rate(w.chains(len(clock.Chains())))
	return math.Abs(own.Value-known) > max(clock.RateResolution(own.N), movedShare*known)
}

// movedShare is by how much a window's rate differs at least if the core's clock has moved. It was chosen: a fifth of those 2.4 %.
// By itself the clock moves by 0.3 to 0.5 % within 0.1 ms on Zen 5.
const movedShare = 0.005

// cycles is the block's throughput in this window in cycles per iteration, by so many ticks of the clock
// per cycle; NaN without samples.
func (w window) cycles(p Pair, rate float64) float64 {
	return p.PerIteration(stat.Mean(w.perRun[0]), stat.Mean(w.perRun[1])) / rate
}
