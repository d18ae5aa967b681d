package unroll

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
)

// Counter counts the iterations of a loop: a register that the block neither reads nor writes or, if there is
// none, a word of memory.
//
// In memory, each iteration has a load, an add, a store and an unfused branch instead of one fused dec+jnz, and the
// forwarded store is a chain of some 6 cycles.
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

// freeCounter returns the block's counter: the unused register with the highest number. It is never rsp: otherwise
// a block that pushes could not be told from bbprof's use of the stack.
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

// Loop is a counted loop over copies of a block, with the iteration counts of its two images.
type Loop struct {
	Copies         int     // per iteration
	LoopIterations Factors // of the shorter and the longer image
	Counter        Counter
	Exit           *Exit // if the block's own branch closes the loop; Counter is then unused
	Varied         int   // each timed run with such an exit lacks a pseudo-random number of iterations below Varied
}

// Iterations returns how often the block runs in each image.
func (l Loop) Iterations() Factors {
	return Factors{l.Copies * l.LoopIterations.Short, l.Copies * l.LoopIterations.Long}
}

func (l Loop) String() string {
	return fmt.Sprintf("%d copies in the body, %v iterations, counter in %v", l.Copies, l.LoopIterations, l.Counter)
}

const (
	// loopInsts is the least number of instructions per iteration. Below some 50 many cores behave differently: a loop
	// buffer may serve them, and their alignment to rename groups and fetch windows affects each iteration. Twice that
	// keeps the loop's own fused dec+jnz, one of 97 operations, near 1 % of a block as fast as the core is wide.
	loopInsts = 96
	// forwardingInsts is the same for a block whose stores feed its loads. How fast a core forwards depends on how many
	// loads and stores the loop has, and a program's loop is one copy. Of 800 such blocks 80 % are within 5 % of a loop
	// of one copy with 96 instructions, and 82 % with 24, in half the time.
	forwardingInsts = 24
	// CountedIterations and twice as many are used for a block that repeats its addresses. Branch predictors' history
	// (some hundred branches; Seznec, TAGE) holds both, so both exits are learnt in warm-up runs. On Zen 4 two runs of
	// 1,000 blocks agree as well as with 256 and 512, and with those, in a quarter of the time.
	CountedIterations = 32
)

// ChooseLoop returns the loop for a block that repeats its addresses in every iteration. forwards: its stores feed
// its loads. fits is false if even one copy exceeds its share of the op cache.
func ChooseLoop(insts []asm.Inst, fe FrontEnd, forwards bool) (l Loop, fits bool) {
	least := loopInsts
	if forwards {
		least = forwardingInsts
	}
	l = Loop{Copies: 1, LoopIterations: Factors{CountedIterations, 2 * CountedIterations}, Counter: freeCounter(insts)}
	for l.Copies*len(insts) < least && fe.holds(insts, 2*l.Copies) {
		l.Copies *= 2
	}
	return l, fe.holds(insts, l.Copies)
}

// ChooseShortLoop returns a loop that runs a block exactly as often as its unrolled copies, for a block whose
// addresses advance: the copies' addresses are known to be valid. With few iterations, the predictor learns the
// exit in warm-up runs.
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
