package unroll

import (
	"cmp"

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

// Loop is a loop over copies of a block. Both images of a counted loop have the same number of turns and unequal bodies, so
// that its own branch costs both the same; or they are one code with unequal turns, so that its place costs both the same.
// Images of a loop that the block's own branch closes have one body and unequal turns.
type Loop struct {
	Bodies  Factors // copies in the body of the shorter and of the longer image
	Turns   Factors
	Counter Counter
	Exit    *Exit   // if the block's own branch closes the loop; Counter is then unused
	Own     float64 // cycles an iteration that the branch of a loop that is one code takes at most; 0: it is two
	Varied  int     // each timed run with such an exit lacks a pseudo-random number of turns below Varied
}

// OwnLoop returns a loop of these copies that the block's own branch closes.
func OwnLoop(copies int, exit Exit, turns Factors) Loop {
	return Loop{Bodies: Factors{copies, copies}, Turns: turns, Exit: &exit}
}

// OneCode reports whether both images are the same code, entered for their numbers of turns.
func (l Loop) OneCode() bool { return l.Own > 0 }

// Iterations returns how often the block runs in each image.
func (l Loop) Iterations() Factors {
	return Factors{l.Bodies.Short * l.Turns.Short, l.Bodies.Long * l.Turns.Long}
}

// Split returns the copies in the body and the turns of an image with these iterations, which may lie between those of the loop's own images.
func (l Loop) Split(iterations int) (copies, turns int) {
	if l.Bodies.Short == l.Bodies.Long {
		return l.Bodies.Long, iterations / l.Bodies.Long
	}
	return iterations / l.Turns.Long, l.Turns.Long
}

const (
	// leastInsts and mostInsts bound the instructions in the two bodies. Below some 72 a loop buffer may serve a body, with other rounding to rename
	// groups; beyond some 200 straight code begins to leave the op cache before the next taken branch.
	leastInsts  = 96
	bufferInsts = 73
	mostInsts   = 192
	// forwardingInsts is the number for a block whose stores feed its loads. How fast a core forwards depends on how many
	// loads and stores the loop has, and a program's loop is one copy. Of 800 such blocks 80 % are within 5 % of a loop
	// of one copy with 96 instructions, and 82 % with 24, in half the time.
	forwardingInsts = 24
	// CountedTurns is the number of turns of a block that repeats its addresses: few enough for a branch predictor to learn the exit.
	CountedTurns = 16
	// forwardingTurns and twice as many are those of a block whose stores feed its loads, which has one body.
	forwardingTurns = 32
	// anyWidth stands for the width of rename where that is unknown: a multiple of 4 and of 6.
	anyWidth = 12
)

// ChooseLoop returns the loop for a block that repeats its addresses in every iteration. The bodies differ by whole groups of the
// instructions that the core renames in a cycle, width (0: unknown), whatever the block: then both end a group alike. On a core with
// fe.ByPlace they are one code instead. A block whose stores feed its loads has equal bodies and unequal turns, because the number of stores
// in the loop decides its speed. fits is false if even one copy exceeds its share of the op cache.
func ChooseLoop(insts []asm.Inst, fe FrontEnd, width int, forwards bool) (l Loop, fits bool) {
	n := max(len(insts), 1)
	width = cmp.Or(width, anyWidth)
	l.Counter = freeCounter(insts)
	switch {
	case forwards:
		c := (forwardingInsts + n - 1) / n
		l.Bodies, l.Turns = Factors{c, c}, Factors{forwardingTurns, 2 * forwardingTurns}
	case fe.ByPlace && !l.Counter.Memory: // counting in memory takes more than a place in rename
		c := (leastInsts + n - 1) / n
		l.Bodies, l.Turns, l.Own = Factors{c, c}, Factors{CountedTurns, 2 * CountedTurns}, 1/float64(width*c)
	default:
		l.Bodies, l.Turns = bodies(n, width), Factors{CountedTurns, CountedTurns}
	}
	return l, fe.holds(insts, l.Bodies.Long)
}

// bodies returns the copies of n instructions in both bodies. They differ by a multiple of width if the longer then keeps within mostInsts, for
// which the shorter may have as few as bufferInsts; else by copies that hold a multiple of width instructions, or by what there is room for.
func bodies(n, width int) Factors {
	c := (leastInsts + n - 1) / n
	if mostInsts/n-c < width {
		c = (bufferInsts + n - 1) / n
	}
	between := mostInsts/n - c
	for _, step := range []int{width, width / gcd(n, width)} {
		if between >= step {
			return Factors{c, c + between/step*step}
		}
	}
	return Factors{c, c + max(between, 1)}
}

// ChooseShortLoop returns a loop whose images run a block as often as rows of copies, for a block whose addresses advance: the copies'
// addresses are known to be valid.
func ChooseShortLoop(insts []asm.Inst, f Factors) Loop {
	all := gcd(f.Short, f.Long)
	turns := 1
	for turns < all && (all%turns != 0 || f.Long/turns*len(insts) > mostInsts) {
		turns++
	}
	return Loop{Bodies: Factors{f.Short / turns, f.Long / turns}, Turns: Factors{turns, turns}, Counter: freeCounter(insts)}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
