package asm

// A form is one encoding of one instruction: what the bytes must look like, and what the instruction then does. The
// tables hold one line for each family of forms (see spec.go).
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
	notREXB        bool   // the 90 of nop: not with REX.B
	agen           bool   // computes an address and does not access it: lea, nop, prefetch
	fp             bool   // may set the sticky flags of MXCSR
	aligned        bool   // demands alignment to the width of the operand in any encoding
	align          int    // demands this alignment
	unaligned      bool   // legacy SSE that does without it
	er, sae        bool   // EVEX.b rounds (suppresses exceptions) in the register form
	bIgnored       bool   // EVEX.b does nothing there
	distinct       bool   // the destination must not be a source
	cacheControl   bool   // moves lines into or out of the caches beside what it accesses
	noMask         bool   // EVEX.aaa must be 0
	broadcast      uint8  // bytes of the element that EVEX.b broadcasts; 0: not allowed
	dispScale      uint8  // N of disp8*N where it is not the width of the operand
	reads, writes  Values // registers that no operand shows
	implicit       implicitMem
	refusal        refusal
	usesVVVV       bool
	isX87          bool
	isMMX          bool
	isVec          bool
	vsib           bool
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

// field is where the encoding holds the number of a register.
type field uint8

const (
	noField  field = iota
	inReg          // ModRM.reg
	inRM           // ModRM.rm
	inVVVV         // VEX.vvvv
	inOpcode       // the low three bits of the opcode
	inImm          // imm8[7:4]
)

// operandKind is a kind of operand, by the letters of Intel SDM vol. 2, appendix A.2.1, and some of our own.
type operandKind struct {
	letters   string // in the tables
	class     OperandClass
	memory    bool // ModRM may address memory in place of the register
	field     field
	registers int    // to choose from
	name      string // of a register without its number
}

// The kinds, for decoder, encoder and text alike.
var (
	opE       = &operandKind{"E", GPROperand, true, inRM, 16, "r"}
	opR       = &operandKind{"R", GPROperand, false, inRM, 16, "r"}
	opM       = &operandKind{"M", MemoryOperand, true, noField, 0, ""}
	opG       = &operandKind{"G", GPROperand, false, inReg, 16, "r"}
	opB       = &operandKind{"B", GPROperand, false, inVVVV, 16, "r"}
	opZ       = &operandKind{"Z", GPROperand, false, inOpcode, 16, "r"}
	opA       = &operandKind{"A", GPROperand, false, noField, 0, "r"} // al, ax, eax or rax
	opV       = &operandKind{"V", VectorOperand, false, inReg, 32, ""}
	opH       = &operandKind{"H", VectorOperand, false, inVVVV, 32, ""}
	opW       = &operandKind{"W", VectorOperand, true, inRM, 32, ""}
	opU       = &operandKind{"U", VectorOperand, false, inRM, 32, ""}
	opL       = &operandKind{"L", VectorOperand, false, inImm, 16, ""}
	opVSIB    = &operandKind{"vsib", MemoryOperand, true, noField, 0, ""} // through a vector index
	opP       = &operandKind{"P", MMXOperand, false, inReg, 8, "mm"}
	opQ       = &operandKind{"Q", MMXOperand, true, inRM, 8, "mm"}
	opN       = &operandKind{"N", MMXOperand, false, inRM, 8, "mm"}
	opKReg    = &operandKind{"kg", OpmaskOperand, false, inReg, 8, "k"}
	opKVVVV   = &operandKind{"kh", OpmaskOperand, false, inVVVV, 8, "k"}
	opKMem    = &operandKind{"ke", OpmaskOperand, true, inRM, 8, "k"}
	opKRM     = &operandKind{"ku", OpmaskOperand, false, inRM, 8, "k"}
	opImm     = &operandKind{"I", ImmediateOperand, false, noField, 0, ""}  // shown unsigned in its own size
	opImmS    = &operandKind{"Is", ImmediateOperand, false, noField, 0, ""} // sign-extended to the operand size
	opRel     = &operandKind{"J", OtherOperand, false, noField, 0, "rel"}   // from the next instruction
	opMoffs   = &operandKind{"O", MemoryOperand, false, noField, 0, ""}     // at an absolute address
	opX       = &operandKind{"X", MemoryOperand, false, noField, 0, ""}     // at rsi, string operations
	opY       = &operandKind{"Y", MemoryOperand, false, noField, 0, ""}     // at rdi
	opSeg     = &operandKind{"S", OtherOperand, false, inReg, 8, "sreg"}
	opCR      = &operandKind{"C", OtherOperand, false, inReg, 16, "cr"}
	opDR      = &operandKind{"D", OtherOperand, false, inReg, 16, "dr"}
	opSTI     = &operandKind{"sti", X87Operand, false, inRM, 8, "st(i)"}
	opBound   = &operandKind{"bnd", OtherOperand, false, inReg, 8, "bnd"} // MPX
	opBoundRM = &operandKind{"bndm", OtherOperand, false, inRM, 8, "bnd"}
	opTile    = &operandKind{"tg", OtherOperand, false, inReg, 8, "tmm"} // AMX
	opTileM   = &operandKind{"te", OtherOperand, false, inRM, 8, "tmm"}
	opTileV   = &operandKind{"th", OtherOperand, false, inVVVV, 8, "tmm"}
	opFixed   = &operandKind{} // a name that the encoding does not hold: cl, dx, 1, st …
)

// operandKinds are those that the tables have letters for.
var operandKinds = []*operandKind{
	opE, opR, opM, opG, opB, opZ, opA, opV, opH, opW, opU, opL, opVSIB, opP, opQ, opN, opKReg, opKVVVV,
	opKMem, opKRM, opImm, opImmS, opRel, opMoffs, opX, opY, opSeg, opCR, opDR, opSTI, opBound, opBoundRM,
	opTile, opTileM, opTileV,
}

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
	kind   *operandKind
	size   operandSize
	access access
	index  uint8  // of a VSIB: bytes of one index element
	name   string // of a fixed operand
}

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
