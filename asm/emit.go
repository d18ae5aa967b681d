package asm

import (
	"encoding/binary"
	"slices"
)

// Reg is a general register by its number in the encoding (Intel SDM vol. 2, 3.1.1.1).
type Reg uint8

const (
	RAX Reg = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

func (r Reg) String() string { return gprNames[3][r] }

// Emitter appends machine code that will stand at a known address. It knows the few instructions that bbprof's own
// code is made of; encodings are those of the Intel SDM, vol. 2. Operands in memory are reached rip-relative, which
// costs no register.
type Emitter struct {
	code     []byte
	base     uint64
	relative []int // offsets of the 32-bit rip-relative fields in code
}

// Features says which instruction-set extensions emitted code may use.
type Features struct {
	AVX      bool
	AVX512   bool
	AVX512BW bool
}

// NewEmitter starts code that will stand at base.
func NewEmitter(base uint64) *Emitter {
	const usual = 1024 // bytes, without the copies that Repeat appends
	return NewEmitterIn(base, make([]byte, 0, usual))
}

// NewEmitterIn is NewEmitter with the code in memory of the caller's, for as long as it fits.
func NewEmitterIn(base uint64, memory []byte) *Emitter {
	return &Emitter{base: base, code: memory[:0:len(memory)]}
}

// Bytes is the code so far.
func (e *Emitter) Bytes() []byte { return e.code }

// PC is the address of the next byte.
func (e *Emitter) PC() uint64 { return e.base + uint64(len(e.code)) }

// Raw appends bytes as they are.
func (e *Emitter) Raw(b ...byte) { e.code = append(e.code, b...) }

func (e *Emitter) imm32(v uint32) { e.code = binary.LittleEndian.AppendUint32(e.code, v) }

// RawRelative appends bytes with a 32-bit rip-relative field at an offset.
func (e *Emitter) RawRelative(field int, b ...byte) {
	e.relative = append(e.relative, len(e.code)+field)
	e.Raw(b...)
}

// Moved appends an instruction that stood elsewhere: its 32-bit rip-relative field, at an offset unless that is 0, leads to operand.
func (e *Emitter) Moved(operand uint64, field int, b ...byte) {
	if field == 0 {
		e.Raw(b...)
		return
	}
	e.RawRelative(field, b...)
	binary.LittleEndian.PutUint32(e.code[len(e.code)-len(b)+field:], uint32(operand-e.PC()))
}

// Repeat appends n more copies of what stands between the addresses first and second, for which what follows second
// is the example: each rip-relative field changes from copy to copy by as much as it does between these two.
func (e *Emitter) Repeat(first, second uint64, n int) {
	from, size := int(first-e.base), int(second-first)
	if len(e.code) != from+2*size {
		panic("asm: the two copies differ in length")
	}
	var fields []int // of the second copy
	for _, at := range e.relative {
		if at >= from+size {
			fields = append(fields, at)
		}
	}
	copied := len(e.code)
	e.code = slices.Grow(e.code, n*size)[:copied+n*size]
	for done := size; copied < len(e.code); done *= 2 { // twice as many bytes each time
		copied += copy(e.code[copied:], e.code[from+size:from+size+done])
	}
	for _, at := range fields {
		field := func(at int) []byte { return e.code[at:][:4] }
		v := binary.LittleEndian.Uint32(field(at))
		step := v - binary.LittleEndian.Uint32(field(at-size))
		for k := 1; k <= n; k++ {
			v += step
			binary.LittleEndian.PutUint32(field(at+k*size), v)
		}
	}
}

// rel32 appends the distance to addr from the end of the instruction, which these bytes are.
func (e *Emitter) rel32(addr uint64) {
	e.relative = append(e.relative, len(e.code))
	e.imm32(uint32(int64(addr) - int64(e.PC()) - 4))
}

// nops are the recommended multi-byte forms (SDM vol. 2, NOP, table 4-12), by length.
var nops = [...][]byte{
	1: {0x90},
	2: {0x66, 0x90},
	3: {0x0f, 0x1f, 0x00},
	4: {0x0f, 0x1f, 0x40, 0x00},
	5: {0x0f, 0x1f, 0x44, 0x00, 0x00},
	6: {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
	7: {0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	8: {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	9: {0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
}

// Nop appends n bytes of the fewest nops.
func (e *Emitter) Nop(n int) {
	for n > 0 {
		k := min(n, len(nops)-1)
		e.Raw(nops[k]...)
		n -= k
	}
}

// Align pads with nops to a multiple of n, a power of two.
func (e *Emitter) Align(n int) { e.Nop(int(-e.PC() & uint64(n-1))) }

// MovImm sets a register by the shortest encoding that touches no flag.
func (e *Emitter) MovImm(r Reg, v uint64) {
	lo, hi := byte(r&7), byte(r>>3)
	switch {
	case v == uint64(uint32(v)): // mov r32, imm32 clears the upper half
		if hi != 0 {
			e.Raw(0x41)
		}
		e.Raw(0xb8 | lo)
		e.imm32(uint32(v))
	case v == uint64(int64(int32(v))): // mov r64, sign-extended imm32
		e.Raw(0x48|hi, 0xc7, 0xc0|lo)
		e.imm32(uint32(v))
	default:
		e.MovAbs(r, v)
	}
}

// MovAbs is MovImm in 10 bytes for any value.
func (e *Emitter) MovAbs(r Reg, v uint64) {
	e.Raw(0x48|byte(r>>3), 0xb8|byte(r&7))
	e.code = binary.LittleEndian.AppendUint64(e.code, v)
}

// Instructions with an operand at addr, named for their mnemonics. Those with a register are of 64 bits.

func (e *Emitter) Load(r Reg, addr uint64)   { e.ripOp(0x8b, r, addr) } // mov r, [addr]
func (e *Emitter) Store(addr uint64, r Reg)  { e.ripOp(0x89, r, addr) } // mov [addr], r
func (e *Emitter) Lea(r Reg, addr uint64)    { e.ripOp(0x8d, r, addr) }
func (e *Emitter) SubMem(r Reg, addr uint64) { e.ripOp(0x2b, r, addr) }
func (e *Emitter) CmpMem(r Reg, addr uint64) { e.ripOp(0x3b, r, addr) }
func (e *Emitter) IncMem(addr uint64)        { e.ripOp(0xff, 0, addr) } // /0
func (e *Emitter) DecMem(addr uint64)        { e.ripOp(0xff, 1, addr) } // /1
func (e *Emitter) Ldmxcsr(addr uint64)       { e.relative32(addr, 0x0f, 0xae, 0x15) }
func (e *Emitter) Frstor(addr uint64)        { e.relative32(addr, 0xdd, 0x25) } // of 108 bytes
func (e *Emitter) Jmp(addr uint64)           { e.relative32(addr, 0xe9) }
func (e *Emitter) JmpMem(addr uint64)        { e.relative32(addr, 0xff, 0x25) } // jmp [addr]
func (e *Emitter) Jnz(addr uint64)           { e.relative32(addr, 0x0f, 0x85) }

// LockNot is lock not qword [addr], which changes no register and no flag.
func (e *Emitter) LockNot(addr uint64) {
	e.Raw(0xf0)
	e.ripOp(0xf7, 2, addr) // /2
}

// Load32 is mov r32, [addr], which clears the upper half of r.
func (e *Emitter) Load32(r Reg, addr uint64) {
	e.relative32(addr, 0x40|r.rexR(), 0x8b, ripModRM(byte(r)))
}

// JnzShort is jnz addr, at most 126 bytes back.
func (e *Emitter) JnzShort(addr uint64) { e.Raw(0x75, byte(int64(addr)-int64(e.PC())-2)) }

// ripOp appends REX.W opcode with register r and the operand at addr.
func (e *Emitter) ripOp(opcode byte, r Reg, addr uint64) {
	e.relative32(addr, 0x48|r.rexR(), opcode, ripModRM(byte(r)))
}

// relative32 appends bytes and the distance to addr from their end.
func (e *Emitter) relative32(addr uint64, b ...byte) {
	e.Raw(b...)
	e.rel32(addr)
}

// ripModRM is the ModRM byte of a register and a rip-relative operand.
func ripModRM(reg byte) byte { return 0x05 | reg&7<<3 }

func (r Reg) rexR() byte { return byte(r>>3) << 2 }

// Instructions of 64-bit registers.

func (e *Emitter) Mov(dst, src Reg)      { e.regOp(src, dst, 0x89) }
func (e *Emitter) Add(dst, src Reg)      { e.regOp(src, dst, 0x01) } // never eliminated at rename
func (e *Emitter) Or(dst, src Reg)       { e.regOp(src, dst, 0x09) }
func (e *Emitter) Sub(dst, src Reg)      { e.regOp(src, dst, 0x29) }
func (e *Emitter) Imul(dst, src Reg)     { e.regOp(dst, src, 0x0f, 0xaf) }
func (e *Emitter) Dec(r Reg)             { e.regOp(1, r, 0xff) }
func (e *Emitter) AddImm8(r Reg, v int8) { e.regImm8(0, r, 0x83, byte(v)) }
func (e *Emitter) AndImm8(r Reg, v int8) { e.regImm8(4, r, 0x83, byte(v)) }
func (e *Emitter) Shl(r Reg, n byte)     { e.regImm8(4, r, 0xc1, n) }

// regOp appends REX.W opcode with reg field r and rm register m.
func (e *Emitter) regOp(r, m Reg, opcode ...byte) {
	e.Raw(0x48 | r.rexR() | byte(m>>3))
	e.Raw(opcode...)
	e.Raw(0xc0 | byte(r&7)<<3 | byte(m&7))
}

func (e *Emitter) regImm8(digit, m Reg, opcode, v byte) {
	e.regOp(digit, m, opcode)
	e.Raw(v)
}

// LoadAt is mov r, [base+disp8]; base must not be rsp or r12, which would need a SIB byte.
func (e *Emitter) LoadAt(r, base Reg, disp int8) {
	e.Raw(0x48|r.rexR()|byte(base>>3), 0x8b, 0x40|byte(r&7)<<3|byte(base&7), byte(disp))
}

// StoreAt is mov [base+disp8], r; base as for LoadAt.
func (e *Emitter) StoreAt(base Reg, disp int8, r Reg) {
	e.Raw(0x48|r.rexR()|byte(base>>3), 0x89, 0x40|byte(r&7)<<3|byte(base&7), byte(disp))
}

// StoreIndexed is mov [base+8*index], r, for the low eight registers but rbp as base.
func (e *Emitter) StoreIndexed(base, index, r Reg) {
	e.Raw(0x48, 0x89, 0x04|byte(r)<<3, 0xc0|byte(index)<<3|byte(base))
}

// LoadIndexed is mov r, [base+8*index], as StoreIndexed.
func (e *Emitter) LoadIndexed(r, base, index Reg) {
	e.Raw(0x48, 0x8b, 0x04|byte(r)<<3, 0xc0|byte(index)<<3|byte(base))
}

// JmpReg is jmp r.
func (e *Emitter) JmpReg(r Reg) {
	if r >= R8 {
		e.Raw(0x41)
	}
	e.Raw(0xff, 0xe0|byte(r&7))
}

// Instructions without operands. Lfence waits until all before it has completed locally (SDM vol. 2; on AMD Linux makes it so by
// DE_CFG bit 1). Rdpmc faults in user mode unless the kernel set CR4.PCE for the process. Fninit sets the control word to 0x37f and
// empties all registers; Fnclex does not wait for a pending exception. Vzeroall clears zmm0 to zmm15 (VEX.256.0F.WIG 77).

func (e *Emitter) Lfence()   { e.Raw(0x0f, 0xae, 0xe8) }
func (e *Emitter) Rdtsc()    { e.Raw(0x0f, 0x31) }
func (e *Emitter) Rdpmc()    { e.Raw(0x0f, 0x33) }
func (e *Emitter) Syscall()  { e.Raw(0x0f, 0x05) }
func (e *Emitter) Int3()     { e.Raw(0xcc) }
func (e *Emitter) Popf()     { e.Raw(0x9d) }
func (e *Emitter) Fninit()   { e.Raw(0xdb, 0xe3) }
func (e *Emitter) Fnclex()   { e.Raw(0xdb, 0xe2) }
func (e *Emitter) Vzeroall() { e.Raw(0xc5, 0xfc, 0x77) }

// LoadVector loads the lowest bits of a vector register, 128, 256 or 512, from addr and clears the rest, as far as the
// CPU has it.
func (e *Emitter) LoadVector(reg, bits int, f Features, addr uint64) {
	e.moveVector(0x10, reg, bits, f, addr)
}

// moveVector is movups or vmovups, whose opcodes are 10 (load) and 11 (store). The prefixes hold R and R' inverted (SDM
// vol. 2, 2.3.5 and 2.7.1).
func (e *Emitter) moveVector(opcode byte, reg, bits int, f Features, addr uint64) {
	r, high, modRM := ^byte(reg>>3)&1<<7, ^byte(reg>>4)&1<<4, ripModRM(byte(reg))
	switch {
	case reg >= 16 || bits == 512 && f.AVX512: // EVEX.512.0F.W0
		e.relative32(addr, 0x62, 0x61|r|high, 0x7c, 0x48, opcode, modRM)
	case f.AVX && bits > 128: // VEX.256.0F
		e.relative32(addr, 0xc5, 0x7c|r, opcode, modRM)
	case f.AVX:
		e.relative32(addr, 0xc5, 0x78|r, opcode, modRM)
	default:
		e.relative32(addr, 0x40|Reg(reg).rexR(), 0x0f, opcode, modRM)
	}
}

// Forward is an instruction that ends in a 32-bit distance still to come. Bind makes the next instruction its target.
type Forward int

func (e *Emitter) ForwardJz() Forward  { return e.forward(0x0f, 0x84) }
func (e *Emitter) ForwardJnz() Forward { return e.forward(0x0f, 0x85) }
func (e *Emitter) ForwardJa() Forward  { return e.forward(0x0f, 0x87) } // unsigned
func (e *Emitter) ForwardJs() Forward  { return e.forward(0x0f, 0x88) }
func (e *Emitter) ForwardJmp() Forward { return e.forward(0xe9) }

// ForwardLea loads the address into r.
func (e *Emitter) ForwardLea(r Reg) Forward { return e.forward(0x48|r.rexR(), 0x8d, ripModRM(byte(r))) }

func (e *Emitter) forward(b ...byte) Forward {
	e.Raw(b...)
	e.imm32(0)
	return Forward(len(e.code))
}

// Bind makes the next instruction the target of f.
func (e *Emitter) Bind(f Forward) {
	binary.LittleEndian.PutUint32(e.code[f-4:], uint32(len(e.code)-int(f)))
}
