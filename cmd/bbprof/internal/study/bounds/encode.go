package bounds

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
)

// encode encodes an instruction of a form that asm.FormNamed knows; memory values do not matter. It returns nil if a
// register is none.
func encode(form string, at asm.Address, values ...int) []byte {
	list := make([]int64, len(values))
	for i, v := range values {
		if list[i] = int64(v); v == none {
			return nil
		}
	}
	code, err := asm.FormNamed(form).Encode(list, at, 0)
	if err != nil {
		return nil // no caller passes such operands
	}
	return code
}

func pointer(base int, disp int32) asm.Address {
	return asm.Address{Base: asm.Reg(base), Index: -1, Disp: disp}
}

func nopOf(n int) []byte {
	e := asm.NewEmitter(0)
	e.Nop(n)
	return e.Bytes()
}

func movImm(r int, v uint64) []byte {
	e := asm.NewEmitter(0)
	e.MovImm(asm.Reg(r), v)
	return e.Bytes()
}

// movVector is movaps, or vmovaps if the block uses VEX encodings: 16, 32 or 64 bytes.
func movVector(dst, src int, s asm.State) []byte {
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
	return encode(form, asm.Address{}, dst, src)
}

// operand returns an access's address as the block encodes it, plus moved bytes, with its segment prefix. Moving does
// not change its length. ok is false if it cannot be encoded again: gathers, and stack accesses without an operand.
func operand(in *asm.Inst, m *asm.Mem, moved int64) (at asm.Address, prefix []byte, ok bool) {
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

var stores = map[int]string{1: "mov m8, r8", 2: "mov m16, r16", 4: "mov m32, r32", 8: "mov m64, r64", 16: "vmovups m128, xmm", 32: "vmovups m256, ymm"}

// store stores a register at the address of an access, plus moved bytes, with the access's width; ok is false if there
// is no such instruction.
func store(in *asm.Inst, m *asm.Mem, gpr, vector int, moved int64) (code []byte, ok bool) {
	reg := gpr
	if m.Width > 8 {
		reg = vector
	}
	at, prefix, ok := operand(in, m, moved)
	form, known := stores[m.Width]
	if !ok || !known || reg < 0 {
		return nil, false
	}
	return append(prefix, encode(form, at, 0, reg)...), true
}

type change struct {
	copies  int              // number of copies, at least 1
	before  map[int][][]byte // instructions to insert before an instruction, in every copy
	spread  [][]byte         // instructions to spread evenly over all copies
	replace map[int][]byte   // replacements of instructions; empty: removed
}

// apply encodes the changed block. rip-relative operands keep their targets. A branch at the block's end follows the last copy
// alone, and leads to the start of the first copy if it led to the block's own start.
func (c change) apply(insts []asm.Inst) []byte {
	if branch, ok := asm.TrailingBranch(insts); ok && branch.Offset > 0 {
		body := asm.NewEmitter(0)
		body.Raw(c.apply(insts[:len(insts)-1])...)
		target := body.PC() + uint64(len(branch.Bytes))
		if branch.ToStart() {
			target = 0
		}
		branch.Emit(body, target)
		return body.Bytes()
	}
	var code []byte
	copies := max(c.copies, 1)
	total, done := copies*len(insts), 0
	for n := range copies {
		for i := range insts {
			for _, b := range c.before[i] {
				code = append(code, b...)
			}
			at := n*len(insts) + i
			for ; done < len(c.spread)*(at+1)/total; done++ {
				code = append(code, c.spread[done]...)
			}
			if other, ok := c.replace[i]; ok {
				code = append(code, other...)
				continue
			}
			in := &insts[i]
			code = append(code, in.Bytes...)
			if in.RIPDisp > 0 {
				moved := len(code) - (in.Offset + len(in.Bytes))
				field := code[len(code)-len(in.Bytes)+in.RIPDisp:][:4]
				binary.LittleEndian.PutUint32(field, binary.LittleEndian.Uint32(field)-uint32(moved))
			}
		}
	}
	return code
}
