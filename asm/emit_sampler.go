package asm

import (
	"math"

	"github.com/bbprof/bbprof/internal/layout"
)

// Clock appends code that waits for everything before it and then leaves a clock reading in
// rax. It may change rcx and rdx.
type Clock func(e *Emitter)

// TSC reads the time-stamp counter behind an lfence, the ordering that the SDM (vol. 2,
// RDTSC) and AMD's APM prescribe.
func TSC(e *Emitter) {
	e.Lfence()
	e.Rdtsc()
	e.Shl(RDX, 32)
	e.Or(RAX, RDX)
}

// Sampler appends the code that times images until SlotSamples samples are confirmed or
// SlotPolls sentinel readings are used up, and then goes to done.
//
// A sample is the sentinel's reading and one clock difference per phase of the table at
// space.Phases, 8 bytes each. Each phase runs its image a number of times in a row and takes
// the clock at the end of the last run less that some runs earlier; the first runs are not
// timed, so that caches, op cache and predictors are the image's own. Before each phase it
// waits a few turns more or less (SlotDither), so that a clock that moves in steps is met at
// every point of its step.
//
// Before and after each sample stands the sentinel: turns of a loop of independent adds,
// which is slower as soon as another hardware thread takes issue slots of this core. A
// sample between two quiet sentinels is confirmed, any other is overwritten.
//
// A core switches the upper halves of its vector units off when nothing has used them for
// some 0.7 ms, and runs at a quarter of its speed for some 10 µs when something does again
// (Fog, microarchitecture.pdf, "Warm-up period for YMM and ZMM"). Waiting for a quiet core can
// take that long, so the sampler for a wide block uses vectorBits of them at each reading.
func (e *Emitter) Sampler(clock Clock, phases, turns, vectorBits int, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.keepAwake(vectorBits)
	e.sentinel(clock, turns)
	e.Store(layout.SlotSentinel, RAX)
	e.CmpMem(RAX, layout.SlotQuiet)
	busy := e.ForwardJa()

	// Quiet: what was sampled since the last quiet reading holds.
	e.Load(RDI, layout.SlotOut)
	e.Load(RSI, layout.SlotKept)
	e.Store(layout.SlotKept, RDI)
	e.Sub(RDI, RSI)
	first := e.ForwardJz() // nothing was sampled since
	e.DecMem(layout.SlotSamples)
	complete := e.ForwardJz()
	e.Land(first)

	e.Load(RDI, layout.SlotOut)
	e.Load(RAX, layout.SlotSentinel)
	e.StoreAt(RDI, 0, RAX)
	e.AddImm8(RDI, 8)
	e.Store(layout.SlotOut, RDI)
	e.Lea(RSI, layout.Phases)
	e.Store(layout.SlotPhase, RSI)
	e.Load(RAX, layout.SlotDither)
	e.AddImm8(RAX, 23) // odd: all 64 delays come, neighbours far apart
	e.AndImm8(RAX, 63)
	e.Store(layout.SlotDither, RAX)

	phase := e.PC()
	e.Load(RSI, layout.SlotPhase)
	e.LoadAt(RAX, RSI, 0)
	e.Store(layout.SlotEntry, RAX)
	e.LoadAt(RAX, RSI, 8)
	e.Store(layout.SlotCount, RAX)
	back := e.ForwardLea(RAX)
	e.Store(layout.SlotReturn, RAX)
	e.Load(RCX, layout.SlotDither)
	e.AddImm8(RCX, 1)
	wait := e.PC()
	e.Dec(RCX)
	e.JnzShort(wait)
	e.JmpMem(layout.SlotEntry)

	e.Align(64)
	e.Land(back)
	e.Load(RSI, layout.SlotPhase)
	e.LoadAt(RCX, RSI, 16)
	e.Lea(RDX, layout.Times)
	e.LoadAt(RAX, RDX, 8)
	e.LoadIndexed(RCX, RDX, RCX)
	e.Sub(RAX, RCX)
	e.Load(RDI, layout.SlotOut)
	e.StoreAt(RDI, 0, RAX)
	e.AddImm8(RDI, 8)
	e.Store(layout.SlotOut, RDI)
	e.Load(RSI, layout.SlotPhase)
	e.AddImm8(RSI, layout.PhaseSize)
	e.Store(layout.SlotPhase, RSI)
	e.Lea(RDI, layout.Phases+uint64(phases)*layout.PhaseSize)
	e.Sub(RSI, RDI)
	e.Jnz(phase)
	e.DecMem(layout.SlotPolls)
	e.Jnz(entry)
	e.Jmp(done)

	// Busy: forget what was sampled since the last quiet reading.
	e.Land(busy)
	e.Load(RDI, layout.SlotKept)
	e.Store(layout.SlotOut, RDI)
	e.DecMem(layout.SlotPolls)
	e.Jnz(entry)
	e.Land(complete)
	e.Jmp(done)
	return entry
}

// Lull appends code that waits until nobody shares the core, or until SlotWait busy readings are
// used up, and then goes to done. A reading is the sentinel's and, if that is quiet, of a burst
// of stores. If the first is quiet that is enough; behind a busy one calm quiet readings in a row
// are asked for, since who shares the core comes and goes. Once they are used up all that comes
// is busy: nothing is as fast as SlotQuiet then says.
func (e *Emitter) Lull(clock Clock, turns, vectorBits, calm int, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.MovImm(RAX, 1)
	e.Store(layout.SlotCalm, RAX)
	again := e.PC()
	e.keepAwake(vectorBits)
	e.sentinel(clock, turns)
	e.CmpMem(RAX, layout.SlotQuiet)
	busy := e.ForwardJa()
	e.burst(clock)
	e.CmpMem(RAX, layout.SlotCalmStores)
	awake := e.ForwardJa()
	e.DecMem(layout.SlotCalm)
	e.Jnz(again)
	e.Jmp(done)

	e.Land(busy)
	e.Land(awake)
	e.MovImm(RAX, uint64(calm))
	e.Store(layout.SlotCalm, RAX)
	e.DecMem(layout.SlotWait)
	e.Jnz(again)
	e.MovImm(RAX, 1)
	e.Store(layout.SlotWait, RAX)
	e.MovImm(RAX, 0)
	e.Store(layout.SlotQuiet, RAX)
	e.Jmp(done)
	return entry
}

// Pace appends code that makes of the last runs of an image, of which there were so many, how many
// last for some ticks together, and has the last two phases of the table time so many at once
// behind as many more as rsi says. It leaves their number in SlotPace: what the fastest run says,
// and most if that is more.
func (e *Emitter) Pace(phases, runs, ticks, most int, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.MovImm(RAX, math.MaxInt64)
	e.Store(layout.SlotPace, RAX)
	for left := uint64(1); left < uint64(runs); left++ { // the first run has no beginning
		e.Load(RAX, layout.Times+8*left)
		e.SubMem(RAX, layout.Times+8*(left+1))
		e.CmpMem(RAX, layout.SlotPace)
		slower := e.ForwardJa()
		e.Store(layout.SlotPace, RAX)
		e.Land(slower)
	}
	least := (ticks + most - 1) / most // ticks of a run of which no more than most are needed
	e.MovImm(RCX, uint64(least))
	e.CmpMem(RCX, layout.SlotPace)
	short := e.ForwardJa()
	e.Load(RCX, layout.SlotPace)
	e.Land(short)
	e.MovImm(RDX, 0)
	e.MovImm(RAX, uint64(ticks-1))
	e.Add(RAX, RCX)
	e.Raw(0x48, 0xf7, 0xf1) // div rcx
	e.Store(layout.SlotPace, RAX)
	e.Add(RSI, RAX)
	e.AddImm8(RAX, 1)
	for phase := phases - 2; phase < phases; phase++ {
		at := layout.Phases + uint64(phase)*layout.PhaseSize
		e.Store(at+8, RSI)
		e.Store(at+16, RAX)
	}
	e.Jmp(done)
	return entry
}

// keepAwake uses vector units of a width.
func (e *Emitter) keepAwake(vectorBits int) {
	switch vectorBits {
	case 256:
		e.Raw(0xc5, 0xfc, 0x58, 0xc0) // vaddps ymm0, ymm0, ymm0
		e.Raw(0xc5, 0xf8, 0x77)       // vzeroupper
	case 512:
		e.Raw(0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0) // vaddps zmm0, zmm0, zmm0
		e.Raw(0xc5, 0xf8, 0x77)
	}
}

// SentinelAdds is the number of adds in one turn of the sentinel's loop, to registers that do
// not depend on each other: more of them than any core executes in a cycle.
const SentinelAdds = 64

func (e *Emitter) sentinel(clock Clock, turns int) {
	regs := [...]Reg{RAX, RDX, RBX, RSI, RDI, R8, R9, R10}
	e.timedLoop(clock, turns, func() {
		for i := range SentinelAdds {
			r := regs[i%len(regs)]
			e.Add(r, r)
		}
	})
}

// timedLoop leaves in rax how long turns of a loop take that rcx counts.
func (e *Emitter) timedLoop(clock Clock, turns int, body func()) {
	clock(e)
	e.Lfence()
	e.Store(layout.SlotStart, RAX)
	e.MovImm(RCX, uint64(turns))
	e.Align(64)
	loop := e.PC()
	body()
	e.Align(32) // the fused dec+jnz must not touch a 32-byte boundary (Intel erratum SKX102)
	e.Dec(RCX)
	e.Jnz(loop)
	clock(e)
	e.SubMem(RAX, layout.SlotStart)
}

const (
	burstTurns = 32
	// burstStores is the number of stores in one turn.
	burstStores = 32
)

// burst times stores to one word. As long as another hardware thread of the core is awake it
// has its share of the store queue, even where it takes no issue slots: on Zen 4 a store then takes 0.64
// cycles instead of 0.50, and blocks full of stores or loads run slower by up to a half, which adds
// alone do not show (docs/precision.md).
func (e *Emitter) burst(clock Clock) {
	e.timedLoop(clock, burstTurns, func() {
		for range burstStores {
			e.Store(layout.SlotScratch, RAX)
		}
	})
}

// Bursts appends code that leaves the times of SlotSamples bursts of stores from SlotOut on, 8 bytes
// each, and goes to done.
func (e *Emitter) Bursts(clock Clock, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.burst(clock)
	e.Load(RDI, layout.SlotOut)
	e.StoreAt(RDI, 0, RAX)
	e.AddImm8(RDI, 8)
	e.Store(layout.SlotOut, RDI)
	e.DecMem(layout.SlotSamples)
	e.Jnz(entry)
	e.Jmp(done)
	return entry
}
