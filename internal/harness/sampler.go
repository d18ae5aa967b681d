package harness

import (
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// Clock appends code that waits for all before it and leaves a clock reading in rax. It may change rcx and rdx.
type Clock func(e *asm.Emitter)

// TSC reads the time-stamp counter after an lfence, as the SDM (vol. 2, RDTSC) and AMD's APM prescribe.
func TSC(e *asm.Emitter) {
	e.Lfence()
	e.Rdtsc()
	e.Shl(asm.RDX, 32)
	e.Or(asm.RAX, asm.RDX)
}

// Sampler appends code that times images until SlotSamples samples are confirmed or SlotPolls readings
// of the contention probe are used up, and then jumps to done.
//
// A sample holds the contention probe's reading and, for each phase of the table at layout.Phases, as many
// clock differences as the phase has room for, 8 bytes each. A phase runs its image a number of times in a row and
// stores the differences between the clock at the ends of successive runs. The first runs are not timed. The delay
// before each phase varies (SlotDither), so that samples cover every point of a coarse clock's step.
//
// The contention probe runs before and after each sample, and slows down as soon as another hardware thread takes
// issue slots of this core. A sample between two idle readings is confirmed; any other is overwritten.
//
// A core switches the upper halves of its vector units off after some 0.7 ms without use, and then runs at a quarter
// of its speed for some 10 µs (Fog, microarchitecture.pdf, "Warm-up period for YMM and ZMM"). So the sampler for a
// wide block uses vectorBits of them at each reading, and wakes them before each phase.
func Sampler(e *asm.Emitter, clock Clock, probe Probe, vectorBits int, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	keepAwake(e, vectorBits)
	contention(e, clock, probe)
	e.Store(layout.SlotContention, asm.RAX)
	e.CmpMem(asm.RAX, layout.SlotIdleProbe)
	busy := e.ForwardJa()

	// Idle: keep the samples since the last idle reading.
	e.Load(asm.RDI, layout.SlotOut)
	e.Load(asm.RSI, layout.SlotKept)
	e.Store(layout.SlotKept, asm.RDI)
	e.Sub(asm.RDI, asm.RSI)
	first := e.ForwardJz() // no samples since
	e.DecMem(layout.SlotSamples)
	complete := e.ForwardJz()
	e.Bind(first)

	e.Load(asm.RDI, layout.SlotOut)
	e.Load(asm.RAX, layout.SlotContention)
	e.StoreAt(asm.RDI, 0, asm.RAX)
	e.AddImm8(asm.RDI, 8)
	e.Store(layout.SlotOut, asm.RDI)
	e.Lea(asm.RSI, layout.Phases)
	e.Store(layout.SlotPhase, asm.RSI)
	e.Load(asm.RAX, layout.SlotDither)
	e.AddImm8(asm.RAX, 23) // odd: visits all 64 delays, with successive ones far apart
	e.AndImm8(asm.RAX, 63)
	e.Store(layout.SlotDither, asm.RAX)

	phase := e.PC()
	wakeVectors(e, vectorBits)
	e.Load(asm.RSI, layout.SlotPhase)
	e.LoadAt(asm.RAX, asm.RSI, 0)
	e.Store(layout.SlotEntry, asm.RAX)
	e.LoadAt(asm.RAX, asm.RSI, 8)
	e.Store(layout.SlotCount, asm.RAX)
	back := e.ForwardLea(asm.RAX)
	e.Store(layout.SlotReturn, asm.RAX)
	e.Load(asm.RCX, layout.SlotDither)
	e.AddImm8(asm.RCX, 1)
	wait := e.PC()
	e.Dec(asm.RCX)
	e.JnzShort(wait)
	e.JmpMem(layout.SlotEntry)

	e.Align(64)
	e.Bind(back)
	e.Load(asm.RSI, layout.SlotPhase)
	e.Load(asm.RDI, layout.SlotOut)
	e.LoadAt(asm.RAX, asm.RSI, 24)
	e.Add(asm.RAX, asm.RDI)
	e.Store(layout.SlotOut, asm.RAX)
	e.LoadAt(asm.RCX, asm.RSI, 16)
	e.Lea(asm.RDX, layout.Times)
	e.Lea(asm.RBX, layout.Times+8)
	run := e.PC()
	e.LoadIndexed(asm.RAX, asm.RDX, asm.RCX)
	e.LoadIndexed(asm.RSI, asm.RBX, asm.RCX)
	e.Sub(asm.RAX, asm.RSI)
	e.StoreAt(asm.RDI, 0, asm.RAX)
	e.AddImm8(asm.RDI, 8)
	e.Dec(asm.RCX)
	e.JnzShort(run)
	e.Load(asm.RSI, layout.SlotPhase)
	e.AddImm8(asm.RSI, layout.PhaseSize)
	e.Store(layout.SlotPhase, asm.RSI)
	e.SubMem(asm.RSI, layout.SlotPhasesEnd)
	e.Jnz(phase)
	e.DecMem(layout.SlotPolls)
	e.Jnz(entry)
	e.Jmp(done)

	// Busy: drop the samples since the last idle reading.
	e.Bind(busy)
	e.Load(asm.RDI, layout.SlotKept)
	e.Store(layout.SlotOut, asm.RDI)
	e.DecMem(layout.SlotPolls)
	e.Jnz(entry)
	e.Bind(complete)
	e.Jmp(done)
	return entry
}

// WaitIdle appends code that waits until no other thread shares the core, or until SlotWait busy readings are used
// up, and then jumps to done. A reading runs the contention probe and, if that is idle, a burst of stores. After a
// busy first reading the wait takes needed idle readings in a row, since other threads come and go, and afterMapping
// if only its stores were slow: after pages were mapped, the next burst mostly is. When SlotWait is used up,
// SlotIdleProbe is set so low that every later reading counts as busy.
func WaitIdle(e *asm.Emitter, clock Clock, probe Probe, vectorBits, needed int, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.MovImm(asm.RAX, 1)
	e.Store(layout.SlotIdleNeeded, asm.RAX)
	e.MovImm(asm.R11, afterMapping)
	again := e.PC()
	keepAwake(e, vectorBits)
	contention(e, clock, probe)
	e.CmpMem(asm.RAX, layout.SlotIdleProbe)
	busy := e.ForwardJa()
	burst(e, clock)
	e.CmpMem(asm.RAX, layout.SlotIdleStores)
	awake := e.ForwardJa()
	e.DecMem(layout.SlotIdleNeeded)
	e.Jnz(again)
	e.Jmp(done)

	e.Bind(busy)
	e.MovImm(asm.R11, uint64(needed))
	e.Bind(awake)
	e.Store(layout.SlotIdleNeeded, asm.R11)
	e.MovImm(asm.R11, uint64(needed))
	e.DecMem(layout.SlotWait)
	e.Jnz(again)
	e.MovImm(asm.RAX, 1)
	e.Store(layout.SlotWait, asm.RAX)
	e.MovImm(asm.RAX, 0)
	e.Store(layout.SlotIdleProbe, asm.RAX)
	e.Jmp(done)
	return entry
}

// afterMapping is the number of idle readings in a row to wait for after a first one with slow stores.
const afterMapping = 2

// Runs bounds the number of runs per timing: the fewest that take Ticks, between Least and Most, and never more than
// the fewest that take Longest.
type Runs struct{ Ticks, Least, Most, Longest int }

// ChooseRuns appends code that chooses the number of runs per timing from the fastest of the last runs of an image.
// It stores the number in SlotRuns and in these phases of the table, with rsi plus [WarmFor] untimed runs before.
func ChooseRuns(e *asm.Emitter, phases []int, searched int, wanted Runs, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.MovImm(asm.RAX, math.MaxInt64)
	e.Store(layout.SlotRuns, asm.RAX)
	for left := uint64(1); left < uint64(searched); left++ { // the first run has no start time
		e.Load(asm.RAX, layout.Times+8*left)
		e.SubMem(asm.RAX, layout.Times+8*(left+1))
		e.CmpMem(asm.RAX, layout.SlotRuns)
		slower := e.ForwardJa()
		e.Store(layout.SlotRuns, asm.RAX)
		e.Bind(slower)
	}
	limit := func(cmov byte, value int) { // on rax
		e.MovImm(asm.RDX, uint64(value))
		e.Raw(0x48, 0x39, 0xd0)       // cmp rax, rdx
		e.Raw(0x48, 0x0f, cmov, 0xc2) // cmov rax, rdx
	}
	const below, above = 0x42, 0x47
	fill := func(ticks int) { // rax = ticks / rcx, rounded up
		e.MovImm(asm.RDX, 0)
		e.MovImm(asm.RAX, uint64(ticks-1))
		e.Add(asm.RAX, asm.RCX)
		e.Raw(0x48, 0xf7, 0xf1) // div rcx
	}
	e.Load(asm.RAX, layout.SlotRuns)
	limit(below, 1)
	e.Raw(0x48, 0x89, 0xc1) // mov rcx, rax
	fill(wanted.Longest)
	e.Store(layout.SlotRuns, asm.RAX)
	fill(wanted.Ticks)
	limit(below, wanted.Least)
	limit(above, wanted.Most)
	e.CmpMem(asm.RAX, layout.SlotRuns)
	tooMany := e.ForwardJa()
	e.Store(layout.SlotRuns, asm.RAX)
	e.Bind(tooMany)
	e.Load(asm.RAX, layout.SlotRuns)
	e.Load(asm.RDX, layout.SlotRuns)
	e.Raw(0x48, 0xc1, 0xea, 2) // shr rdx, 2
	e.Add(asm.RSI, asm.RDX)
	e.Add(asm.RSI, asm.RAX)
	for _, phase := range phases {
		at := layout.Phases + uint64(phase)*layout.PhaseSize
		e.Store(at+8, asm.RSI)
		e.Store(at+16, asm.RAX)
	}
	e.Jmp(done)
	return entry
}

// WarmFor returns the number of additional untimed runs before this many timed ones. Predictors use a history of
// hundreds of branches, and some runs mispredict until all of it is the image's own.
func WarmFor(runs int) int { return runs / 4 }

func keepAwake(e *asm.Emitter, vectorBits int) {
	if vectorBits > 128 {
		vaddps(e, vectorBits)
		e.Raw(0xc5, 0xf8, 0x77) // vzeroupper
	}
}

func vaddps(e *asm.Emitter, vectorBits int) {
	if vectorBits == 512 {
		e.Raw(0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0) // vaddps zmm0, zmm0, zmm0
	} else {
		e.Raw(0xc5, 0xfc, 0x58, 0xc0) // vaddps ymm0, ymm0, ymm0
	}
}

// wakeIterations is the number of iterations that wake the upper halves of vector units, by their width in bits. On
// Granite Rapids they sleep after 3 to 40 µs without use, and then run at four fifths of their speed for 0.5 to 3 µs.
var wakeIterations = map[int]int{256: 256, 512: 768}

// wakeVectors appends code that uses vector units of this width until they are awake. Otherwise the short
// image, the first after the chains, would pay for the wake-up and the long image would not.
func wakeVectors(e *asm.Emitter, vectorBits int) {
	turns, wide := wakeIterations[vectorBits]
	if !wide {
		return
	}
	e.Raw(0xc5, 0xf8, 0x57, 0xc0) // vxorps xmm0, xmm0, xmm0: a block's value could cause assists
	loop(e, turns, func() {
		for range 4 {
			vaddps(e, vectorBits)
		}
	})
	e.Raw(0xc5, 0xf8, 0x77) // vzeroupper
}

// Probe is the contention probe: a loop of adds and, with Nops, a loop of nops. If a core dispatches more
// instructions than its ALUs execute, another hardware thread need not slow adds (docs/constants.md, ContentionNops).
type Probe struct {
	Iterations int
	Nops       bool
}

const (
	// ContentionAdds is the number of adds in one iteration, independent of each
	// other: more than any core executes in a cycle.
	ContentionAdds = 64
	// ContentionNops is the number of nops; they take about as long.
	ContentionNops = 96
)

func contention(e *asm.Emitter, clock Clock, probe Probe) {
	regs := [...]asm.Reg{asm.RAX, asm.RDX, asm.RBX, asm.RSI, asm.RDI, asm.R8, asm.R9, asm.R10}
	timed(e, clock, func() {
		loop(e, probe.Iterations, func() {
			for i := range ContentionAdds {
				r := regs[i%len(regs)]
				e.Add(r, r)
			}
		})
		if probe.Nops {
			loop(e, probe.Iterations, func() {
				for range ContentionNops {
					e.Raw(0x90)
				}
			})
		}
	})
}

// timed appends body and leaves its time in rax.
func timed(e *asm.Emitter, clock Clock, body func()) {
	clock(e)
	e.Lfence()
	e.Store(layout.SlotStart, asm.RAX)
	body()
	clock(e)
	e.SubMem(asm.RAX, layout.SlotStart)
}

func loop(e *asm.Emitter, iterations int, body func()) {
	e.MovImm(asm.RCX, uint64(iterations))
	e.Align(64)
	again := e.PC()
	body()
	e.Align(32) // the fused dec+jnz must not touch a 32-byte boundary (Intel erratum SKX102)
	e.Dec(asm.RCX)
	e.Jnz(again)
}

const (
	burstTurns = 32
	// burstStores is the number of stores in one iteration.
	burstStores = 32
)

// burst times stores to one word. Another hardware thread of the core owns its share of the store queue while it is
// awake, even if it takes no issue slots: blocks full of stores or loads then take up to 50 % longer on Zen 4, and
// adds do not show it.
func burst(e *asm.Emitter, clock Clock) {
	timed(e, clock, func() {
		loop(e, burstTurns, func() {
			for range burstStores {
				e.Store(layout.SlotScratch, asm.RAX)
			}
		})
	})
}

// Bursts appends code that stores the times of SlotSamples bursts of stores from SlotOut on, and jumps to done.
func Bursts(e *asm.Emitter, clock Clock, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	burst(e, clock)
	e.Load(asm.RDI, layout.SlotOut)
	e.StoreAt(asm.RDI, 0, asm.RAX)
	e.AddImm8(asm.RDI, 8)
	e.Store(layout.SlotOut, asm.RDI)
	e.DecMem(layout.SlotSamples)
	e.Jnz(entry)
	e.Jmp(done)
	return entry
}
