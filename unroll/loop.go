package unroll

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
)

// Counter is what counts the iterations of a loop: a register that the block neither reads nor
// writes or, where it leaves none, a word of memory.
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

// freeCounter is the counter for a block: the last register in the order of their numbers
// that the block leaves alone. It is never rsp: nothing else could distinguish the stack of a block
// that pushes from bbprof's.
func freeCounter(insts []asm.Inst) Counter {
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
	Exit           *Exit // of a loop that the block's own branch closes; it has no Counter
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
	l = Loop{Copies: 1, LoopIterations: Factors{ManyIterations, 2 * ManyIterations}, Counter: freeCounter(insts)}
	for l.Copies*len(insts) < loopInsts && fe.holds(insts, 2*l.Copies) {
		l.Copies *= 2
	}
	return l, fe.holds(insts, l.Copies)
}

// ChooseShortLoop is the loop that runs a block as often as unrolled copies do, for a block
// whose addresses advance: what is known of the copies' addresses holds for this loop too. It has few
// iterations, so a predictor learns its exit in the runs before those that are timed.
func ChooseShortLoop(insts []asm.Inst, f Factors) Loop {
	l := Loop{Counter: freeCounter(insts)}
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
