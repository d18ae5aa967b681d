package asm

import (
	"math/bits"
	"slices"
	"strings"
)

// mnemonic is the instruction's name, which may depend on the operand size (cbw, cwde, cdqe).
func (d *rawInst) mnemonic() string {
	if d.form.byWidth == nil {
		return d.form.name
	}
	return d.form.byWidth[bits.Len(uint(d.width(sizeV)))-2]
}

// width is an operand size in bytes, once prefixes and vector length have decided.
func (d *rawInst) width(s operandSize) int {
	v, wide := 4, 1 // the operand size, 0 if it is 2
	switch {
	case d.w: // overrides 66 everywhere, as a Cascade Lake shows
		v = 8
	case d.opsize16:
		v, wide = 2, 0
	}
	switch s {
	case sizeV:
		return v
	case sizeZ:
		return min(v, 4)
	case sizeY:
		return max(v, 4)
	case sizeU:
		return [...]int{2, 8}[wide]
	case sizeEnv:
		return [...]int{14, 28}[wide]
	case sizeFPU:
		return [...]int{94, 108}[wide]
	case sizeX, sizeH, sizeF, sizeE:
		return 16 << d.vl >> (s - sizeX)
	case sizeP: // Intel's; AMD has no 64-bit offset in a far pointer (APM vol. 3, CALL far)
		return v + 2
	}
	return int(s)
}

// memWidth is the number of bytes that an operand accesses when it is memory.
func (d *rawInst) memWidth(o operand) int {
	if d.evexB && d.hasMem {
		return int(d.form.broadcast)
	}
	return d.width(o.size)
}

// vectorWidth is the width in bytes of a vector register operand: what is not a whole vector lives in an xmm
// register.
func (d *rawInst) vectorWidth(s operandSize) int { return max(16, d.width(s)) }

// number is the hardware number of the register that an operand names.
func (d *rawInst) number(k *operandKind) int {
	var n uint8
	switch k.field {
	case inReg:
		n = d.modrm>>3&7 | d.r | d.r4
	case inRM:
		n = d.modrm&7 | d.b
		if d.enc == encEVEX { // where no index needs it, X is bit 4 of rm
			n |= d.x << 1
		}
	case inVVVV:
		n = d.vvvv
	case inOpcode:
		n = d.opcode&7 | d.b
	case inImm:
		n = uint8(d.imm[0]) >> 4
	}
	return int(n) & (k.registers - 1)
}

// immediate is the immediate that operand i is.
func (d *rawInst) immediate(i int) int64 {
	n := 0
	for _, o := range d.form.ops[:i] {
		if o.kind.class == ImmediateOperand {
			n++
		}
	}
	return d.imm[n]
}

// accesses lists the memory that the instruction accesses, in order.
func (d *rawInst) accesses() []Mem {
	f := d.form
	var list []Mem
	if f.implicit == implicitPop {
		list = append(list, d.stack(numSP, 0, accRead))
	}
	if !f.agen {
		list = d.appendOperands(list, false)
		list = d.appendOperands(list, true)
	}
	switch f.implicit {
	case implicitPush:
		list = append(list, d.stack(numSP, -d.stackWidth(), accWrite))
	case implicitLeave:
		list = append(list, d.stack(numBP, 0, accRead))
	case implicitXlat:
		m := d.at(GPR(numBX), 1, accRead)
		m.Index, m.Scale = AL, 1
		list = append(list, m)
	case implicitMaskmov:
		m := d.at(GPR(numDI), 8, accWrite)
		m.Mask, m.lanes = firstMMX+Register(d.number(opN)), 8
		if f.isVec {
			m.Width, m.Mask, m.lanes = 16, firstVec+Register(d.number(opU)), 16
		}
		list = append(list, m)
	case implicitMovdir:
		m := d.at(GPR(d.number(opG)), 64, accWrite)
		m.Segment = NoSegment // it is in es
		list = append(list, m)
	}
	return list
}

// appendOperands adds the accesses of the operands that are written, or of those that are only read, which comes
// first: movs names its destination before its source.
func (d *rawInst) appendOperands(list []Mem, written bool) []Mem {
	for _, o := range d.form.ops {
		if (o.access&accWrite != 0) != written {
			continue
		}
		if m, ok := d.operandAccess(o); ok {
			if d.form.implicit == implicitPop && m.Base == GPR(numSP) {
				m.Disp += int64(d.stackWidth())
			}
			list = append(list, m)
		}
	}
	return list
}

// stackWidth is the width of one push or pop: 8 bytes, or 2 under a 66 prefix.
func (d *rawInst) stackWidth() int { return d.width(sizeU) }

// stack is an access at rsp, or at rbp for leave, which no prefix moves.
func (d *rawInst) stack(base, disp int, a access) Mem {
	m := d.at(GPR(base), d.stackWidth(), a)
	m.Disp, m.Segment, m.AddrSize = int64(disp), NoSegment, 64
	return m
}

// at is an implicit access through one register, whose segment and address size the prefixes decide.
func (d *rawInst) at(base Register, width int, a access) Mem {
	return Mem{
		Base: base, Segment: d.segment, AddrSize: d.addrSize(), Width: width,
		Read: a&accRead != 0, Write: a&accWrite != 0, Implicit: true,
	}
}

func (d *rawInst) addrSize() uint8 {
	if d.addr32 {
		return 32
	}
	return 64
}

// operandAccess is the memory that one operand accesses, if it is memory.
func (d *rawInst) operandAccess(o operand) (m Mem, ok bool) {
	switch {
	case o.kind == opX, o.kind == opY:
		m = d.at(GPR(numSI), d.width(o.size), o.access)
		if o.kind == opY {
			m.Base, m.Segment = GPR(numDI), NoSegment // es, and no prefix overrides it
		}
		m.String, m.Repeat = true, d.repeat()
		return m, true
	case o.kind == opMoffs:
		m = d.at(NoRegister, d.width(o.size), o.access)
		m.Disp, m.Implicit = d.disp, false
		return m, true
	case !o.kind.memory || !d.hasMem:
		return m, false
	}
	m = d.at(d.base, d.memWidth(o), o.access)
	m.Index, m.Scale, m.Disp, m.Implicit = d.index, d.scale, d.disp, false
	f := d.form
	if d.opmask != 0 && d.suppresses() {
		m.Mask, m.lanes = firstMask+Register(d.opmask), d.lanes(o)
	}
	switch {
	case f.vsib:
		m.Elements, m.IndexSize = d.elements(o), o.index
		if d.enc == encVEX {
			m.Mask = firstVec + Register(d.vvvv)
		}
	case f.maskedByVector:
		m.Mask, m.lanes = firstVec+Register(d.vvvv), d.lanes(o)
	case f.bitOffset:
		m.Bits, m.BitOffset = uint8(8*m.Width), GPR(d.number(opG))
	}
	return m, true
}

// elements is how many a gather or scatter has: the wider of index and element fills the vector (Intel SDM vol. 2,
// VPGATHERDD and following).
func (d *rawInst) elements(o operand) int {
	return d.width(sizeX) / max(int(o.index), int(o.size))
}

// suppresses reports whether an opmask keeps an instruction from accessing what it does not enable. Shuffles, packs
// and their like, whose elements do not keep their place, read all (Intel SDM vol. 2, table 2-43 and following:
// exception types with NF, no fault suppression).
func (d *rawInst) suppresses() bool {
	name := d.form.name
	if d.enc != encEVEX || name == "vpshufbitqmb" {
		return true
	}
	for _, shift := range [...]string{"vpsll", "vpsrl", "vpsra"} { // by the count in an xmm register
		if strings.HasPrefix(name, shift) && len(name) == len(shift)+1 {
			return d.form.ops[0].kind != opV
		}
	}
	return !slices.ContainsFunc(unsuppressed, func(p string) bool { return strings.HasPrefix(name, p) })
}

// unsuppressed are beginnings of names.
var unsuppressed = []string{
	"valign", "vcvtne2ps2bf16", "vdbpsadbw", "vextract", "vgf2p8affine", "vinsert", "vmovddup", "vmovshdup", "vmovsldup", "vpack", "vpalignr",
	"vpconflict", "vperm", "vpmaddubsw", "vpmaddwd", "vpmultishiftqb", "vpshuf", "vpunpck", "vshuf", "vunpck",
}

// lanes is how many elements of a mask decide about a memory operand.
func (d *rawInst) lanes(o operand) uint8 {
	name := d.form.name
	if d.form.broadcast > 0 {
		return uint8(d.width(o.size) / int(d.form.broadcast))
	}
	narrow := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "vpmov"), "u"), "s")
	switch {
	case strings.HasPrefix(name, "vpmov") && len(narrow) == 2: // the wider element is the first
		name = narrow[:1]
	case name == "vcvtps2ph":
		name = "ps"
	case strings.HasPrefix(name, "vpcompress"):
		name = strings.TrimPrefix(name, "vpcompress")
	case strings.HasPrefix(name, "vbroadcast"):
	case strings.HasSuffix(name, "ss"), strings.HasSuffix(name, "sd"), strings.HasSuffix(name, "sh"):
		return 1
	}
	for _, e := range elementNames {
		if strings.HasSuffix(name, e.end) {
			return uint8(d.width(sizeX) / e.size)
		}
	}
	return 0
}

// elementNames say how wide an element is by how the name ends.
var elementNames = []struct {
	end  string
	size int
}{
	{"32x2", 4}, {"32x4", 4}, {"32x8", 4}, {"64x2", 8}, {"64x4", 8},
	{"ps", 4}, {"ss", 4}, {"pd", 8}, {"sd", 8}, {"ph", 2}, {"sh", 2},
	{"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}, {"b", 1}, {"w", 2}, {"d", 4}, {"q", 8},
}

// repeat is the meaning of f2 or f3 for a string instruction. Only cmps and scas distinguish them.
func (d *rawInst) repeat() Repeat {
	compares := d.form.name == "cmps" || d.form.name == "scas"
	switch {
	case d.rep == 0:
		return Once
	case !compares:
		return Rep
	case d.rep == 0xf3:
		return RepEqual
	}
	return RepUnequal
}

// alignment is the alignment that the instruction demands of its memory operand, in bytes. Legacy SSE demands 16 of
// every 16-byte operand that does not say otherwise (Intel SDM vol. 1, 4.1.1, and vol. 2, 2.4); VEX and EVEX only
// where the instruction says so.
func (d *rawInst) alignment() int {
	f := d.form
	if !d.hasMem || f.unaligned {
		return 0
	}
	if f.align != 0 {
		return f.align
	}
	if !f.isVec {
		return 0
	}
	for _, o := range f.ops {
		if !o.kind.memory {
			continue
		}
		width := d.memWidth(o)
		if f.aligned || d.enc == encLegacy && width == 16 {
			return width
		}
	}
	return 0
}
