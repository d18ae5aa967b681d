package profiler

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// placed is a block whose rip-relative operands point to where in a page they would in its program.
// A block is measured as if at layout.Home, the start of a page. If it stands at an address of its
// program, the address within a page is added to each displacement: constants that a program keeps
// aligned would else be misaligned. If that is not known, its operands are placed so that each has the
// alignment that its width wants, as compilers place them.
func placed(code []byte, at uint64) []byte {
	insts, err := asm.Decode(code)
	if err != nil {
		return code // which the caller finds as well
	}
	operands := relativeOperands(insts)
	if at != 0 {
		moveAll(operands, int64(at%layout.PageSize))
	} else {
		align(operands)
	}
	moved := code
	for _, o := range operands {
		if v := o.disp + o.move; o.move != 0 && v <= math.MaxInt32 {
			if &moved[0] == &code[0] {
				moved = slices.Clone(code)
			}
			binary.LittleEndian.PutUint32(moved[o.field:], uint32(v))
		}
	}
	return moved
}

// relativeOperand is a rip-relative operand of a block. At is from the start of a page, at which the block stands.
type relativeOperand struct {
	mapper.Operand
	field int   // of the displacement, in the block
	disp  int64 // as written
	move  int64 // by how much it is to be moved
}

func relativeOperands(insts []asm.Inst) (list []relativeOperand) {
	for i := range insts {
		in := &insts[i]
		if in.RIPDisp == 0 {
			continue
		}
		field := in.Bytes[in.RIPDisp:]
		o := relativeOperand{field: in.Offset + in.RIPDisp, disp: int64(int32(binary.LittleEndian.Uint32(field)))}
		o.At, o.Align = int64(in.Offset+len(in.Bytes))+o.disp, max(1, int64(in.Align))
		for _, m := range in.Mem {
			if m.Base == asm.RIP {
				o.Width = max(o.Width, int64(m.Width))
			}
		}
		list = append(list, o)
	}
	return list
}

func moveAll(operands []relativeOperand, move int64) {
	for i := range operands {
		operands[i].move = move
	}
}

// align moves all operands by one distance, so that they keep their places to each other. Only where that
// leaves one of them harmed, each group of operands that are far from the others is moved by itself.
func align(operands []relativeOperand) {
	move, harmed := bestMove(operands)
	moveAll(operands, move)
	if harmed == 0 {
		return
	}
	slices.SortStableFunc(operands, func(a, b relativeOperand) int { return cmp.Compare(a.At, b.At) })
	for from := 0; from < len(operands); {
		to, end := from, int64(math.MinInt64)
		for ; to < len(operands) && (to == from || operands[to].At < end+mapper.LineBytes); to++ {
			end = max(end, operands[to].At+operands[to].Width)
		}
		move, _ := bestMove(operands[from:to])
		moveAll(operands[from:to], move)
		from = to
	}
}

// bestMove is the best distance for all of them, and how many are harmed all the same.
func bestMove(operands []relativeOperand) (move int64, harmed int) {
	var all []mapper.Operand
	for _, o := range operands {
		all = append(all, o.Operand)
	}
	return mapper.BestMove(all)
}

// asWritten names the instruction of a rejection as the user wrote it.
func asWritten(err error, code []byte) {
	var r *verdict.Rejection
	if !errors.As(err, &r) || r.Inst == nil {
		return
	}
	if insts, err := asm.Decode(code); err == nil && r.Inst.Index < len(insts) {
		r.Inst = insts[r.Inst.Index].Verdict(r.Inst.Index)
	}
}
