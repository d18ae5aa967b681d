package asm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/bbprof/bbprof/verdict"
)

// A Form is one encoding of one instruction with all chosen but its registers, its address and its immediates:
// operand size, vector length, register or memory, masking, broadcast, rounding.
type Form struct {
	name      string
	opcodeMap int
	raw       rawInst // one that is masked by k1
}

// OperandClass is a class of operands.
type OperandClass uint8

const (
	OtherOperand     OperandClass = iota // a segment, control, bound or tile register, a branch's distance, the 1 of a shift
	GPROperand                           // a general register
	VectorOperand                        // xmm, ymm or zmm
	MMXOperand                           //
	OpmaskOperand                        // k0 to k7
	X87Operand                           // st(0) to st(7)
	MemoryOperand                        //
	ImmediateOperand                     //
)

// An Operand of a form.
type Operand struct {
	Class       OperandClass
	Width       int // in bytes: of the register, access or immediate; 0 for an address alone
	Read, Write bool
	Fixed       int  // the number of the only register that can stand here; -1 if there is a choice
	Implicit    bool // memory whose address is in no register that can be chosen
	Index       int  // of gathers and scatters: bytes of a vector of indices; 0 of others
	text        string
}

// Address is a memory operand's. Index is a general register, or a vector register where the form takes a vector of
// indices; -1 for none.
type Address struct {
	Base  Reg // or NoBase
	Index int
	Scale uint8 // 1, 2, 4 or 8; 0 is 1
	Disp  int32
	Long  bool // the displacement takes 32 bits, whatever it is
}

// NoBase as Address.Base leaves the base out.
const NoBase = R15 + 1

// Forms are all forms of the tables. Where several encodings do the same, it is the first.
func Forms() []Form { return slices.Clone(allForms()) }

var allForms = sync.OnceValue(func() (list []Form) {
	names := map[string]encoding{}
	tables().each(func(enc encoding, opcodeMap, opcode int, f *form) {
		raw := rawInst{form: f, enc: enc, opcode: uint8(opcode), opsize16: f.prefix == prefix66, w: f.w == 1}
		for _, v := range (Form{opcodeMap: opcodeMap, raw: raw}).variants() {
			v.name = v.text()
			if other, taken := names[v.name]; taken && enc == encEVEX && other != encEVEX {
				v.name = "{evex} " + v.name
			}
			if _, taken := names[v.name]; !taken && v.exists() {
				names[v.name] = enc
				list = append(list, v)
			}
		}
	})
	return list
})

// FormNamed finds a form by its name, nil if there is none.
func FormNamed(name string) *Form { return formsByName()[name] }

var formsByName = sync.OnceValue(func() map[string]*Form {
	list := allForms()
	m := make(map[string]*Form, len(list))
	for i := range list {
		m[list[i].name] = &list[i]
	}
	return m
})

// exists reports whether bytes of the form are an instruction of it, and not of one that the decoder prefers.
func (f *Form) exists() bool {
	operands := f.Operands()
	values := make([]int64, len(operands))
	at := Address{Base: RBX, Index: -1}
	for i, o := range operands {
		values[i] = int64(i + 1) // all distinct, as some must be
		if o.Index > 0 {
			at.Index = len(operands) + 1
		}
	}
	_, err := f.Encode(values, at, 1)
	return err == nil
}

// variants are the forms that differ from f in what it leaves open.
func (f Form) variants() (list []Form) {
	form, evex := f.raw.form, f.raw.enc == encEVEX
	memory := []bool{form.mod == modMem}
	if form.mod == modAny && slices.ContainsFunc(form.ops, func(o operand) bool { return o.kind.memory }) {
		memory = []bool{false, true}
	}
	for _, sized := range f.sizes() {
		for _, mem := range memory {
			for n := range 6 { // without and with EVEX.b: no mask, merging, zeroing
				v := sized
				v.raw.hasMem, v.raw.evexB, v.raw.opmask, v.raw.evexZ = mem, n/3 == 1, uint8(min(n%3, 1)), n%3 == 2
				rounds := form.rounds() && (v.raw.vl == 2 || !form.vectorSized())
				if n == 0 && !evex || evex && v.raw.evexValid() && (mem || !v.raw.evexB || rounds) {
					list = append(list, v)
				}
			}
		}
	}
	return list
}

// sizes are the forms by operand size and vector length.
func (f Form) sizes() (list []Form) {
	form, legacy := f.raw.form, f.raw.enc == encLegacy
	lengths := form.lengths
	if f.raw.enc == encVEX {
		lengths &= 3
	}
	if legacy || !form.vectorSized() {
		lengths &= -lengths // the shortest
	}
	takes66 := legacy && form.prefix != noPrefix && form.prefix != prefix66
	for vl := range uint8(3) {
		if lengths>>vl&1 == 0 {
			continue
		}
		f.raw.vl = vl
		short, wide := f, f
		short.raw.opsize16, wide.raw.w = true, true
		switch {
		case form.w >= 0:
			list = append(list, f)
		case takes66 && (form.has(sizeV) || form.byWidth != nil):
			list = append(list, short, f, wide)
		case form.has(sizeY):
			list = append(list, f, wide)
		case takes66 && (form.has(sizeZ, sizeU, sizeP, sizeEnv, sizeFPU) || form.implicit != implicitNone):
			list = append(list, f, short)
		default:
			list = append(list, f)
		}
	}
	return list
}

func (f *form) has(sizes ...operandSize) bool {
	return slices.ContainsFunc(f.ops, func(o operand) bool { return slices.Contains(sizes, o.size) })
}

// vectorSized reports whether the vector length decides about an operand.
func (f *form) vectorSized() bool { return f.has(sizeX, sizeH, sizeF, sizeE) }

// Name identifies the form: the mnemonic and kinds of operands, such as "vaddps xmm {k}, xmm, m128". Where VEX and
// EVEX have the same, {evex} begins the latter's.
func (f *Form) Name() string { return f.name }

// Mnemonic is the instruction's name.
func (f *Form) Mnemonic() string { return f.raw.mnemonic() }

// VEX and EVEX tell the encodings apart; others are legacy.
func (f *Form) VEX() bool  { return f.raw.enc == encVEX }
func (f *Form) EVEX() bool { return f.raw.enc == encEVEX }

// Masked reports whether an opmask says which elements count.
func (f *Form) Masked() bool { return f.raw.opmask != 0 }

// Distinct reports whether the destination must not be a source.
func (f *Form) Distinct() bool { return f.raw.form.distinct }

// X87 reports whether it is an instruction of the x87 unit.
func (f *Form) X87() bool { return f.raw.form.isX87 && !f.raw.form.isMMX && !f.raw.form.isVec }

// Implicit are the registers that no operand shows.
func (f *Form) Implicit() (read, written Values) { return f.raw.implicit() }

// Refused says why no instruction of the form may run.
func (f *Form) Refused() (reason verdict.Reason, why string) {
	r := f.raw.form.refusal
	return r.reason, r.why
}

// Operands are those that assembly shows, in its order.
func (f *Form) Operands() []Operand {
	list := make([]Operand, len(f.raw.form.ops))
	for i, o := range f.raw.form.ops {
		list[i] = f.raw.describe(o)
		if i == 0 && f.raw.merges() && list[i].Class == VectorOperand {
			list[i].Read = true
		}
	}
	return list
}

// describe gives what follows of an operand without the numbers of registers.
func (d *rawInst) describe(o operand) Operand {
	k := o.kind
	p := Operand{Class: k.class, Width: d.width(o.size), Read: o.access&accRead != 0, Write: o.access&accWrite != 0, Fixed: -1, text: k.name}
	if k.memory && d.hasMem {
		p.Class, p.Width = MemoryOperand, d.memWidth(o)
		p.text = fmt.Sprintf("m%d", 8*p.Width)
		switch {
		case d.form.vsib:
			p.Index = max(16, d.elements(o)*int(o.index))
			p.text = fmt.Sprintf("vm%d%c", 8*o.index, vectorLetter(p.Index))
		case d.form.agen || p.Width == 0:
			p.Width, p.text = 0, "m"
		case d.evexB:
			p.text += fmt.Sprintf("{1to%d}", d.width(o.size)/int(d.form.broadcast))
		}
		return p
	}
	switch k.class {
	case GPROperand:
		p.text = fmt.Sprintf("r%d", 8*p.Width)
	case VectorOperand:
		p.Width = d.vectorWidth(o.size)
		p.text = fmt.Sprintf("%cmm", vectorLetter(p.Width))
	case MMXOperand, OpmaskOperand:
		p.Width = 8
	case X87Operand:
		p.Width = 10
	case MemoryOperand:
		p.Implicit, p.text = true, fmt.Sprintf("m%d", 8*p.Width)
	case ImmediateOperand:
		p.text = fmt.Sprintf("i%d", 8*p.Width)
	}
	switch o.kind {
	case opA:
		p.Fixed, p.text = numAX, d.gprName(numAX, p.Width)
	case opMoffs:
		p.text = "moffs" + p.text[1:]
	case opRel:
		p.text = fmt.Sprintf("rel%d", 8*p.Width)
	case opFixed:
		p.text = o.name
		if n := fixedOperands[o.name]; n >= 0 {
			p.Class, p.Fixed = GPROperand, n
			p.Width = map[byte]int{'l': 1, 'x': 2}[o.name[len(o.name)-1]]
		} else if o.name == "xmm0" {
			p.Class, p.Fixed, p.Width = VectorOperand, 0, 16
		} else if o.name == "st" {
			p.Class, p.Fixed, p.Width = X87Operand, 0, 10
		}
	}
	return p
}

func (f *Form) text() string {
	mask, rounding := "", ""
	if f.Masked() {
		mask = " {k}"
	}
	if f.raw.evexZ {
		mask += "{z}"
	}
	if f.raw.rounds() {
		rounding = map[bool]string{true: "{er}", false: "{sae}"}[f.raw.form.er]
	}
	return f.raw.spell(f.Mnemonic(), mask, rounding, func(b []byte, i int) []byte {
		return append(b, f.raw.describe(f.raw.form.ops[i]).text...)
	})
}

var errNotEncodable = errors.New("no such instruction")

// Encode gives the instruction's bytes. values are, operand by operand, a register's number or an immediate; those of
// memory and of fixed operands do not matter. mask is the opmask of a masked form, which must not be k0.
func (f *Form) Encode(values []int64, at Address, mask int) ([]byte, error) {
	if len(values) != len(f.raw.form.ops) {
		return nil, fmt.Errorf("%s: %d values for %d operands", f.name, len(values), len(f.raw.form.ops))
	}
	e := encoded{Form: f, at: at, mask: mask}
	for i, o := range f.raw.form.ops {
		e.place(o, values[i])
	}
	code := append(e.prefixes(), f.raw.opcode|byte(e.number[inOpcode]&7))
	if f.raw.form.hasModRM {
		code = e.appendModRM(code)
	}
	code = append(code, e.tail...)
	var in Inst
	if err := in.decode(code); err != nil || len(in.Bytes) != len(code) || in.raw.form.name != f.raw.form.name {
		return nil, fmt.Errorf("%s: %w: %x", f.name, cmp.Or(err, errNotEncodable), code)
	}
	return code, nil
}

// encoded is an instruction on its way to bytes: the number in each field.
type encoded struct {
	*Form
	at        Address
	mask      int
	number    [inImm + 1]int // of the register in each field, all bits
	rexNeeded bool           // spl, bpl, sil, dil
	tail      []byte
}

func (e *encoded) place(o operand, v int64) {
	k := o.kind
	if k.memory && e.raw.hasMem {
		return
	}
	e.number[k.field] = int(v)
	e.rexNeeded = e.rexNeeded || k.class == GPROperand && k.field != noField && e.raw.width(o.size) == 1 && v >= 4 && v < 8
	switch o.kind {
	case opL:
		e.tail = append(e.tail, byte(v<<4))
	case opImm, opImmS, opRel:
		e.tail = append(e.tail, binary.LittleEndian.AppendUint64(nil, uint64(v))[:e.raw.immediateWidth(o)]...)
	case opMoffs:
		e.tail = binary.LittleEndian.AppendUint64(e.tail, uint64(e.at.Disp))
	}
}

// extensions are the bits that REX, VEX and EVEX add to ModRM and SIB: 1 if set.
func (e *encoded) extensions() (r, x, b byte) {
	base, index := e.number[inRM], e.number[inRM]>>1
	switch {
	case e.raw.hasMem:
		base, index = int(e.at.Base), max(e.at.Index, 0)
	case !e.raw.form.hasModRM:
		base, index = e.number[inOpcode], 0
	}
	return byte(e.number[inReg] >> 3 & 1), byte(index >> 3 & 1), byte(base >> 3 & 1)
}

// pp is the prefix that VEX and EVEX hold in two bits.
func (e *encoded) pp() byte {
	return map[mandatory]byte{prefix66: 1, prefixF3: 2, prefixF2: 3}[e.raw.form.prefix]
}

// prefixes are all bytes before the opcode. The formats are drawn in prefix.go.
func (e *encoded) prefixes() (code []byte) {
	r, x, b := e.extensions()
	var w byte
	if e.raw.w {
		w = 1
	}
	vvvv := ^byte(e.number[inVVVV]) & 15
	switch e.raw.enc {
	case encVEX:
		last := vvvv<<3 | e.raw.vl<<2 | e.pp()
		if x|b|w == 0 && e.opcodeMap == 1 {
			return []byte{0xc5, (r^1)<<7 | last}
		}
		return []byte{0xc4, (r^1)<<7 | (x^1)<<6 | (b^1)<<5 | byte(e.opcodeMap), w<<7 | last}
	case encEVEX:
		v4 := byte(e.number[inVVVV] >> 4 & 1)
		if e.raw.form.vsib {
			v4 = byte(e.at.Index >> 4 & 1)
		}
		p2 := e.raw.vl<<5 | (v4^1)<<3
		if e.raw.evexB {
			p2 |= 0x10
			if !e.raw.hasMem && e.raw.form.rounds() {
				p2 &^= 0x60 // round to nearest
			}
		}
		if e.raw.opmask != 0 {
			p2 |= byte(e.mask & 7)
		}
		if e.raw.evexZ {
			p2 |= 0x80
		}
		r4 := byte(e.number[inReg] >> 4 & 1)
		return []byte{0x62, (r^1)<<7 | (x^1)<<6 | (b^1)<<5 | (r4^1)<<4 | byte(e.opcodeMap), w<<7 | vvvv<<3 | 4 | e.pp(), p2}
	}
	if e.raw.opsize16 {
		code = append(code, 0x66)
	}
	switch e.raw.form.prefix {
	case prefixF2:
		code = append(code, 0xf2)
	case prefixF3:
		code = append(code, 0xf3)
	}
	if rex := w<<3 | r<<2 | x<<1 | b; rex != 0 || e.rexNeeded {
		code = append(code, 0x40|rex)
	}
	return append(code, [][]byte{nil, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}}[e.opcodeMap]...)
}

func (e *encoded) appendModRM(code []byte) []byte {
	reg := byte(e.number[inReg] & 7)
	if e.raw.form.digit >= 0 {
		reg = byte(e.raw.form.digit)
	}
	if e.raw.form.modrm >= 0 {
		return append(code, byte(e.raw.form.modrm))
	}
	if !e.raw.hasMem {
		return append(code, 0xc0|reg<<3|byte(e.number[inRM]&7))
	}
	return e.at.append(code, reg, e.raw.enc != encEVEX)
}

// append adds ModRM, SIB and displacement, the latter of 8 bits if that is enough and allowed.
func (at Address) append(code []byte, reg byte, disp8 bool) []byte {
	base := byte(at.Base & 7)
	mod, size := byte(0), 0
	switch {
	case at.Base == NoBase: // mod 0, base 5: a displacement alone
		base, size = byte(RBP), 4
	case at.Long:
		mod, size = 2, 4
	case at.Disp == 0 && base != byte(RBP):
	case at.Disp == 0, disp8 && int32(int8(at.Disp)) == at.Disp:
		mod, size = 1, 1
	default:
		mod, size = 2, 4
	}
	if at.Index < 0 && base != byte(RSP) && at.Base != NoBase {
		code = append(code, mod<<6|reg<<3|base)
	} else {
		index := byte(4) // none
		if at.Index >= 0 {
			index = byte(at.Index & 7)
		}
		scale := byte(bits.TrailingZeros8(max(1, at.Scale)))
		code = append(code, mod<<6|reg<<3|4, scale<<6|index<<3|base)
	}
	return append(code, binary.LittleEndian.AppendUint32(nil, uint32(at.Disp))[:size]...)
}

// Decorated reports whether the form masks, broadcasts or rounds where another does not, and is the same otherwise.
func (f *Form) Decorated() bool { return f.raw.evexB || f.raw.opmask != 0 && !f.raw.form.vsib }

// OperandValues are the operands of an instruction, as Form.Encode takes them: to encode another form with the same
// registers. ok is false for what Encode does not choose: prefixes, segments, addresses without a base or with a
// vector of indices, and the registers ah to bh.
func (in *Inst) OperandValues() (values []int64, at Address, mask int, ok bool) {
	d := &in.raw
	at.Index = -1
	repeats := d.rep != 0 && d.form.prefix == anyPrefix
	if d.lock || repeats || d.addr32 || d.segment != NoSegment || d.form.vsib || in.RIPDisp > 0 {
		return nil, at, 0, false
	}
	if d.hasMem {
		base, hasBase := d.base.GPR()
		if !hasBase {
			return nil, at, 0, false
		}
		at = Address{Base: Reg(base), Index: -1, Scale: d.scale, Disp: int32(d.disp)}
		if n, indexed := d.index.GPR(); indexed {
			at.Index = n
		}
	}
	for i, o := range d.form.ops {
		n := int64(d.number(o.kind))
		switch o.kind {
		case opImm, opImmS:
			n = d.immediate(i)
		case opX, opY, opMoffs, opRel:
			return nil, at, 0, false
		case opE, opR, opG, opZ:
			if d.highByte(o) != d.number(o.kind) && !(o.kind == opE && d.hasMem) {
				return nil, at, 0, false
			}
		}
		values = append(values, n)
	}
	return values, at, int(d.opmask), true
}

// Form is the form of an instruction, nil of one that Forms leave out: with lock or rep, for instance.
func (in *Inst) Form() *Form {
	d := &in.raw
	if d.lock || d.rep != 0 && d.form.prefix == anyPrefix {
		return nil
	}
	f := Form{raw: *d}
	return FormNamed(f.text())
}
