package profiler

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/bbprof/bbprof/counter"
	"github.com/bbprof/bbprof/internal/space"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/stat"
	"github.com/bbprof/bbprof/unroll"
)

// stayPlan is what to do in one stay in the child, from one stop to the next: a fresh mapping,
// and window after window, each with some warm-up and samples. Windows differ in the turns of
// the loop before the first copy alone.
type stayPlan struct {
	setup       []tracee.Op // first
	short, long timedImage
	turns       []int  // one window for each
	samples     int    // wanted of each window
	polls       int    // sentinel readings to spend on them
	quiet       uint64 // longest sentinel reading of a quiet core, in ticks
	vectorBits  int    // width of the vector units to keep awake
}

// stay is what came back.
type stay struct {
	windows  []window
	switches uint64 // context switches seen
}

// window is some samples with one number of turns.
type window struct {
	columns  [][]uint64 // sentinel, the chains, short, long; one reading a sample
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

// oneWindow is a plan's stay if it has no turns: a single window without extra turns.
var oneWindow = []int{0}

// stay runs a plan. Its time limit is generous: all it guards is a lost child.
func (s *session) stay(p stayPlan) (stay, error) {
	table := append(append([]timedImage(nil), s.chains...), p.short, p.long)
	for i, image := range table {
		at := space.Phases + uint64(i)*space.PhaseSize
		s.child.SetWord(at, image.entry)
		s.child.SetWord(at+8, uint64(image.warm+image.runs))
		s.child.SetWord(at+16, uint64(image.runs+1)) // where space.Times has the start
	}
	s.child.SetWord(space.SlotQuiet, p.quiet)

	columns := 1 + len(table)
	room := uint64(8 * columns * p.samples)
	tails := space.Samples + space.SamplesSize - uint64(len(p.turns))*tailSize
	if space.Samples+uint64(len(p.turns))*room > tails {
		return stay{}, fmt.Errorf("%d windows of %d samples do not fit", len(p.turns), p.samples)
	}
	const each = 10 // steps of a window
	ops := append(make([]tracee.Op, 0, 2+len(p.setup)+each*len(p.turns)), tracee.UsageBefore())
	ops = append(ops, p.setup...)
	for i, turns := range p.turns {
		at, tail := space.Samples+uint64(i)*room, tails+uint64(i)*tailSize
		warm := uint64(turnsRuns)
		if i == 0 {
			warm = warmRuns
		}
		ops = append(ops,
			tracee.Put(space.SlotTurns, uint64(turns)),
			tracee.Put(space.SlotOut, at),
			tracee.Put(space.SlotKept, at),
			tracee.Put(space.SlotSamples, uint64(p.samples)),
			tracee.Put(space.SlotPolls, uint64(p.polls)),
			tracee.Run(p.short.entry, warm), tracee.Run(p.long.entry, warm),
			tracee.Run(s.samplerFor(p.vectorBits), 0),
			tracee.Move(tail, space.SlotKept),
			tracee.Move(tail+8, space.SlotPolls))
	}
	s.yield()
	stop, err := s.child.Do(append(ops, tracee.UsageAfter()), stayLimit)
	if err != nil {
		return stay{}, err
	}
	if r := mapper.Closed(stop); r != nil {
		return stay{}, r
	}
	if !stop.Done {
		return stay{}, fmt.Errorf("timing stopped: signal %d, code %d, address %#x at %#x, step %d, errno %d", stop.Signal, stop.Code, stop.Addr, stop.Regs.RIP, stop.FailedOp, stop.Errno)
	}
	got := stay{switches: s.child.Switches()}
	memory := s.child.Samples()
	word := func(addr uint64) uint64 { return binary.LittleEndian.Uint64(memory[addr-space.Samples:]) }
	for i, turns := range p.turns {
		at, tail := space.Samples+uint64(i)*room, tails+uint64(i)*tailSize
		kept, polls := int(word(tail)-at), p.polls-int(word(tail+8))
		n := kept / (8 * columns)
		if kept < 0 || n > p.samples || kept%(8*columns) != 0 || polls < 0 || polls > p.polls {
			return stay{}, fmt.Errorf("the control page was overwritten: %d samples of %d, %d polls of %d", n, p.samples, polls, p.polls)
		}
		w := window{
			columns:  make([][]uint64, columns),
			turns:    turns,
			polls:    polls,
			complete: n == p.samples,
			runs:     [2]float64{float64(p.short.runs), float64(p.long.runs)},
		}
		values := make([]uint64, columns*n)
		for c := range w.columns {
			w.columns[c], values = values[:n:n], values[n:]
			for j := range n {
				w.columns[c][j] = word(at + uint64(8*(j*columns+c)))
			}
		}
		got.windows = append(got.windows, w)
	}
	return got, nil
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

// tailSize is what a window leaves behind the samples: SlotKept and SlotPolls at its end.
const tailSize = 16

// samplerFor is the sampler that keeps units of a width awake, as far as this CPU has them.
func (s *session) samplerFor(bits int) uint64 {
	if entry, ok := s.samplers[bits]; ok {
		return entry
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
func (s stay) rate(clock counter.Clock) stat.Estimate {
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
func (w window) cycles(f unroll.Factors, clock counter.Clock, rate clockRate) float64 {
	if w.samples() == 0 {
		return math.NaN()
	}
	return w.throughput(f, clock.Step()).Value / rate.ticks
}
