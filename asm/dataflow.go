package asm

import "strings"

// Values are what instructions hand to one another outside memory: a set of registers and flags.
type Values struct {
	GPR    uint16 // bit n is the general register with hardware number n
	Vector uint32 // bit n is xmm, ymm or zmm register n
	Opmask uint8
	Flags  Flags
	X87    bool // the x87 stack, MMX registers included, as one
}

// Flags are status flags, in the two groups that cores rename apart.
type Flags uint8

const (
	Carry      Flags = 1 << iota // CF
	OtherFlags                   // OF, SF, ZF, AF and PF
	AllFlags   = Carry | OtherFlags
)

// Or is what is in a or in b.
func (a Values) Or(b Values) Values {
	return Values{a.GPR | b.GPR, a.Vector | b.Vector, a.Opmask | b.Opmask, a.Flags | b.Flags, a.X87 || b.X87}
}

// And is what is in both.
func (a Values) And(b Values) Values {
	return Values{a.GPR & b.GPR, a.Vector & b.Vector, a.Opmask & b.Opmask, a.Flags & b.Flags, a.X87 && b.X87}
}

// Without is what is in a and not in b.
func (a Values) Without(b Values) Values {
	return Values{a.GPR &^ b.GPR, a.Vector &^ b.Vector, a.Opmask &^ b.Opmask, a.Flags &^ b.Flags, a.X87 && !b.X87}
}

// Dataflow is which values an instruction waits for and which it makes. A destination that keeps a part
// of its old value is read, too; the sources of an idiom that cores know to give zeros or ones
// whatever they hold (xor eax, eax) are not.
func (in *Inst) Dataflow() (reads, writes Values) {
	d := &in.raw
	read, written := d.generalRegisters()
	reads, writes = Values{GPR: uint16(read)}, Values{GPR: uint16(written)}
	reads.Flags, writes.Flags = d.flags()
	if d.form.isX87 || d.form.isMMX {
		reads.X87, writes.X87 = true, true
	}
	for _, o := range d.form.ops {
		if o.kind.isMemory() && d.hasMem && o.kind != opVSIB {
			continue
		}
		var v Values
		switch o.kind {
		case opV, opH, opW, opU, opL:
			v.Vector = 1 << d.number(o.kind)
		case opKReg, opKVVVV, opKMem, opKRM:
			v.Opmask = 1 << d.number(o.kind)
		case opFixed:
			if o.name == "xmm0" {
				v.Vector = 1
			}
		default:
			continue
		}
		if o.access&accRead != 0 || d.merges(o) {
			reads = reads.Or(v)
		}
		if o.access&accWrite != 0 {
			writes = writes.Or(v)
		}
	}
	if n, ok := d.index.Vector(); ok {
		reads.Vector |= 1 << n
	}
	if d.opmask != 0 {
		reads.Opmask |= 1 << d.opmask
		if d.form.vsib { // a gather or scatter clears its mask as it goes
			writes.Opmask |= 1 << d.opmask
		}
	}
	if strings.HasSuffix(d.form.name, "zeroall") {
		writes.Vector |= 1<<16 - 1
	}
	if d.independent() {
		reads = Values{}
	}
	return reads, writes
}

// merges reports whether a destination keeps the elements that an opmask leaves out.
func (d *rawInst) merges(o operand) bool {
	return o.access&accWrite != 0 && d.opmask != 0 && !d.evexZ
}

// independent reports whether the result is the same whatever the operands hold (Intel Optimization
// Reference Manual, "Dependency Breaking Idioms"; AMD Software Optimization Guide for family 19h,
// "Idioms for Dependency Removal").
func (d *rawInst) independent() bool {
	if d.hasMem || d.opmask != 0 {
		return false
	}
	name := strings.TrimPrefix(d.form.name, "v")
	var kinds []operandKind
	switch name {
	case "xor", "sub":
		kinds = []operandKind{opE, opG}
		if d.width(d.form.ops[0].size) < 4 {
			return false
		}
	case "xorps", "xorpd", "pxor", "pxord", "pxorq", "psubb", "psubw", "psubd", "psubq", "pcmpgtb", "pcmpgtw", "pcmpgtd",
		"pcmpgtq", "pcmpeqb", "pcmpeqw", "pcmpeqd", "pcmpeqq":
		if d.form.isMMX {
			return false
		}
		kinds = []operandKind{opV, opW}
		if d.enc != encLegacy {
			kinds = []operandKind{opH, opW}
		}
	default:
		return false
	}
	var numbers []int
	for _, o := range d.form.ops {
		for _, k := range kinds {
			if o.kind == k {
				numbers = append(numbers, d.number(k))
			}
		}
	}
	return len(numbers) == 2 && numbers[0] == numbers[1]
}

// flags are the status flags that an instruction waits for and those that it writes, undefined ones
// included (SDM vol. 1, appendix A, "EFLAGS cross-reference", and the pages of vol. 2 for newer
// instructions).
func (d *rawInst) flags() (read, written Flags) {
	name := d.form.name
	for _, prefix := range []string{"cmov", "set", "j"} {
		if condition, ok := strings.CutPrefix(name, prefix); ok && conditions[condition] != 0 {
			return conditions[condition], 0
		}
	}
	f, ok := flagsOf[name]
	if !ok {
		return 0, 0
	}
	read, written = f[0], f[1]
	if shiftsByCL[name] && d.countInCL() { // a count of 0 leaves all flags as they were
		read = AllFlags
	}
	return read, written
}

func (d *rawInst) countInCL() bool {
	for _, o := range d.form.ops {
		if o.kind == opFixed && o.name == "cl" {
			return true
		}
	}
	return false
}

// conditions are the flags that a condition depends on (SDM vol. 1, appendix B).
var conditions = map[string]Flags{
	"o": OtherFlags, "no": OtherFlags, "b": Carry, "ae": Carry, "e": OtherFlags, "ne": OtherFlags, "be": AllFlags, "a": AllFlags,
	"s": OtherFlags, "ns": OtherFlags, "p": OtherFlags, "np": OtherFlags, "l": OtherFlags, "ge": OtherFlags, "le": OtherFlags, "g": OtherFlags,
}

var shiftsByCL = map[string]bool{
	"rol": true, "ror": true, "rcl": true, "rcr": true, "shl": true, "shr": true, "sar": true, "shld": true, "shrd": true,
}

// flagsOf are the flags that instructions read and write.
var flagsOf = func() map[string][2]Flags {
	m := make(map[string][2]Flags)
	for _, group := range []struct {
		read, written Flags
		names         string
	}{
		{0, AllFlags, "add sub and or xor cmp test neg shl shr sar shld shrd mul imul div idiv bsf bsr tzcnt lzcnt popcnt xadd cmpxchg " +
			"cmps scas andn bextr blsi blsr blsmsk bzhi sahf popf aad aam " +
			"comiss comisd ucomiss ucomisd vcomiss vcomisd vucomiss vucomisd vcomish vucomish ptest vptest vtestps vtestpd " +
			"kortestb kortestw kortestd kortestq ktestb ktestw ktestd ktestq " +
			"pcmpestri pcmpestrm pcmpistri pcmpistrm vpcmpestri vpcmpestrm vpcmpistri vpcmpistrm fcomi fcomip fucomi fucomip"},
		{Carry, AllFlags, "adc sbb"},
		{0, OtherFlags, "inc dec cmpxchg8b cmpxchg16b"},
		{0, AllFlags, "rol ror"},
		{Carry, AllFlags, "rcl rcr"},
		{0, Carry, "bt bts btr btc clc stc"},
		{Carry, Carry, "cmc adcx"},
		{OtherFlags, OtherFlags, "adox"},
		{AllFlags, 0, "lahf pushf"},
		{Carry, 0, "fcmovb fcmovnb"},
		{AllFlags, 0, "fcmovbe fcmovnbe"},
		{OtherFlags, 0, "fcmove fcmovne fcmovu fcmovnu"},
	} {
		for name := range strings.FieldsSeq(group.names) {
			m[name] = [2]Flags{group.read, group.written}
		}
	}
	return m
}()
