package unroll

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
)

// Exit is how the state makes a loop end that the block's own branch closes: what a register or a word of memory holds before the first
// iteration decides how many there are.
type Exit struct {
	Reg    asm.Reg
	Memory bool // an aligned word at Addr, instead of Reg
	Addr   uint64
	// For n iterations of the block it holds Base + n·Step, in the bits of Mask.
	Base, Step, Mask uint64
	Rest             uint64 // in the others
}

// Value is what it holds for so many iterations.
func (x Exit) Value(n int) uint64 { return (x.Base+uint64(n)*x.Step)&x.Mask | x.Rest&^x.Mask }

func (x Exit) String() string {
	if x.Memory {
		return fmt.Sprintf("[%#x]", x.Addr)
	}
	return x.Reg.String()
}

// ownInsts is how many instructions a loop that the block's own branch closes executes at least in ManyIterations: as many as
// those of a loop that ChooseLoop makes.
const ownInsts = loopInsts * ManyIterations

// OwnLoops are the numbers of iterations for a loop of so many copies that the block's own branch closes, if it repeats its addresses; the first that
// works is the best. Whatever counts may be too narrow for the larger ones. fits is as of ChooseLoop.
func OwnLoops(insts []asm.Inst, copies int, fe FrontEnd) (list []Factors, fits bool) {
	n := ManyIterations
	for n*copies*len(insts) < ownInsts/2 {
		n *= 2
	}
	for ; n > 2; n /= 2 {
		list = append(list, Factors{n, 2 * n})
	}
	return list, fe.holds(insts, copies)
}

// mostWalked are the iterations in which a block may go on to new addresses: some 20 pages hold so many words.
const mostWalked = 8192

// ShortOwnLoops are those of a list for a block whose addresses advance, and then those that run it as often as copies in a row do without harm,
// and less often.
func ShortOwnLoops(many []Factors, copies int, f Factors) (list []Factors) {
	for _, l := range many {
		if l.Long*copies > f.Long && l.Long*copies <= mostWalked {
			list = append(list, l)
		}
	}
	for ok := true; ok; f, ok = f.Smaller() {
		if l := (Factors{f.Short / copies, f.Long / copies}); l.Short > 0 {
			list = append(list, l)
		}
	}
	return list
}
