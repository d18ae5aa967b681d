// Package rewrite changes a block in one way: instructions put in, replaced or left out, and the rest as it was. What a
// change takes away, such as a chain or a transition, is what its cost is measured by.
package rewrite

import (
	"github.com/bbprof/bbprof/asm"
)

// None stands for a register that a block does not leave free.
const None = -1

// Encode encodes an instruction of a form that asm.FormNamed knows; memory values do not matter. It returns nil if a
// register is None.
func Encode(form string, at asm.Address, values ...int) []byte {
	list := make([]int64, len(values))
	for i, v := range values {
		if list[i] = int64(v); v == None {
			return nil
		}
	}
	code, err := asm.FormNamed(form).Encode(list, at, 0)
	if err != nil {
		return nil // no caller passes such operands
	}
	return code
}

func Pointer(base int, disp int32) asm.Address {
	return asm.Address{Base: asm.Reg(base), Index: -1, Disp: disp}
}

func Nop(n int) []byte {
	e := asm.NewEmitter(0)
	e.Nop(n)
	return e.Bytes()
}

func MovImm(r int, v uint64) []byte {
	e := asm.NewEmitter(0)
	e.MovImm(asm.Reg(r), v)
	return e.Bytes()
}

// MovVector is movaps, or vmovaps if the block uses VEX encodings: 16, 32 or 64 bytes.
func MovVector(dst, src int, s asm.State) []byte {
	form := "movaps xmm, xmm"
	switch evex := dst > 15 || src > 15; {
	case s.VectorBits > 256:
		form = "vmovaps zmm, zmm"
	case evex && s.VectorBits > 128:
		form = "{evex} vmovaps ymm, ymm"
	case evex:
		form = "{evex} vmovaps xmm, xmm"
	case s.VectorBits > 128:
		form = "vmovaps ymm, ymm"
	case s.VEX:
		form = "vmovaps xmm, xmm"
	}
	return Encode(form, asm.Address{}, dst, src)
}

// Operand returns an access's address as the block encodes it, plus moved bytes, with its segment prefix. Moving does
// not change its length. ok is false if it cannot be encoded again: gathers, and stack accesses without an operand.
func Operand(in *asm.Inst, m *asm.Mem, moved int64) (at asm.Address, prefix []byte, ok bool) {
	_, hasBase := m.Base.GPR()
	_, hasIndex := m.Index.GPR()
	disp := m.Disp + moved
	if m.Mask != asm.NoRegister || m.Elements > 0 || m.Repeat != asm.Once || m.BitOffset != asm.NoRegister || m.String || m.AddrSize == 32 ||
		disp != int64(int32(disp)) || m.Index != asm.NoRegister && !hasIndex || in.RIPDisp > 0 || m.Base != asm.NoRegister && !hasBase {
		return at, nil, false
	}
	switch m.Segment {
	case asm.FS:
		prefix = []byte{0x64}
	case asm.GS:
		prefix = []byte{0x65}
	}
	at = m.Operand()
	at.Disp = int32(disp)
	return at, prefix, true
}

// Displaced is an instruction whose accesses are so many bytes farther; nil if it cannot be encoded.
func Displaced(in *asm.Inst, bytes int64) []byte {
	form := in.Form()
	values, at, mask, ok := in.OperandValues()
	if form == nil || !ok || len(in.Mem) != 1 {
		return nil
	}
	_, prefix, ok := Operand(in, &in.Mem[0], bytes)
	if at.Disp += int32(bytes); !ok {
		return nil
	}
	code, err := form.Encode(values, at, mask)
	if err != nil {
		return nil
	}
	return append(prefix, code...)
}

var stores = map[int]string{1: "mov m8, r8", 2: "mov m16, r16", 4: "mov m32, r32", 8: "mov m64, r64", 16: "vmovups m128, xmm", 32: "vmovups m256, ymm"}

// storeTo stores a register at the address of an access, plus moved bytes, with the access's width; ok is false if there
// is no such instruction.
func storeTo(in *asm.Inst, m *asm.Mem, gpr, vector int, moved int64) (code []byte, ok bool) {
	reg := gpr
	if m.Width > 8 {
		reg = vector
	}
	at, prefix, ok := Operand(in, m, moved)
	form, known := stores[m.Width]
	if !ok || !known || reg < 0 {
		return nil, false
	}
	return append(prefix, Encode(form, at, 0, reg)...), true
}

type Change struct {
	Copies  int              // number of copies, at least 1
	Before  map[int][][]byte // instructions to insert before an instruction, in every copy
	Spread  [][]byte         // instructions to spread evenly over all copies
	Replace map[int][]byte   // replacements of instructions; empty: removed
}

// Apply encodes the changed block. rip-relative operands keep their targets. A branch at the block's end follows the last copy
// alone, and leads to the start of the first copy if it led to the block's own start.
func (c Change) Apply(insts []asm.Inst) []byte {
	if branch, ok := asm.TrailingBranch(insts); ok && branch.Offset > 0 {
		body := asm.NewEmitter(0)
		body.Raw(c.Apply(insts[:len(insts)-1])...)
		target := body.PC() + uint64(len(branch.Bytes))
		if branch.ToStart() {
			target = 0
		}
		branch.Emit(body, target)
		return body.Bytes()
	}
	var code []byte
	copies := max(c.Copies, 1)
	total, done := copies*len(insts), 0
	for n := range copies {
		for i := range insts {
			for _, b := range c.Before[i] {
				code = append(code, b...)
			}
			at := n*len(insts) + i
			for ; done < len(c.Spread)*(at+1)/total; done++ {
				code = append(code, c.Spread[done]...)
			}
			if other, ok := c.Replace[i]; ok {
				code = append(code, other...)
				continue
			}
			in := &insts[i]
			moved, _ := in.MovedBy(int64(len(code) - in.Offset))
			code = append(code, moved...)
		}
	}
	return code
}
