package mapper

import (
	"cmp"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// Place changes a block's rip-relative displacements for a block that will stand at the start of a page, so that its
// operands keep the alignment that they have in the program. at is the block's address in its program: its offset
// within a page is added to each displacement. Where it is nil, each operand gets its natural alignment, as compilers
// place them.
func Place(code []byte, at *uint64) []byte {
	insts, err := asm.Decode(code)
	if err != nil {
		return code // the caller reports it
	}
	operands := relativeOperands(insts)
	if at != nil {
		moveAll(operands, int64(*at%layout.PageSize))
	} else {
		align(operands)
	}
	moved := slices.Clone(code)
	for _, o := range operands {
		if with, ok := o.in.MovedBy(-o.move); ok {
			copy(moved[o.in.Offset:], with)
		}
	}
	return moved
}

// relativeOperands lists a block's rip-relative operands, at offsets from the start of the block's page.
func relativeOperands(insts []asm.Inst) (list []operand) {
	for i := range insts {
		in := &insts[i]
		if in.RIPDisp == 0 {
			continue
		}
		o := operand{in: in, at: int64(in.RIPOperand(uint64(in.Offset))), align: max(1, int64(in.Align))}
		for _, m := range in.Mem {
			if m.Base == asm.RIP {
				o.width = max(o.width, int64(m.Width))
			}
		}
		list = append(list, o)
	}
	return list
}

func moveAll(operands []operand, move int64) {
	for i := range operands {
		operands[i].move = move
	}
}

// align moves all operands by one distance, which keeps the distances between them. If that leaves one of them
// harmed, each group of neighbouring operands moves by itself.
func align(operands []operand) {
	move, harmed := bestMove(operands)
	moveAll(operands, move)
	if harmed == 0 {
		return
	}
	slices.SortStableFunc(operands, func(a, b operand) int { return cmp.Compare(a.at, b.at) })
	for from := 0; from < len(operands); {
		to, end := from, int64(math.MinInt64)
		for ; to < len(operands) && (to == from || operands[to].at < end+lineBytes); to++ {
			end = max(end, operands[to].at+operands[to].width)
		}
		move, _ := bestMove(operands[from:to])
		moveAll(operands[from:to], move)
		from = to
	}
}
