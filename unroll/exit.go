package unroll

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
)

// Exit describes how the initial state ends a loop closed by the block's own branch: the value of a register or
// word of memory before the first iteration determines their number.
type Exit struct {
	Reg    asm.Reg
	Memory bool // an aligned word at Addr, instead of Reg
	Addr   uint64
	// For n iterations it holds Base + n·Step, in the bits of Mask.
	Base, Step, Mask uint64
	Rest             uint64 // the other bits
}

// Value returns the initial value for n iterations.
func (x Exit) Value(n int) uint64 { return (x.Base+uint64(n)*x.Step)&x.Mask | x.Rest&^x.Mask }

func (x Exit) String() string {
	if x.Memory {
		return fmt.Sprintf("[%#x]", x.Addr)
	}
	return x.Reg.String()
}

// mostVaried bounds Loop.Varied. Zen 4 learns iteration counts up to some 400, and even a repeated sequence of
// counts, and then predicts the exit, which saves 14 cycles. Predicted in one image only, it would falsify the
// difference. With random counts only one run in mostVaried is predicted, by chance. Counts below fewestVaried fit
// any predictor's history and stay fixed: no exit is mispredicted.
const (
	mostVaried   = 16
	fewestVaried = 64
)

// VariedBy returns Loop.Varied for these iterations: every run keeps at least three quarters of them.
func VariedBy(iterations Factors) int {
	if iterations.Long < fewestVaried {
		return 0
	}
	return min(mostVaried, iterations.Short/4)
}

const (
	// manyIterations and twice as many run a block whose addresses repeat.
	manyIterations = 256
	// ownInsts is the least number of instructions executed in the longer image of OwnLoops.
	ownInsts = leastInsts * manyIterations
)

// OwnLoops returns iteration counts, best first, for a loop of these copies that the block's own branch closes and
// that repeats its addresses. The block's counter may be too narrow for the larger counts. fits is as in ChooseLoop.
func OwnLoops(insts []asm.Inst, copies int, fe FrontEnd) (list []Factors, fits bool) {
	n := manyIterations
	for n*copies*len(insts) < ownInsts/2 {
		n *= 2
	}
	for ; n > 2; n /= 2 {
		list = append(list, Factors{n, 2 * n})
	}
	return list, fe.holds(insts, copies)
}

// mostWalked bounds the iterations of a block that advances to new addresses: some 20 pages hold so many words.
const mostWalked = 8192

// ShortOwnLoops returns iteration counts for a block whose addresses advance: first those of many within mostWalked,
// then counts that run it no more often than its unrolled copies, whose addresses are known to be valid.
func ShortOwnLoops(many []Factors, copies int, f Factors) (list []Factors) {
	for _, l := range many {
		if l.Long*copies > f.Long && l.Long*copies <= mostWalked {
			list = append(list, l)
		}
	}
	for ok := true; ok; f, ok = f.Smaller() {
		if l := (Factors{max(f.Short, f.Long/2) / copies, f.Long / copies}); 0 < l.Short && l.Short < l.Long {
			list = append(list, l)
		}
	}
	return list
}
