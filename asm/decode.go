package asm

import "errors"

// maxLength is the longest instruction that a processor accepts (Intel SDM vol. 2, 2.3.11).
const maxLength = 15

var (
	errTruncated = errors.New("the block ends inside it")
	errTooLong   = errors.New("longer than 15 bytes")
	errOpcode    = errors.New("unassigned opcode")
	errPrefix    = errors.New("a prefix that this encoding forbids")
	errOverlap   = errors.New("destination and source are the same register")
	errReserved  = errors.New("reserved bits set")
)

// A rawInst is an instruction taken apart, before anyone asks what it does.
type rawInst struct {
	form *form
	enc  encoding

	opsize16 bool  // 66
	addr32   bool  // 67
	rep      uint8 // the last of f2 and f3
	lock     bool
	segment  Segment
	rex      bool

	// Register number extensions, uninverted: bit 3 of ModRM.reg, SIB.index and ModRM.rm, and for EVEX bit 4 of
	// ModRM.reg and of vvvv.
	r, x, b, r4, v4 uint8
	w               bool
	vvvv            uint8 // uninverted, with v4 as bit 4
	vl              uint8 // vector length: 128 << vl bits
	rounding        uint8 // L'L where EVEX.b makes it the rounding mode
	evexB, evexZ    bool
	opmask          uint8

	opcode   uint8
	modrm    uint8
	hasMem   bool
	base     Register
	index    Register
	scale    uint8
	indexNum uint8 // bits of the index register, for VSIB
	disp     int64
	imm      [2]int64 // in the order of the operands
	length   uint8
	ripDisp  uint8
}

// reader takes bytes off the front of the code, up to the longest possible instruction. After its first error it gives zeros.
type reader struct {
	code []byte
	pos  int
	err  error
}

// peek gives the next bytes without taking them.
func (r *reader) peek(n int) ([]byte, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case r.pos+n > maxLength:
		return nil, errTooLong
	case r.pos+n > len(r.code):
		return nil, errTruncated
	}
	return r.code[r.pos:][:n], nil
}

func (r *reader) byte() byte { return byte(r.signed(1)) }

func (r *reader) signed(size int) int64 {
	var bytes []byte
	if bytes, r.err = r.peek(size); r.err != nil {
		return 0
	}
	var v uint64
	for i, b := range bytes {
		v |= uint64(b) << (8 * i)
	}
	r.pos += size
	return signExtend(v, 8*size)
}

// decode takes the first instruction of code apart.
func (d *rawInst) decode(code []byte) error {
	r := &reader{code: code}
	opcodeMap, err := d.prefixes(r)
	if err != nil {
		return err
	}
	d.opcode = r.byte()
	if d.form, err = d.choose(opcodeMap, r); err != nil {
		return err
	}
	if d.form.hasModRM {
		d.modrm = r.byte()
		if d.evexB && d.modrm >= 0xc0 && d.form.rounds() {
			d.rounding, d.vl = d.vl, 2
		}
		if d.modrm < 0xc0 && d.form.mod != modIgnored {
			if err := d.memoryOperand(r); err != nil {
				return err
			}
		}
	}
	d.immediates(r)
	d.length = uint8(r.pos)
	if r.err != nil {
		return r.err
	}
	return d.check()
}

// choose finds the form that the opcode, the prefixes and a peek at ModRM select.
func (d *rawInst) choose(opcodeMap int, r *reader) (*form, error) {
	if r.err != nil {
		return nil, r.err
	}
	next, noModRM := r.peek(1)
	modrm := byte(0)
	if noModRM == nil {
		modrm = next[0]
	}
	for _, f := range tables().forms[d.enc][opcodeMap][d.opcode] {
		if !d.prefixSelects(f.prefix) || f.notREXB && d.b != 0 {
			continue
		}
		if f.w >= 0 && (f.w == 1) != d.w {
			continue
		}
		if f.hasModRM {
			if noModRM != nil {
				return nil, noModRM
			}
			if !f.matchesModRM(modrm) {
				continue
			}
		}
		if d.enc != encLegacy && !d.lengthSelects(f, modrm) {
			continue
		}
		return f, nil
	}
	return nil, errOpcode
}

// prefixSelects reports whether the prefixes are those of a form. Where f2 or f3 selects, a 66 beside it is the
// operand size (Intel SDM vol. 2, 2.1.2; crc32, popcnt).
func (d *rawInst) prefixSelects(m mandatory) bool {
	switch m {
	case noPrefix:
		return d.rep == 0 && !d.opsize16
	case prefix66:
		return d.rep == 0 && d.opsize16
	case prefixF3:
		return d.rep == 0xf3
	case prefixF2:
		return d.rep == 0xf2
	case noRepeat:
		return d.rep == 0
	}
	return true
}

func (f *form) matchesModRM(modrm byte) bool {
	switch {
	case f.modrm >= 0:
		return int16(modrm) == f.modrm
	case f.digit >= 0 && int8(modrm>>3&7) != f.digit:
		return false
	case f.mod == modMem:
		return modrm < 0xc0
	case f.mod == modReg:
		return modrm >= 0xc0
	}
	return true
}

// rounds reports whether EVEX.b of the register form says something about rounding.
func (f *form) rounds() bool { return f.er || f.sae }

// lengthSelects reports whether a form has the vector length of VEX.L or EVEX.L'L. In the register form EVEX.b turns
// L'L into a rounding mode, and the length is 512 bits.
func (d *rawInst) lengthSelects(f *form, modrm byte) bool {
	if d.evexB && modrm >= 0xc0 && f.rounds() {
		return f.lengths&4 != 0
	}
	return d.vl < 3 && f.lengths>>d.vl&1 != 0
}

// memoryOperand reads SIB and displacement (Intel SDM vol. 2, tables 2-2 and 2-3, and 2.2.1.6 for rip).
func (d *rawInst) memoryOperand(r *reader) error {
	d.hasMem = true
	mod, rm := d.modrm>>6, d.modrm&7
	dispSize := [4]int{0, 1, 4}[mod]
	d.base = GPR(int(rm | d.b))
	if rm == 4 {
		sib := r.byte()
		d.base = GPR(int(sib&7 | d.b))
		d.indexNum = sib>>3&7 | d.x
		d.scale = 1 << (sib >> 6)
		if d.indexNum != 4 {
			d.index = GPR(int(d.indexNum))
		}
		if mod == 0 && sib&7 == 5 {
			d.base, dispSize = NoRegister, 4
		}
	} else if mod == 0 && rm == 5 {
		d.base, dispSize = RIP, 4
		d.ripDisp = uint8(r.pos)
	}
	if d.form.vsib {
		if rm != 4 {
			return errReserved
		}
		d.index = firstVec + Register(d.indexNum|d.v4)
	}
	if d.index == NoRegister {
		d.scale = 0
	}
	d.disp = r.signed(dispSize)
	if dispSize == 1 && d.enc == encEVEX {
		d.disp *= int64(d.dispScale())
	}
	return r.err
}

// dispScale is N of EVEX's disp8*N (Intel SDM vol. 2, 2.7.5, tables 2-36 and 2-37): in every tuple type the width of
// the access, but for those that name N themselves.
func (d *rawInst) dispScale() int {
	if d.form.dispScale != 0 {
		return int(d.form.dispScale)
	}
	for _, o := range d.form.ops {
		if o.kind.memory {
			return d.memWidth(o)
		}
	}
	return 1
}

// immediates reads what follows the operand, in the order of the operands.
func (d *rawInst) immediates(r *reader) {
	n := 0
	for _, o := range d.form.ops {
		switch size := d.immediateWidth(o); {
		case size == 0:
		case o.kind == opMoffs:
			d.disp = r.signed(size)
			if d.addr32 {
				d.disp = int64(uint32(d.disp))
			}
		case n < len(d.imm):
			d.imm[n] = r.signed(size)
			n++
		default:
			r.signed(size)
		}
	}
}

// immediateWidth is how many bytes of the immediate an operand takes, 0 if it is elsewhere.
func (d *rawInst) immediateWidth(o operand) int {
	switch {
	case o.kind == opRel && o.size == sizeZ:
		return 4 // Intel ignores 66 before a near branch (SDM vol. 2, JMP)
	case o.kind == opImm, o.kind == opImmS, o.kind == opRel:
		return d.width(o.size)
	case o.kind == opMoffs && d.addr32:
		return 4
	case o.kind == opMoffs:
		return 8
	case o.kind == opL:
		return 1
	}
	return 0
}
