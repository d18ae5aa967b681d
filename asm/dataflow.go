package asm

import (
	"slices"
	"strings"
)

// Values is a set of registers and flags: what instructions pass to one another outside memory.
type Values struct {
	GPR    uint16 // bit n is the general register with hardware number n
	Vector uint32 // bit n is xmm, ymm or zmm register n
	Opmask uint8
	Flags  Flags
	X87    bool // the x87 stack, MMX registers included, as one
}

// Or is the union.
func (a Values) Or(b Values) Values {
	return Values{a.GPR | b.GPR, a.Vector | b.Vector, a.Opmask | b.Opmask, a.Flags | b.Flags, a.X87 || b.X87}
}

// And is the intersection.
func (a Values) And(b Values) Values {
	return Values{a.GPR & b.GPR, a.Vector & b.Vector, a.Opmask & b.Opmask, a.Flags & b.Flags, a.X87 && b.X87}
}

// Without is the difference.
func (a Values) Without(b Values) Values {
	return Values{a.GPR &^ b.GPR, a.Vector &^ b.Vector, a.Opmask &^ b.Opmask, a.Flags &^ b.Flags, a.X87 && !b.X87}
}

// Single lists the values of a set one by one. Cores rename the carry flag by itself, and the other flags as one.
func (a Values) Single() (all []Values) {
	for n := range 16 {
		all = append(all, Values{GPR: a.GPR & (1 << n)})
	}
	for n := range 32 {
		all = append(all, Values{Vector: a.Vector & (1 << n)})
	}
	for n := range 8 {
		all = append(all, Values{Opmask: a.Opmask & (1 << n)})
	}
	all = append(all, Values{Flags: a.Flags & Carry}, Values{Flags: a.Flags &^ Carry}, Values{X87: a.X87})
	return slices.DeleteFunc(all, func(v Values) bool { return v == Values{} })
}

// Dataflow is which values an instruction waits for and which it makes. A destination that keeps a part of its old
// value is read, too; the sources of an idiom that cores know to give zeros or ones whatever they hold (xor eax, eax)
// are not.
func (in *Inst) Dataflow() (reads, writes Values) {
	reads, writes = in.raw.registers()
	reads.Flags, writes.Flags = in.raw.flags()
	if in.raw.independent() {
		reads = Values{}
	}
	return reads, writes
}

// registers is Dataflow without flags, and with the sources of idioms.
func (d *rawInst) registers() (reads, writes Values) {
	f := d.form
	reads, writes = d.implicit()
	if f.isX87 || f.isMMX {
		reads.X87, writes.X87 = true, true
	}
	if f.implicit == implicitMaskmov {
		reads.GPR |= 1 << numDI
	}
	for _, r := range [...]Register{d.base, d.index} {
		if n, ok := r.GPR(); ok {
			reads.GPR |= 1 << n
		} else if n, ok := r.Vector(); ok {
			reads.Vector |= 1 << n
		}
	}
	for _, o := range f.ops {
		var v Values
		access := o.access
		keeps := d.merges()
		switch k := o.kind; {
		case k.memory && d.hasMem:
			continue
		case k == opX, k == opY:
			access, v.GPR = accBoth, 1<<numSI
			if k == opY {
				v.GPR = 1 << numDI
			}
			if d.rep != 0 {
				v.GPR |= 1 << numCX
			}
		case k.class == GPROperand:
			v.GPR, keeps = 1<<d.highByte(o), d.width(o.size) < 4
		case k == opFixed && fixedOperands[o.name] >= 0:
			v.GPR, keeps = 1<<fixedOperands[o.name], true
		case k.class == VectorOperand:
			v.Vector = 1 << d.number(k)
		case k.class == OpmaskOperand:
			v.Opmask, keeps = 1<<d.number(k), false // the bits that the opmask leaves out are cleared
			if strings.HasPrefix(f.name, "vp2intersect") {
				v.Opmask = 3 << (d.number(k) &^ 1)
			}
		case o.name == "xmm0":
			v.Vector = 1
		}
		if access&accRead != 0 || keeps {
			reads = reads.Or(v)
		}
		if access&accWrite != 0 {
			writes = writes.Or(v)
		}
	}
	if d.opmask != 0 {
		reads.Opmask |= 1 << d.opmask
		if f.vsib { // a gather or scatter clears its mask as it goes
			writes.Opmask |= 1 << d.opmask
		}
	}
	return reads, writes
}

// implicit are the registers that no operand shows.
func (d *rawInst) implicit() (reads, writes Values) {
	reads, writes = d.form.reads, d.form.writes
	if d.width(sizeV) == 2 && (d.form.byWidth != nil || d.form.has(sizeV)) { // mul r16 keeps the upper part of rdx
		reads.GPR |= writes.GPR
	}
	return reads, writes
}

// merges reports whether a vector destination keeps the elements that the opmask leaves out. Blends take them from a source.
func (d *rawInst) merges() bool {
	return d.opmask != 0 && !d.evexZ && !strings.Contains(d.form.name, "blendm")
}

// independent reports whether the result is the same whatever the operands hold (Intel Optimization Reference Manual,
// "Dependency Breaking Idioms"; AMD Software Optimization Guide for family 19h, "Idioms for Dependency Removal").
func (d *rawInst) independent() bool {
	ops := d.form.ops
	if d.hasMem || d.opmask != 0 || len(ops) < 2 {
		return false
	}
	a, b := ops[len(ops)-2], ops[len(ops)-1]
	class := a.kind.class
	if class != b.kind.class || d.number(a.kind) != d.number(b.kind) {
		return false
	}
	switch strings.TrimPrefix(d.form.name, "v") {
	case "xor", "sub":
		return class == GPROperand && d.width(a.size) >= 4
	case "xorps", "xorpd", "pxor", "pxord", "pxorq", "psubb", "psubw", "psubd", "psubq", "pcmpgtb", "pcmpgtw", "pcmpgtd",
		"pcmpgtq", "pcmpeqb", "pcmpeqw", "pcmpeqd", "pcmpeqq":
		return class == VectorOperand
	}
	return false
}
