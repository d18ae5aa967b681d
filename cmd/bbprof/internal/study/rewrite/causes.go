package rewrite

import (
	"math/bits"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/invariants"
)

// elsewhere is the distance of a control's store from the access: two lines.
const elsewhere = 128

// Ready returns a store of a register to where an access reads, with the access's width, and its control, the same store
// two lines on; ok is false if there is no such instruction.
func Ready(in *asm.Inst, m *asm.Mem, gpr, vector int) (store, control []byte, ok bool) {
	store, here := storeTo(in, m, gpr, vector, 0)
	control, there := storeTo(in, m, gpr, vector, elsewhere)
	return store, control, here && there
}

// Whole ends the waits of loads for stores that hold only a part of their bytes: without stores the whole just before
// each such load, if possible from the register that the narrow store wrote a part of. with has the same stores two lines on.
func Whole(insts []asm.Inst, forwards []invariants.Forward) (with, without Change, ok bool) {
	with, without = Change{Before: map[int][][]byte{}}, Change{Before: map[int][][]byte{}}
	type load struct{ inst, mem int }
	seen := map[load]bool{}
	for _, f := range forwards {
		if !f.Partial || seen[load{f.Load, f.Mem}] {
			continue
		}
		seen[load{f.Load, f.Mem}] = true
		gpr, vector := source(&insts[f.Store])
		store, control, encoded := Ready(&insts[f.Load], &insts[f.Load].Mem[f.Mem], gpr, vector)
		if !encoded {
			return with, without, false
		}
		without.Before[f.Load] = append(without.Before[f.Load], store)
		with.Before[f.Load] = append(with.Before[f.Load], control)
	}
	return with, without, len(seen) > 0
}

// source returns the registers whose value an instruction stores; where it stores another, the stack pointer and xmm0.
func source(in *asm.Inst) (gpr, vector int) {
	reads, _ := in.Dataflow()
	for _, m := range in.Mem {
		reads.GPR &^= m.GPRs()
	}
	gpr = int(asm.RSP)
	if reads.GPR != 0 {
		gpr = bits.TrailingZeros16(reads.GPR)
	}
	if reads.Vector != 0 {
		vector = bits.TrailingZeros32(reads.Vector)
	}
	return gpr, vector
}

// LegacyVector reports whether an instruction uses vector registers in an encoding that keeps their upper parts.
func LegacyVector(in *asm.Inst) bool {
	s := asm.StateOf([]asm.Inst{*in})
	return s.Vector && !s.VEX
}

// VEX encodes the legacy vector instructions of a block with VEX, which zeroes the upper parts instead; ok is false if one
// cannot be.
func VEX(insts []asm.Inst) (c Change, ok bool) {
	c.Replace = map[int][]byte{}
	for i := range insts {
		if in := &insts[i]; LegacyVector(in) {
			if c.Replace[i] = vex(in); c.Replace[i] == nil {
				return c, false
			}
		}
	}
	return c, len(c.Replace) > 0
}

func vex(in *asm.Inst) []byte {
	form := in.Form()
	values, at, _, ok := in.OperandValues()
	if form == nil || !ok || in.RIPDisp > 0 {
		return nil
	}
	var prefix []byte
	for i := range in.Mem {
		if _, prefix, ok = Operand(in, &in.Mem[i], 0); !ok {
			return nil
		}
	}
	mnemonic, operands, _ := strings.Cut(form.Name(), " ")
	first, _, several := strings.Cut(operands, ", ")
	if wide := asm.FormNamed("v" + mnemonic + " " + first + ", " + operands); several && wide != nil {
		form, values = wide, append([]int64{values[0]}, values...)
	} else if form = asm.FormNamed("v" + form.Name()); form == nil {
		return nil
	}
	code, err := form.Encode(values, at, 0)
	if err != nil {
		return nil
	}
	return append(prefix, code...)
}
