package asm

import "fmt"

// Register names what an address or a mask is taken from: a general register, rip, the low byte of rax (xlat), a
// vector register (the index of a gather, the mask of a vmaskmov) or an opmask register. The zero value is none.
type Register uint8

const (
	NoRegister Register = 0
	firstGPR   Register = 1  // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15
	RIP        Register = 17 // the address of the next instruction
	AL         Register = 18 // the low byte of rax, zero-extended
	firstVec   Register = 19 // xmm0, ymm0 or zmm0, and so on to 31
	firstMask  Register = 51 // k0 … k7
	firstMMX   Register = 59 // mm0 … mm7
)

// GPR is the general register with hardware number n, 0 (rax) to 15 (r15).
func GPR(n int) Register { return firstGPR + Register(n&15) }

// Hardware numbers of the general registers that instructions use without naming them.
const (
	numAX = 0
	numCX = 1
	numDX = 2
	numBX = 3
	numSP = 4
	numBP = 5
	numSI = 6
	numDI = 7
)

// GPR is the hardware number of a general register, Vector the number of a vector register, 0 to 31, and Opmask that
// of an opmask register; ok is false for any other.
func (r Register) GPR() (n int, ok bool)    { return r.between(firstGPR, RIP) }
func (r Register) Vector() (n int, ok bool) { return r.between(firstVec, firstMask) }
func (r Register) Opmask() (n int, ok bool) { return r.between(firstMask, firstMMX) }

func (r Register) between(first, end Register) (n int, ok bool) {
	if r < first || r >= end {
		return 0, false
	}
	return int(r - first), true
}

func (r Register) String() string {
	switch {
	case r == NoRegister:
		return "none"
	case r == RIP:
		return "rip"
	case r == AL:
		return "al"
	case r >= firstMMX:
		return fmt.Sprintf("mm%d", r-firstMMX)
	case r >= firstMask:
		return fmt.Sprintf("k%d", r-firstMask)
	case r >= firstVec:
		return fmt.Sprintf("v%d", r-firstVec)
	}
	return gprNames[3][r-firstGPR]
}

// Segment is the base that is added to an address. In 64-bit mode only fs and gs have one.
type Segment uint8

const (
	NoSegment Segment = iota
	FS
	GS
)

// Repeat says how a string instruction repeats its accesses.
type Repeat uint8

const (
	Once       Repeat = iota
	Rep               // rcx times
	RepEqual          // at most rcx times, until an element differs (repe cmps, scas)
	RepUnequal        // at most rcx times, until an element is equal
)

// Mem is one memory access of an instruction, or one family of like accesses (the elements of a gather, the rounds of
// a rep movs).
type Mem struct {
	Base, Index Register
	Segment     Segment
	Scale       uint8 // 1, 2, 4 or 8; 0 without an index
	AddrSize    uint8 // 64, or 32 where a 67 prefix truncates the address before the segment's base is added

	// Disp is sign-extended, EVEX's compressed form already scaled. The stack operand of a push is at rsp-8 of before
	// the instruction, so Disp is -8 there; pop to memory computes its address from the incremented rsp, so 8 is in
	// its Disp where rsp is the base.
	Disp int64

	Width       int  // bytes accessed: of one element for a gather, scatter, broadcast or string operation
	Read, Write bool // both for a read-modify-write
	Implicit    bool // not spelled as an operand with ModRM: stack, string operations, xlat, maskmov …

	// Bits is the operand size in bits of bt, bts, btr and btc with a register BitOffset, which moves the address by
	// that many bits, rounded down to the operand size.
	Bits      uint8
	BitOffset Register

	// String: after each access the pointer moves by Width, downwards when DF is set, and the instruction makes as
	// many as Repeat says, counting in rcx (ecx under a 67 prefix).
	String bool
	Repeat Repeat

	// Elements is the number of elements of a gather or scatter, 0 for anything else; IndexSize is the size in bytes
	// of each one's index in the vector register Index.
	Elements  int
	IndexSize uint8

	// Mask suppresses accesses: an opmask, or for vmaskmov, maskmovdqu and AVX2 gathers a vector (or MMX) register,
	// whose elements' top bits enable. NoRegister: all are made. A masked access touches some of its Width bytes, or
	// none and does not fault.
	Mask Register

	// lanes is the number of elements of the mask, 0 if unknown.
	lanes uint8
}

// GPRs are the general registers of the address, as in Values.
func (m Mem) GPRs() (set uint16) {
	for _, r := range []Register{m.Base, m.Index} {
		if n, ok := r.GPR(); ok {
			set |= 1 << n
		}
	}
	return set
}

// Regs holds the registers from which addresses are computed.
type Regs struct {
	GPR            [16]uint64 // by hardware number: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 …
	RIP            uint64     // of the next instruction
	FSBase, GSBase uint64
}

// Addr is the linear address of the access, given the registers as they are before the instruction. It is that of the
// first round of a string operation, and for a gather or scatter that of an element with an index of 0.
func (m Mem) Addr(regs *Regs) uint64 {
	var bits uint64
	if n, ok := m.BitOffset.GPR(); ok {
		bits = regs.GPR[n]
	}
	return m.linear(m.offset(regs), bits, regs)
}

// offset is base, index and displacement together.
func (m Mem) offset(regs *Regs) uint64 {
	addr := uint64(m.Disp)
	if n, ok := m.Base.GPR(); ok {
		addr += regs.GPR[n]
	} else if m.Base == RIP {
		addr += regs.RIP
	}
	if n, ok := m.Index.GPR(); ok {
		addr += regs.GPR[n] * uint64(m.Scale)
	} else if m.Index == AL {
		addr += regs.GPR[numAX] & 0xff
	}
	return m.truncated(addr)
}

// linear adds a bit offset and the segment's base.
func (m Mem) linear(offset, bits uint64, regs *Regs) uint64 {
	if m.BitOffset != NoRegister {
		offset = m.truncated(offset + bitDisplacement(bits, m.Bits))
	}
	switch m.Segment {
	case FS:
		return offset + regs.FSBase
	case GS:
		return offset + regs.GSBase
	}
	return offset
}

// truncated is an offset, or a count, within the address size.
func (m Mem) truncated(v uint64) uint64 {
	if m.AddrSize == 32 {
		return uint64(uint32(v))
	}
	return v
}

// bitDisplacement is how far bt with a register moves: the signed offset in whole operands, as bytes (Intel SDM vol.
// 2, BT: "effective address + (4 * (BitOffset DIV 32))").
func bitDisplacement(offset uint64, bits uint8) uint64 {
	return uint64(signExtend(offset, int(bits)) &^ int64(bits-1) >> 3)
}

// signExtend is the number in the lowest bits of v.
func signExtend(v uint64, bits int) int64 { return int64(v<<(64-bits)) >> (64 - bits) }
