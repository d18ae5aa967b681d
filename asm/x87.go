package asm

import (
	"math/bits"
	"slices"
	"strings"
)

// x87Effect is an instruction's net number of pushes on the x87 register stack, by mnemonic (SDM vol. 1, 8.3). Those
// that are not listed leave it alone.
var x87Effect = map[string]int{
	"fld": 1, "fild": 1, "fbld": 1, "fldz": 1, "fld1": 1, "fldpi": 1, "fldl2e": 1, "fldl2t": 1, "fldlg2": 1, "fldln2": 1,
	"fptan": 1, "fsincos": 1, "fxtract": 1, "fdecstp": 1,
	"fstp": -1, "fistp": -1, "fisttp": -1, "fbstp": -1, "fcomp": -1, "fucomp": -1, "ficomp": -1, "fcomip": -1, "fucomip": -1,
	"faddp": -1, "fsubp": -1, "fsubrp": -1, "fmulp": -1, "fdivp": -1, "fdivrp": -1, "fyl2x": -1, "fyl2xp1": -1, "fpatan": -1,
	"fincstp": -1, "ffreep": -1,
	"fcompp": -2, "fucompp": -2,
}

// x87Registers is the depth of the stack.
const x87Registers = 8

// X87Stack follows the x87 stack through a block. needs is how many registers must be filled before it, so that no
// instruction reads an empty register or pushes onto a full one; net is by how many the block leaves the stack deeper.
// steady is false if copies in a row run out of registers, or overflow them, however many are filled before.
func X87Stack(insts []Inst) (needs, net int, steady bool) {
	sets := false
	for i := range insts {
		in := &insts[i]
		sets = sets || x87Loads[in.Mnemonic] || in.raw.form.isMMX || x87Clear[in.Mnemonic]
		if in.raw.form.isX87 {
			net += x87Effect[in.Mnemonic]
		}
	}
	if sets {
		net = 0 // the same after each copy
	}
	// The stack is a ring: what a copy changes shows within eight more.
	for _, copies := range []int{x87Registers + 1, 1} {
		for needs := range x87Registers + 1 {
			if x87Runs(insts, needs, copies) {
				return needs, net, copies > 1
			}
		}
	}
	return 0, net, false
}

// x87Runs reports whether copies of a block never find an empty register where they read, nor a full one where they
// push.
func x87Runs(insts []Inst, filled, copies int) bool {
	s := x87Stack(1<<filled - 1)
	for range copies {
		for i := range insts {
			in := &insts[i]
			switch {
			case x87Loads[in.Mnemonic]:
				return true // from here on memory says what is full
			case x87Clear[in.Mnemonic]:
				s = 0
			case in.raw.form.isMMX: // marks all as full (SDM vol. 1, table 12-3)
				s = 1<<x87Registers - 1
			case in.raw.form.isX87:
				if !s.step(in) {
					return false
				}
			}
		}
	}
	return true
}

// x87Stack is the set of registers that are full: bit n is st(n).
type x87Stack uint8

// turn moves the top by n registers, down for a push.
func (s *x87Stack) turn(n int) { *s = x87Stack(bits.RotateLeft8(uint8(*s), -n)) }

func (s *x87Stack) step(in *Inst) bool {
	if reads := x87Reads(in); *s&reads != reads {
		return false
	}
	operand := x87Operand(in)
	effect := x87Effect[in.Mnemonic]
	switch in.Mnemonic {
	case "fincstp", "fdecstp":
		s.turn(-effect)
		return true
	case "ffree", "ffreep": // and ffreep pops, below
		*s &^= operand
	case "fst", "fstp":
		if len(in.Mem) == 0 {
			*s |= operand
		}
	}
	for ; effect < 0; effect++ {
		*s &^= 1
		s.turn(1)
	}
	for ; effect > 0; effect-- {
		s.turn(-1)
		if *s&1 != 0 {
			return false
		}
		*s |= 1
	}
	return true
}

// x87Operand is the operand of the register form.
func x87Operand(in *Inst) x87Stack { return 1 << (in.Bytes[len(in.Bytes)-1] & 7) }

// x87Reads are the registers that an instruction must find full.
func x87Reads(in *Inst) x87Stack {
	switch {
	case x87Blind[in.Mnemonic]:
		return 0
	case len(in.Mem) > 0 && x87Effect[in.Mnemonic] > 0: // a load
		return 0
	case len(in.Mem) > 0, in.Mnemonic == "fst", in.Mnemonic == "fstp":
		return 1
	case x87Dyadic[in.Mnemonic]:
		return 3
	case in.Mnemonic == "fld":
		return x87Operand(in)
	case in.raw.opcode == 0xd9 && in.Bytes[len(in.Bytes)-1] >= 0xd0: // no operand in ModRM
		return 1
	}
	return 1 | x87Operand(in)
}

// storesX87Pointer finds an instruction that stores the address of the last x87 instruction (FIP; SDM vol. 1, 8.1.8)
// where that is one of the block's or the prologue's: another one in each copy. After fninit, or with control
// instructions alone, it is 0. -1: there is no such depth.
func storesX87Pointer(insts []Inst) int {
	stores := slices.IndexFunc(insts, func(in Inst) bool { return x87StoresPointer[in.Mnemonic] })
	sets := slices.ContainsFunc(insts, func(in Inst) bool {
		return in.raw.form.isX87 && !x87StoresPointer[in.Mnemonic] && !x87Control[in.Mnemonic]
	})
	if stores >= 0 && !sets {
		if filled, _, _ := X87Stack(insts); filled == 0 {
			return -1
		}
	}
	return stores
}

var (
	x87StoresPointer = names("fnstenv fnsave fxsave fxsave64")
	// x87Control leave FIP alone, clear it, or load it.
	x87Control = names("fninit fnclex fldcw fnstcw fnstsw fwait fldenv frstor fxrstor fxrstor64 emms femms")
	// x87Loads let memory say which registers are full.
	x87Loads = names("frstor fldenv fxrstor fxrstor64")
	// x87Clear leave all registers empty.
	x87Clear = names("fninit fnsave emms femms")
	// x87Dyadic compute from the two topmost registers.
	x87Dyadic = names("fyl2x fyl2xp1 fpatan fscale fprem fprem1 fcompp fucompp")
	// x87Blind read no register's contents.
	x87Blind = names("fldz fld1 fldpi fldl2e fldl2t fldlg2 fldln2 fldcw fnstcw fnstsw fnstenv " +
		"fnclex fnop fneni fndisi fnsetpm frstpm fincstp fdecstp ffree ffreep fwait fxsave fxsave64")
)

func names(list string) map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		m[name] = true
	}
	return m
}
