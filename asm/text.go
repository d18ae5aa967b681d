package asm

import (
	"fmt"
	"math/bits"
)

var gprNames = [4][16]string{
	{"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b", "r15b"},
	{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w", "r15w"},
	{"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"},
	{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"},
}

var (
	highByteNames = [4]string{"ah", "ch", "dh", "bh"}
	segmentNames  = [8]string{"es", "cs", "ss", "ds", "fs", "gs", "?", "?"}
	roundingNames = [4]string{"{rn-sae}", "{rd-sae}", "{ru-sae}", "{rz-sae}"}
)

func (d *rawInst) text() string {
	mask, rounding := "", ""
	if d.opmask != 0 {
		mask = "{k" + string('0'+rune(d.opmask)) + "}"
	}
	if d.evexZ {
		mask += "{z}"
	}
	if d.rounds() {
		rounding = "{sae}"
		if d.form.er {
			rounding = roundingNames[d.rounding]
		}
	}
	return d.spell(d.spelling(), mask, rounding, d.appendOperand)
}

// spell writes prefixes, name and operands, a mask after the first, and rounding after the last register.
func (d *rawInst) spell(name, mask, rounding string, operand func(b []byte, i int) []byte) string {
	b := append(d.appendPrefixes(make([]byte, 0, 64)), name...)
	ops := d.form.ops
	for i := range ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = operand(append(b, ' '), i)
		if i == 0 {
			b = append(b, mask...)
		}
		if rounding != "" && ops[i].kind != opImm && (i == len(ops)-1 || ops[i+1].kind == opImm) {
			b = append(append(b, ", "...), rounding...)
		}
	}
	return string(b)
}

// spelling is the mnemonic with what a prefix changes that no operand shows.
func (d *rawInst) spelling() string {
	switch {
	case d.form.implicit == implicitXlat && (d.addr32 || d.segment != NoSegment):
		return string(d.appendMemory([]byte("xlat "), d.at(GPR(numBX), 1, accRead)))
	case d.form.name == "jrcxz" && d.addr32:
		return "jecxz"
	}
	return d.mnemonic()
}

// appendPrefixes names the prefixes that change what the instruction does, or would on another instruction.
func (d *rawInst) appendPrefixes(b []byte) []byte {
	if d.enc != encLegacy {
		return b
	}
	if d.form.prefix == anyPrefix && d.rep != 0 {
		switch {
		case d.rep == 0xf2:
			b = append(b, "repne "...)
		case d.form.name == "cmps" || d.form.name == "scas":
			b = append(b, "repe "...)
		default:
			b = append(b, "rep "...)
		}
	}
	if d.lock {
		b = append(b, "lock "...)
	}
	return b
}

func (d *rawInst) rounds() bool { return d.evexB && !d.hasMem && d.form.rounds() }

func (d *rawInst) appendOperand(b []byte, i int) []byte {
	o := d.form.ops[i]
	n, k := d.number(o.kind), o.kind
	m, isMemory := d.operandAccess(o)
	switch {
	case isMemory && d.evexB:
		return fmt.Appendf(d.appendMemory(b, m), "{1to%d}", d.width(o.size)/int(d.form.broadcast))
	case isMemory:
		return d.appendMemory(b, m)
	case k.class == GPROperand:
		return append(b, d.gprName(n, d.width(o.size))...)
	case k.class == VectorOperand:
		return appendVector(b, n, d.vectorWidth(o.size))
	}
	switch o.kind {
	case opFixed:
		return append(b, o.name...)
	case opImm, opImmS:
		v, width := uint64(d.immediate(i)), d.width(o.size)
		if o.kind == opImmS {
			width = d.destinationWidth()
		}
		return fmt.Appendf(b, "%#x", v&ones(width))
	case opRel:
		return fmt.Appendf(b, ".%+#x", d.imm[0])
	case opSeg:
		return append(b, segmentNames[n]...)
	case opSTI:
		return fmt.Appendf(b, "st(%d)", n)
	}
	return fmt.Appendf(b, "%s%d", k.name, n)
}

// destinationWidth is the width that a sign-extended immediate is extended to: that of the first operand, or of the
// stack's for a push.
func (d *rawInst) destinationWidth() int {
	if first := d.form.ops[0]; first.kind != opImmS {
		return d.width(first.size)
	}
	return d.width(sizeU)
}

func (d *rawInst) gprName(n, width int) string {
	if d.isHighByte(n, width) {
		return highByteNames[n-4]
	}
	return gprNames[bits.Len(uint(width))-1][n]
}

func appendVector(b []byte, n, width int) []byte {
	return fmt.Appendf(b, "%cmm%d", vectorLetter(width), n)
}

// vectorLetter is x, y or z, by the width in bytes.
func vectorLetter(width int) byte { return "xyz"[bits.Len(uint(width/32))] }

// pointerNames are the names of widths that assembly spells.
var pointerNames = map[int]string{
	1: "byte ptr ", 2: "word ptr ", 4: "dword ptr ", 6: "fword ptr ", 8: "qword ptr ", 10: "tbyte ptr ",
	16: "xmmword ptr ", 32: "ymmword ptr ", 64: "zmmword ptr ",
}

// appendMemory writes "qword ptr fs:[rax+rcx*8+0x10]".
func (d *rawInst) appendMemory(b []byte, m Mem) []byte {
	if d.form.name != "lea" {
		b = append(b, pointerNames[m.Width]...)
	}
	b = append(b, [...]string{NoSegment: "[", FS: "fs:[", GS: "gs:["}[m.Segment]...)
	names, empty := &gprNames[3], len(b)
	if d.addr32 {
		names = &gprNames[2]
	}
	if n, ok := m.Base.GPR(); ok {
		b = append(b, names[n]...)
	} else if m.Base == RIP {
		b = append(b, names[0][0], 'i', 'p') // rip or eip
	}
	if m.Index != NoRegister {
		if len(b) > empty {
			b = append(b, '+')
		}
		if n, ok := m.Index.Vector(); ok {
			b = appendVector(b, n, max(16, m.Elements*int(m.IndexSize)))
		} else if n, ok := m.Index.GPR(); ok {
			b = append(b, names[n]...)
		}
		b = append(b, '*', '0'+m.Scale)
	}
	switch {
	case len(b) == empty && d.addr32:
		b = fmt.Appendf(b, "%#x", uint32(m.Disp))
	case len(b) == empty:
		b = fmt.Appendf(b, "%#x", uint64(m.Disp))
	case m.Disp != 0:
		b = fmt.Appendf(b, "%+#x", m.Disp)
	}
	return append(b, ']')
}
