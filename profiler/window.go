package profiler

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
)

// stayPlan is what to do in one stay in the child, from one stop to the next: scene after scene.
type stayPlan struct {
	scenes     []scene
	samples    int    // wanted of each window
	wait       int    // busy sentinel readings to spend ahead of all windows together
	polls      int    // sentinel readings to spend on a window
	quiet      uint64 // longest sentinel reading of a quiet core, in ticks
	calmStores uint64 // the same of its burst of stores; 0 is any
	vectorBits int    // width of the vector units to keep awake
}

// scene is a pair of images, timed in window after window with some warm-up and samples each.
// Its windows differ in the turns of the loop before the first copy alone.
type scene struct {
	setup       []tracee.Op // first: a fresh mapping
	short, long timedImage
	turns       []int // one window for each
}

// stay is what came back: the windows of all scenes in their order.
type stay struct {
	windows  []window
	switches uint64 // context switches seen
	runs     int    // that the stay found to last long enough, if it was to
}

// window is some samples with one number of turns.
type window struct {
	columns  [][]uint64 // sentinel, the chains, short, long; one reading a sample
	scene    int        // of the plan, by number
	turns    int
	polls    int        // sentinel readings spent
	complete bool       // it has all samples that were wanted
	runs     [2]float64 // of the short and the long image between two readings
}

const (
	columnSentinel = 0
	columnChains   = 1
)

func (w window) samples() int { return len(w.columns[0]) }

// warmRuns of each image follow a remap, to fill caches, op cache and predictors; turnsRuns
// another number of turns, which only the predictor has to learn.
const (
	warmRuns  = 16
	turnsRuns = 4
)

// oneWindow are the turns of a scene with a single window.
var oneWindow = []int{0}

// stay runs a plan. Its time limit is generous: all it guards is a lost child.
func (s *session) stay(p stayPlan) (stay, error) {
	for i, chain := range s.chains {
		for _, w := range chain.phase(i) {
			s.child.SetWord(w.slot, w.value)
		}
	}
	s.child.SetWord(layout.SlotIdleAdds, p.quiet)
	s.child.SetWord(layout.SlotIdleStores, cmp.Or(p.calmStores, math.MaxUint32))
	s.child.SetWord(layout.SlotWait, uint64(max(p.wait, 1)))

	var windows []window
	ops := 2 // those around all scenes
	for i, scene := range p.scenes {
		ops += len(scene.setup) + 2*phaseWords + 2 + windowOps*len(scene.turns)
		for _, turns := range scene.turns {
			windows = append(windows, window{
				scene: i, turns: turns,
				runs: [2]float64{float64(scene.short.runs), float64(scene.long.runs)},
			})
		}
	}
	out, err := s.output(len(windows), p.samples)
	if err != nil {
		return stay{}, err
	}
	paced := false
	list := append(make([]tracee.Op, 0, ops), tracee.UsageBefore())
	at := 0 // the next window
	sampler := s.samplerFor(p.vectorBits)
	for _, scene := range p.scenes {
		list = append(list, scene.setup...)
		for i, image := range []timedImage{scene.short, scene.long} {
			words := image.phase(len(s.chains) + i)
			known := words[:]
			if image.runs == 0 {
				known = words[:1]
			}
			for _, w := range known {
				list = append(list, tracee.Put(w.slot, w.value))
			}
		}
		if scene.long.runs == 0 && !paced {
			list = append(list, tracee.Run(scene.long.entry, pacedRuns), tracee.Run(s.pace, uint64(scene.long.warm)))
			paced = true
		}
		warm := uint64(warmRuns)
		for _, turns := range scene.turns {
			if p.wait > 0 {
				list = append(list, tracee.Run(sampler.lull, 0))
			}
			list = append(list,
				tracee.Put(layout.SlotDispatch, uint64(turns)),
				tracee.Put(layout.SlotOut, out.samples(at)),
				tracee.Put(layout.SlotKept, out.samples(at)),
				tracee.Put(layout.SlotSamples, uint64(p.samples)),
				tracee.Put(layout.SlotPolls, uint64(p.polls)),
				tracee.Run(scene.short.entry, warm), tracee.Run(scene.long.entry, warm),
				tracee.Run(sampler.sample, 0),
				tracee.Move(out.tail(at), layout.SlotKept),
				tracee.Move(out.tail(at)+8, layout.SlotPolls))
			at++
			warm = turnsRuns
		}
	}
	s.yield()
	stop, err := s.child.Do(append(list, tracee.UsageAfter()), stayLimit)
	if err != nil {
		return stay{}, err
	}
	if r := mapper.Closed(stop); r != nil {
		return stay{}, r
	}
	if !stop.Done {
		return stay{}, fmt.Errorf("timing stopped: signal %d, code %d, address %#x at %#x, step %d, errno %d", stop.Signal, stop.Code, stop.Addr, stop.Regs.RIP, stop.FailedOp, stop.Errno)
	}
	got := stay{windows: windows, switches: s.child.Switches()}
	if paced {
		if got.runs = int(s.child.Word(layout.SlotRuns)); got.runs < 1 || got.runs > maxRuns {
			return stay{}, fmt.Errorf("the control page was overwritten: %d runs a sample", got.runs)
		}
	}
	for i := range windows {
		if paced {
			windows[i].runs = [2]float64{float64(got.runs), float64(got.runs)}
		}
		if err := out.read(&windows[i], i, p); err != nil {
			return stay{}, err
		}
	}
	return got, nil
}

// windowOps are the steps of a window.
const windowOps = 11

// slotWord is a value for a slot.
type slotWord struct{ slot, value uint64 }

const phaseWords = 3

// phase is the image as row i of the sampler's table.
func (t timedImage) phase(i int) [phaseWords]slotWord {
	at := layout.Phases + uint64(i)*layout.PhaseSize
	return [...]slotWord{
		{at, t.entry},
		{at + 8, uint64(t.warm + t.runs)},
		{at + 16, uint64(t.runs + 1)}, // where space.Times has the start
	}
}

// output is where a stay's windows leave their samples, and at its end what stood in SlotKept and
// SlotPolls behind each. Every window starts at a page, so that all of them use the same sets
// of L1D, and few.
type output struct {
	memory  []byte // of the samples' area
	columns int
	room    uint64 // for a window
	tails   uint64
}

const tailSize = 16

func (s *session) output(windows, samples int) (output, error) {
	columns := 1 + len(s.chains) + 2
	o := output{
		memory: s.child.Samples(), columns: columns,
		room:  (uint64(8*columns*samples) + layout.PageSize - 1) &^ (layout.PageSize - 1),
		tails: layout.Samples + layout.SamplesSize - uint64(windows)*tailSize,
	}
	if o.samples(windows-1)+uint64(8*columns*samples) > o.tails {
		return o, fmt.Errorf("%d windows of %d samples do not fit", windows, samples)
	}
	return o, nil
}

func (o output) samples(window int) uint64 { return layout.Samples + uint64(window)*o.room }
func (o output) tail(window int) uint64    { return o.tails + uint64(window)*tailSize }
func (o output) word(addr uint64) uint64 {
	return binary.LittleEndian.Uint64(o.memory[addr-layout.Samples:])
}

// read fills in what window i of a plan measured.
func (o output) read(w *window, i int, p stayPlan) error {
	at, sample := o.samples(i), 8*o.columns
	kept, polls := int(o.word(o.tail(i))-at), p.polls-int(o.word(o.tail(i)+8))
	n := kept / sample
	if kept < 0 || n > p.samples || kept%sample != 0 || polls < 0 || polls > p.polls {
		return fmt.Errorf("the control page was overwritten: %d samples of %d, %d polls of %d", n, p.samples, polls, p.polls)
	}
	w.polls, w.complete = polls, n == p.samples
	w.columns = make([][]uint64, o.columns)
	values := make([]uint64, o.columns*n)
	for c := range w.columns {
		w.columns[c], values = values[:n:n], values[n:]
		for j := range n {
			w.columns[c][j] = o.word(at + uint64(j*sample+8*c))
		}
	}
	return nil
}

// yieldEvery is how long a goroutine profiles until it yields once. Go's monitor takes the
// processor of one that has not for 10 ms (forcePreemptNS, runtime/proc.go) as soon as it waits
// for the child, and then looks every 20 µs for a while whether there is more to take, each time
// in somebody's window. To yield costs two switches of threads.
const yieldEvery = 4 * time.Millisecond

func (s *session) yield() {
	if now := time.Now(); now.Sub(s.yielded) > yieldEvery {
		runtime.Gosched()
		s.yielded = now
	}
}

// samplerFor is the sampler that keeps units of a width awake, as far as this CPU has them.
func (s *session) samplerFor(bits int) sampler {
	if has, ok := s.samplers[bits]; ok {
		return has
	}
	return s.samplers[128]
}

const stayLimit = 5 * time.Second

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

// rate is the clock's rate over all windows of the stay, in ticks per cycle.
func (s stay) rate(clock clock.Clock) stat.Estimate {
	chains := make([][]float64, len(clock.Chains()))
	for _, w := range s.windows {
		for i, d := range w.floats(columnChains, columnChains+len(chains)-1) {
			chains[i] = append(chains[i], d...)
		}
	}
	return clock.Rate(chains)
}

// throughput is the block's time in this window, in ticks per iteration; step is the clock's.
func (w window) throughput(f unroll.Factors, step float64) stat.Estimate {
	last := len(w.columns) - 1
	per := make([]float64, w.samples())
	for i := range per {
		short := float64(w.columns[last-1][i]) / w.runs[0]
		long := float64(w.columns[last][i]) / w.runs[1]
		per[i] = unroll.Throughput(short, long, f)
	}
	return stat.Core(per, 2.5*step/(w.runs[1]*float64(f.Long-f.Short)))
}

// cycles is the block's throughput in this window in cycles per iteration; NaN without samples.
func (w window) cycles(f unroll.Factors, clock clock.Clock, rate clockRate) float64 {
	if w.samples() == 0 {
		return math.NaN()
	}
	return w.throughput(f, clock.Step()).Value / rate.ticks
}
