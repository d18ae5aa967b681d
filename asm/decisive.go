package asm

import "strings"

// Decisive is which of the values that an instruction reads decide what it accesses or how long it takes,
// whatever becomes of its result: what addresses, masks and numbers of rounds are made of, shift counts,
// what is divided and by what, control words. memory says the same of all that it reads from memory.
func (in *Inst) Decisive() (v Values, memory bool) {
	d := &in.raw
	for _, m := range in.Mem {
		for _, r := range [...]Register{m.Base, m.Index, m.BitOffset, m.Mask} {
			v = v.Or(valueOf(r))
		}
		if m.Repeat != Once {
			v.GPR |= 1 << numCX
		}
	}
	reads, _ := in.Dataflow()
	name := d.mnemonic()
	base := strings.TrimPrefix(name, "v")
	switch {
	case in.Compares(), decisiveNames[name], strings.HasPrefix(base, "div"), strings.HasPrefix(base, "sqrt"):
		return v.Or(reads), true
	case shiftsByCL[name] && d.countInCL():
		v.GPR |= 1 << numCX
	case countedByVVVV[name]:
		v.GPR |= 1 << d.number(opB)
	case d.form.isVec && strings.HasPrefix(base, "ps") && len(base) > 2 && (base[2] == 'l' || base[2] == 'r'): // psll, psrl, psra
		return v.Or(d.vectorCount()), d.hasMem
	}
	return v, false
}

// vectorCount is the register that holds the counts of a shift of vectors.
func (d *rawInst) vectorCount() (v Values) {
	for _, o := range d.form.ops {
		if o.kind == opW && !d.hasMem && o.access == accRead {
			v.Vector = 1 << d.number(opW)
		}
	}
	return v
}

func valueOf(r Register) (v Values) {
	if n, ok := r.GPR(); ok {
		v.GPR = 1 << n
	} else if n, ok := r.Vector(); ok {
		v.Vector = 1 << n
	} else if n, ok := r.Opmask(); ok {
		v.Opmask = 1 << n
	} else if r == AL {
		v.GPR = 1 << numAX
	} else if r >= firstMMX {
		v.X87 = true
	}
	return v
}

// decisiveNames are the instructions all of whose operands decide: divisions and roots, what cores do in
// microcode with as many steps as the operands need (pdep and pext on Zen 2 and before, uops.info), and
// what loads control words.
var decisiveNames = names("div idiv fdiv fdivp fdivr fdivrp fidiv fidivr fsqrt fprem fprem1 fscale fsin fcos fsincos fptan fpatan " +
	"f2xm1 fyl2x fyl2xp1 fbld fbstp pdep pext ldmxcsr vldmxcsr fldcw fldenv frstor fxrstor fxrstor64 xrstor xrstor64 popf")

// countedByVVVV are the shifts whose count is in the register that VEX names.
var countedByVVVV = names("shlx shrx sarx")

func names(list string) map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		m[name] = true
	}
	return m
}

// Steps are the registers that an instruction moves on by as much as its operand is wide, beside what it
// computes: the stack pointer of push and pop, a string's pointers and count. Their new values follow from
// their old ones alone.
func (in *Inst) Steps() (v Values) {
	f := in.raw.form
	switch f.implicit {
	case implicitPush, implicitPop, implicitLeave:
		v.GPR = 1 << numSP
	}
	for _, o := range f.ops {
		switch n, ok := in.raw.wholeRegister(o); {
		case ok && n == numSP && o.access&accWrite != 0: // pop rsp
			return Values{}
		case o.kind == opX:
			v.GPR |= 1 << numSI
		case o.kind == opY:
			v.GPR |= 1 << numDI
		default:
			continue
		}
		if in.raw.rep != 0 && (o.kind == opX || o.kind == opY) {
			v.GPR |= 1 << numCX
		}
	}
	return v
}
