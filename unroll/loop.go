package unroll

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

// Counter is what counts the iterations of a loop: a register that the block neither reads nor
// writes or, where it leaves none, layout.SlotLoop in memory.
//
// In memory it costs an iteration a load, an add, a store and an unfused branch instead of one fused
// dec+jnz, and its own chain of a forwarded store, some 6 cycles, beside the block's work.
type Counter struct {
	Reg    asm.Reg
	Memory bool
}

func (c Counter) String() string {
	if c.Memory {
		return "memory"
	}
	return c.Reg.String()
}

// FreeCounter is the counter for a block: the last register in the order of their numbers
// that the block leaves alone. It is never rsp: nothing else could distinguish the stack of a block
// that pushes from bbprof's.
func FreeCounter(insts []asm.Inst) Counter {
	s := asm.StateOf(insts)
	used := s.GPRRead | s.GPRWritten | 1<<asm.RSP
	for r := asm.R15; ; r-- {
		if used>>r&1 == 0 {
			return Counter{Reg: r}
		}
		if r == asm.RAX {
			return Counter{Memory: true}
		}
	}
}

// Loop is a counted loop over copies of a block and the numbers of iterations of its two images.
type Loop struct {
	Copies         int     // of the block in an iteration
	LoopIterations Factors // of the shorter and the longer image
	Counter        Counter
}

// Iterations are how often the block runs in each image.
func (l Loop) Iterations() Factors {
	return Factors{l.Copies * l.LoopIterations.Short, l.Copies * l.LoopIterations.Long}
}

func (l Loop) String() string {
	return fmt.Sprintf("%d copies in the body, %v iterations, counter in %v", l.Copies, l.LoopIterations, l.Counter)
}

const (
	// loopInsts is how many instructions an iteration holds at least. Fewer than some 50 are a case
	// of their own on many cores: a loop buffer may serve them, and how they meet the rename
	// groups and the fetch windows decides about each iteration. Twice that keeps the loop's own
	// fused dec+jnz, one of 97 operations, near 1 % of a block as fast as the core is wide.
	loopInsts = 96
	// ManyIterations and twice as many are the iterations for a block that repeats its addresses. Both
	// exceed the history of any branch predictor (a few hundred branches; Seznec, TAGE), so
	// that both exits are mispredicted. If they ever are not alike, some 20 cycles spread over
	// the difference of 256 iterations, below 0.4 % of the shortest iterations.
	ManyIterations = 256
)

// ChooseLoop is the loop for a block that repeats its addresses, iteration after iteration.
// fits is false if not even one copy fits the op cache's share.
func ChooseLoop(insts []asm.Inst, fe FrontEnd) (l Loop, fits bool) {
	l = Loop{Copies: 1, LoopIterations: Factors{ManyIterations, 2 * ManyIterations}, Counter: FreeCounter(insts)}
	for l.Copies*len(insts) < loopInsts && fe.holds(insts, 2*l.Copies) {
		l.Copies *= 2
	}
	return l, fe.holds(insts, l.Copies)
}

// ChooseShortLoop is the loop that runs a block as often as unrolled copies do, for a block
// whose addresses advance: what is known of the copies' addresses holds for this loop too. It has few
// iterations, so a predictor learns its exit in the runs before those that are timed.
func ChooseShortLoop(insts []asm.Inst, f Factors) Loop {
	l := Loop{Counter: FreeCounter(insts)}
	all := gcd(f.Short, f.Long)
	for l.Copies = 1; l.Copies < all && (all%l.Copies != 0 || l.Copies*len(insts) < loopInsts/2); l.Copies++ {
	}
	l.LoopIterations = Factors{f.Short / l.Copies, f.Long / l.Copies}
	return l
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// BuildLoop is Build with the copies executed iterations times by a counted loop.
func BuildLoop(at uint64, insts []asm.Inst, copies, iterations int, counter Counter, h Harness) (Image, error) {
	return build(at, insts, copies, h, loopShape(iterations, counter, h.Init, layout.SlotLoop))
}

// BuildLoopDryRun is BuildLoop for a dry run, see BuildDryRun. A counter in memory is all that it
// writes to.
func BuildLoopDryRun(insts []asm.Inst, copies, iterations int, counter Counter, h Harness) (Image, error) {
	s := loopShape(iterations, counter, h.Init, layout.DryRunCount)
	s.dryRun = true
	return build(layout.DryRunCode, insts, copies, h, s)
}

func loopShape(iterations int, counter Counter, init initial.State, slot uint64) shape {
	return shape{
		before: func(e *asm.Emitter) {
			if counter.Memory {
				e.MovImm(asm.RAX, uint64(iterations))
				e.Store(slot, asm.RAX)
				e.MovImm(asm.RAX, init.GPR[asm.RAX])
			} else {
				e.MovImm(counter.Reg, uint64(iterations))
			}
			e.Align(64)
		},
		after: func(e *asm.Emitter, first uint64) {
			if counter.Memory {
				keepWhole(e, decMemBytes, jnzBytes)
				e.DecMem(slot)
			} else {
				keepWhole(e, 0, decBytes+jnzBytes) // the two are one operation
				e.Dec(counter.Reg)
			}
			e.Jnz(first)
		},
	}
}

// Lengths of the encodings that the Emitter uses.
const (
	decBytes    = 3
	decMemBytes = 7
	jnzBytes    = 6
)

// keepWhole pads with at most one nop so that the n bytes that follow the next skip neither
// cross nor end at a 32-byte boundary, which would put the branch's window out of the op
// cache (Intel erratum SKX102).
func keepWhole(e *asm.Emitter, skip, n int) {
	const window = 32
	if at := int(e.PC()+uint64(skip)) % window; at+n >= window {
		e.Nop(window - at)
	}
}
