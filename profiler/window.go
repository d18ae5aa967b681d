package profiler

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/bbprof/bbprof/counter"
	"github.com/bbprof/bbprof/internal/space"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/stat"
	"github.com/bbprof/bbprof/unroll"
)

// windowPlan is one uninterrupted stay in the child: a fresh mapping, some warm-up, samples.
type windowPlan struct {
	setup       []tracee.Op
	short, long timedImage
	samples     int    // wanted
	polls       int    // sentinel readings to spend on them
	quiet       uint64 // longest sentinel reading of a quiet core, in ticks
	vectorBits  int    // width of the vector units to keep awake
	turns       int    // more turns of the loop before the first copy
}

// window is what came back.
type window struct {
	columns  [][]uint64 // sentinel, the chains, short, long; one reading a sample
	polls    int        // sentinel readings spent
	switches uint64     // context switches seen
	plan     windowPlan
}

const (
	columnSentinel = 0
	columnChains   = 1
)

func (w window) samples() int { return len(w.columns[0]) }

// warmRuns precede a window, to fill caches, op cache and predictors after the remap.
const warmRuns = 16

// window runs a plan. Its time limit is generous: all it guards is a lost child.
func (s *session) window(p windowPlan) (window, error) {
	table := append(append([]timedImage(nil), s.chains...), p.short, p.long)
	for i, image := range table {
		at := space.Phases + uint64(i)*space.PhaseSize
		s.child.SetWord(at, image.entry)
		s.child.SetWord(at+8, uint64(image.warm+image.runs))
		s.child.SetWord(at+16, uint64(image.runs+1)) // where space.Times has the start
	}
	s.child.SetWord(space.SlotOut, space.Samples)
	s.child.SetWord(space.SlotKept, space.Samples)
	s.child.SetWord(space.SlotSamples, uint64(p.samples))
	s.child.SetWord(space.SlotPolls, uint64(p.polls))
	s.child.SetWord(space.SlotQuiet, p.quiet)
	s.child.SetWord(space.SlotTurns, uint64(p.turns))

	ops := append(append([]tracee.Op(nil), p.setup...),
		tracee.Run(p.short.entry, warmRuns), tracee.Run(p.long.entry, warmRuns),
		tracee.UsageBefore(), tracee.Run(s.samplerFor(p.vectorBits), 0), tracee.UsageAfter())
	stop, err := s.child.Do(ops, windowLimit)
	if err != nil {
		return window{}, err
	}
	if !stop.Done {
		return window{}, fmt.Errorf("timing stopped: signal %d, code %d, address %#x at %#x, step %d, errno %d", stop.Signal, stop.Code, stop.Addr, stop.Regs.RIP, stop.FailedOp, stop.Errno)
	}
	w := window{
		plan:     p,
		columns:  make([][]uint64, 1+len(table)),
		polls:    p.polls - int(s.child.Word(space.SlotPolls)),
		switches: s.child.Switches(),
	}
	samples := s.child.Samples()
	n, rest := int(s.child.Word(space.SlotKept)-space.Samples)/(8*len(w.columns)), int(s.child.Word(space.SlotKept)-space.Samples)%(8*len(w.columns))
	if n < 0 || n > p.samples || rest != 0 || w.polls < 0 || w.polls > p.polls {
		return window{}, fmt.Errorf("the control page was overwritten: %d samples of %d, %d polls of %d", n, p.samples, w.polls, p.polls)
	}
	for c := range w.columns {
		w.columns[c] = make([]uint64, n)
		for i := range n {
			w.columns[c][i] = binary.LittleEndian.Uint64(samples[8*(i*len(w.columns)+c):])
		}
	}
	return w, nil
}

// samplerFor is the sampler that keeps units of a width awake, as far as this CPU has them.
func (s *session) samplerFor(bits int) uint64 {
	if entry, ok := s.samplers[bits]; ok {
		return entry
	}
	return s.samplers[128]
}

const windowLimit = 5 * time.Second

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

// rate is the clock's rate in this window, in ticks per cycle.
func (w window) rate(clock counter.Clock) stat.Estimate {
	return clock.Rate(w.floats(columnChains, columnChains+len(clock.Chains())-1))
}

// throughput is the block's time in this window, in ticks per iteration; step is the clock's.
func (w window) throughput(f unroll.Factors, step float64) stat.Estimate {
	last := len(w.columns) - 1
	per := make([]float64, w.samples())
	for i := range per {
		short := float64(w.columns[last-1][i]) / float64(w.plan.short.runs)
		long := float64(w.columns[last][i]) / float64(w.plan.long.runs)
		per[i] = unroll.Throughput(short, long, f)
	}
	return stat.Core(per, 2.5*step/float64(w.plan.long.runs*(f.Long-f.Short)))
}
