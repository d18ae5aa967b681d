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

// pairPlan is an image pair with the windows to take of it.
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
	columns  [][]uint64 // contention probe and chains, one reading a sample; short and long, as many as they are timed
	pair     int        // of the plan, by number
	offset   int
	polls    int        // probe readings spent
	complete bool       // it has all samples that were wanted
	runs     [2]float64 // of the short and the long image between two readings
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
			fastest := float64(slices.Min(c))
			disturbed[i] = disturbed[i] || float64(d) > fastest+max(ticks, interruptShare*fastest)
		}
	}
	if !slices.Contains(disturbed, true) {
		return w
	}
	w.columns = slices.Clone(w.columns)
	for i, c := range images {
		kept := []uint64(nil)
		for j, d := range c {
			if !disturbed[j] {
				kept = append(kept, d)
			}
		}
		w.columns[len(w.columns)-2+i] = kept
	}
	return w
}

// warmRuns of each image follow a remap, to fill caches, op cache and predictors; offsetRuns
// follow another dispatch offset, which only the predictor has to learn.
const (
	warmRuns   = 16
	offsetRuns = 4
)

// windowOps are the steps of a window in the child's list.
const windowOps = 11

// windows lists the windows of a plan, still empty.
func (p runPlan) windows() (windows []window) {
	for i, pair := range p.pairs {
		for _, offset := range pair.offsets {
			windows = append(windows, window{
				pair: i, offset: offset,
				runs: [2]float64{float64(pair.short.runs), float64(pair.long.runs)},
			})
		}
	}
	return windows
}

// run has the child carry out a plan.
func (t *TSC) run(p runPlan) (childRun, error) {
	got := childRun{windows: p.windows()}
	out, err := newOutput(t.child, len(t.chains), len(got.windows), p)
	if err != nil {
		return childRun{}, err
	}
	t.setSlots(p, out.rows)
	list, searches := t.list(p, out)
	t.yield()
	if err := t.child.Complete(list, runLimit, "timing"); err != nil {
		return childRun{}, err
	}
	got.switches = t.child.Switches()
	if searches {
		if got.runs = int(t.child.Word(layout.SlotRuns)); got.runs < 1 || got.runs > maxRuns {
			return childRun{}, fmt.Errorf("the control page was overwritten: %d runs a sample", got.runs)
		}
	}
	for i := range got.windows {
		w := &got.windows[i]
		if searches {
			w.runs = [2]float64{float64(got.runs), float64(got.runs)}
		}
		if err := out.read(w, i, p); err != nil {
			return childRun{}, err
		}
	}
	return got, nil
}

func (t *TSC) setSlots(p runPlan, rows rows) {
	for i, chain := range t.chains {
		for _, w := range chain.phase(rows.chains[i]) {
			t.child.SetWord(w.slot, w.value)
		}
	}
	t.child.SetWord(layout.SlotPhasesEnd, layout.Phases+uint64(rows.n())*layout.PhaseSize)
	t.child.SetWord(layout.SlotIdleAdds, p.idle)
	t.child.SetWord(layout.SlotIdleStores, cmp.Or(p.idleStores, math.MaxUint32))
	t.child.SetWord(layout.SlotWait, uint64(max(p.wait, 1)))
}

// list is the child's list for a plan. It searches for the number of runs a sample once, where an
// image leaves that open.
func (t *TSC) list(p runPlan, out output) (list []tracee.Op, searches bool) {
	ops := 2 // those around all pairs
	for _, pair := range p.pairs {
		ops += len(pair.setup) + 2*p.times*phaseWords + 2 + windowOps*len(pair.offsets)
	}
	list = append(make([]tracee.Op, 0, ops), tracee.UsageBefore())
	sampler := t.samplerFor(p.vectorBits)
	at := 0 // the next window
	for _, pair := range p.pairs {
		list = append(list, pair.setup...)
		for _, row := range out.rows.pairs {
			for i, im := range []image{pair.short, pair.long} {
				words := im.phase(row + i)
				known := words[:]
				if im.runs == 0 {
					known = words[:1] // the search writes the others
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
		warm := uint64(warmRuns)
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
				tracee.Run(pair.short.entry, warm), tracee.Run(pair.long.entry, warm),
				tracee.Run(sampler.sample, 0),
				tracee.Move(out.tail(at), layout.SlotKept),
				tracee.Move(out.tail(at)+8, layout.SlotPolls))
			at++
			warm = offsetRuns
		}
	}
	return append(list, tracee.UsageAfter()), searches
}

type slotWord struct{ slot, value uint64 }

const phaseWords = 3

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

// phase is the image as row i of the sampler's table.
func (im image) phase(i int) [phaseWords]slotWord {
	at := layout.Phases + uint64(i)*layout.PhaseSize
	return [...]slotWord{
		{at, im.entry},
		{at + 8, uint64(im.warm + im.runs)},
		{at + 16, uint64(im.runs + 1)}, // where layout.Times has the start
	}
}

// output is where the windows leave their samples, and at its end what stood in SlotKept and
// SlotPolls after each. Every window starts at a page, so that all of them use the same sets
// of L1D, and few.
type output struct {
	memory []byte // of the samples' area
	rows   rows   // that a sample has a word of each, after the probe's
	sample int    // its bytes
	room   uint64 // for a window
	tails  uint64
}

const tailSize = 16

func newOutput(child *tracee.Tracee, chains, windows int, p runPlan) (output, error) {
	rows := rowsOf(chains, p.times)
	sample := 8 * (1 + rows.n())
	o := output{
		memory: child.Samples(), rows: rows, sample: sample,
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

// sampled reads a word of the area that samples and counts are in.
func sampled(samples []byte, addr uint64) uint64 {
	return binary.LittleEndian.Uint64(samples[addr-layout.Samples:])
}

// read fills in what window i of a plan measured.
func (o output) read(w *window, i int, p runPlan) error {
	at := o.samples(i)
	kept, polls := int(o.word(o.tail(i))-at), p.polls-int(o.word(o.tail(i)+8))
	n := kept / o.sample
	if kept < 0 || n > p.samples || kept%o.sample != 0 || polls < 0 || polls > p.polls {
		return fmt.Errorf("the control page was overwritten: %d samples of %d, %d polls of %d", n, p.samples, polls, p.polls)
	}
	w.polls, w.complete = polls, n == p.samples
	values := make([]uint64, 0, n*o.sample/8)
	column := func(words ...int) []uint64 {
		first := len(values)
		for j := range n {
			for _, word := range words {
				values = append(values, o.word(at+uint64(j*o.sample+8*word)))
			}
		}
		return values[first:len(values):len(values)]
	}
	w.columns = append(make([][]uint64, 0, 1+len(o.rows.chains)+2), column(0))
	for _, row := range o.rows.chains {
		w.columns = append(w.columns, column(1+row))
	}
	var short, long []int
	for _, row := range o.rows.pairs {
		short, long = append(short, 1+row), append(long, 2+row)
	}
	w.columns = append(w.columns, column(short...), column(long...))
	return nil
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

func floats(v []uint64) []float64 {
	f := make([]float64, len(v))
	for i, x := range v {
		f[i] = float64(x)
	}
	return f
}

// floats are some columns of the window, from to inclusive.
func (w window) floats(from, to int) [][]float64 {
	var f [][]float64
	for _, c := range w.columns[from : to+1] {
		f = append(f, floats(c))
	}
	return f
}

// ticks is all that was timed.
func (w window) ticks() float64 {
	var sum uint64
	for _, c := range w.columns {
		for _, d := range c {
			sum += d
		}
	}
	return float64(sum)
}

// rate is the clock's rate over all windows of the run, in ticks per cycle.
func (r childRun) rate(clock clock.Clock) stat.Estimate {
	chains := make([][]float64, len(clock.Chains()))
	for _, w := range r.windows {
		for i, d := range w.floats(columnChains, columnChains+len(chains)-1) {
			chains[i] = append(chains[i], d...)
		}
	}
	return clock.Rate(chains)
}

// moved reports whether the window's own chains differ from the known rate by more than the clock's steps
// explain: the core's clock moved while or before it was taken. On Granite Rapids it moves by 2.4 % and
// back within a child run whenever wide vectors come into use.
func (w window) moved(clock clock.Clock, known float64) bool {
	own := childRun{windows: []window{w}}.rate(clock)
	return math.Abs(own.Value-known) > max(clock.RateResolution(own.N), movedShare*known)
}

// movedShare is by how much a window's rate differs at least if the core's clock has moved.
const movedShare = 0.005

// cycles is the block's throughput in this window in cycles per iteration, by so many ticks of the clock
// per cycle; NaN without samples.
func (w window) cycles(p Pair, clock clock.Clock, rate float64) float64 {
	if w.samples() == 0 {
		return math.NaN()
	}
	last := len(w.columns) - 1
	per := make([]float64, w.samples())
	for i := range per {
		per[i] = p.PerIteration(float64(w.columns[last-1][i])/w.runs[0], float64(w.columns[last][i])/w.runs[1])
	}
	// Each of two timings has two readings, each off by up to a step, and a little.
	slack := 2.5 * clock.Step() / (w.runs[1] * float64(p.iterations()))
	return stat.Core(per, slack).Value / rate
}
