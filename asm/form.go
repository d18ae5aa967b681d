package asm

// A form is one encoding of one instruction: what the bytes must look like, and what the
// instruction then does. The tables hold one line for each family of forms (see spec.go).
type form struct {
	name    string
	byWidth []string // names by operand size 16, 32, 64, where it alone tells them apart
	prefix  mandatory
	w       int8    // REX.W, VEX.W or EVEX.W; -1: either
	lengths uint8   // bit l is set when vector length l (128 << l) is allowed
	digit   int8    // ModRM.reg, where it is part of the opcode; else -1
	modrm   int16   // the whole ModRM byte, where it is; else -1
	mod     modKind // whether ModRM may name memory, a register or either
	ops     []operand

	hasModRM       bool
	notREXB        bool  // the 90 of nop: not with REX.B
	agen           bool  // computes an address and does not access it: lea, nop, prefetch
	fp             bool  // may set the sticky flags of MXCSR
	aligned        bool  // demands alignment to the width of the operand in any encoding
	align          int   // demands this alignment
	unaligned      bool  // legacy SSE that does without it
	er, sae        bool  // EVEX.b rounds (suppresses exceptions) in the register form
	bIgnored       bool  // EVEX.b does nothing there
	distinct       bool  // the destination must not be a source
	cacheControl   bool  // moves lines into or out of the caches beside what it accesses
	noMask         bool  // EVEX.aaa must be 0
	broadcast      uint8 // bytes of the element that EVEX.b broadcasts; 0: not allowed
	dispScale      uint8 // N of disp8*N where it is not the width of the operand
	reads          gprSet
	writes         gprSet
	implicit       implicitMem
	refusal        refusal
	usesVVVV       bool
	isX87          bool
	isMMX          bool
	isVec          bool
	vsib           bool
	writesMask     bool
	namesMask      bool // has an opmask for an operand
	maskedByVector bool // vmaskmov: the top bits of vvvv's elements enable
	bitOffset      bool // bt, btc, btr and bts with a register, which may point beyond the operand
}

type encoding uint8

const (
	encLegacy encoding = iota
	encVEX
	encEVEX
	numEncodings
)

// mandatory is the prefix that selects among instructions with one opcode.
type mandatory uint8

const (
	anyPrefix mandatory = iota // none selects: 66 is the operand size, f2 and f3 repeat or do nothing
	noPrefix
	prefix66
	prefixF3
	prefixF2
	noRepeat // neither f2 nor f3; 66 is the operand size
)

type modKind uint8

const (
	modAny modKind = iota
	modMem
	modReg
	modIgnored // always a register, whatever mod says: mov to and from cr and dr
)

// operandKind is where an operand is encoded, by the letters of Intel SDM vol. 2,
// appendix A.2.1, and some of our own.
type operandKind uint8

const (
	opNone    operandKind = iota
	opE                   // E: general register or memory, ModRM.rm
	opR                   // R: general register, ModRM.rm
	opM                   // M: memory, ModRM.rm
	opG                   // G: general register, ModRM.reg
	opB                   // B: general register, VEX.vvvv
	opZ                   // Z: general register, low three bits of the opcode
	opA                   // A: al, ax, eax or rax
	opV                   // V: vector register, ModRM.reg
	opH                   // H: vector register, VEX.vvvv
	opW                   // W: vector register or memory, ModRM.rm
	opU                   // U: vector register, ModRM.rm
	opL                   // L: vector register, imm8[7:4]
	opVSIB                // memory through a vector index
	opP                   // P: MMX register, ModRM.reg
	opQ                   // Q: MMX register or memory, ModRM.rm
	opN                   // N: MMX register, ModRM.rm
	opKReg                // opmask register, ModRM.reg
	opKVVVV               // opmask register, VEX.vvvv
	opKMem                // opmask register or memory, ModRM.rm
	opKRM                 // opmask register, ModRM.rm
	opImm                 // immediate, shown unsigned in its own size
	opImmS                // immediate, sign-extended to the operand size
	opRel                 // displacement from the next instruction
	opMoffs               // memory at an absolute address
	opX                   // memory at rsi, string operations
	opY                   // memory at rdi, string operations
	opSeg                 // segment register, ModRM.reg
	opCR                  // control register, ModRM.reg
	opDR                  // debug register, ModRM.reg
	opSTI                 // x87 register, ModRM.rm
	opBound               // MPX register, ModRM.reg
	opBoundRM             // MPX register, ModRM.rm
	opTile                // AMX register, ModRM.reg
	opTileM               // AMX register, ModRM.rm
	opTileV               // AMX register, VEX.vvvv
	opFixed               // a name that the encoding does not hold: cl, dx, 1, st …
)

// operandSize is a size in bytes, or a letter for one that other parts decide.
type operandSize uint16

const (
	sizeV   operandSize = 0x8000 + iota // 2, 4 or 8: the operand size
	sizeZ                               // 2 or 4: the operand size, no wider than 4
	sizeY                               // 4 or 8 by W
	sizeU                               // 2 or 8: the stack's operand size
	sizeX                               // the vector length
	sizeH                               // half of it
	sizeF                               // a quarter
	sizeE                               // an eighth
	sizeP                               // a far pointer: operand size and 2
	sizeEnv                             // x87 environment, 14 or 28
	sizeFPU                             // x87 state, 94 or 108
)

type access uint8

const (
	accRead  access = 1
	accWrite access = 2
	accBoth  access = accRead | accWrite
)

type operand struct {
	kind   operandKind
	size   operandSize
	access access
	index  uint8  // of a VSIB: bytes of one index element
	name   string // of a fixed operand
}

func (k operandKind) isMemory() bool {
	switch k {
	case opE, opM, opW, opQ, opKMem, opVSIB:
		return true
	}
	return false
}

func (k operandKind) usesModRM() bool {
	switch k {
	case opR, opG, opV, opU, opP, opN, opKReg, opKRM, opSeg, opCR, opDR, opSTI, opBound, opBoundRM, opTile, opTileM:
		return true
	}
	return k.isMemory()
}

// gprSet has bit n set for the general register with hardware number n.
type gprSet uint16

// implicitMem is memory that an instruction accesses without an operand that says so.
type implicitMem uint8

const (
	implicitNone    implicitMem = iota
	implicitPush                // [rsp-size], after the explicit operand
	implicitPop                 // [rsp], before the explicit operand
	implicitXlat                // [rbx+al]
	implicitLeave               // [rbp]
	implicitMaskmov             // [rdi], masked
	implicitMovdir              // 64 bytes at the register operand (movdir64b)
)
