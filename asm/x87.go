package asm

import "strings"

// x87Effect is by how much an instruction deepens the x87 register stack, by mnemonic (SDM
// vol. 1, 8.3). Those that are not listed leave it alone.
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

// X87Stack follows the x87 stack through a block. needs is how many registers must be filled
// before it, for no instruction to find an empty one; net is by how many the block leaves it
// deeper: unless that is 0, copies in a row run out of registers, or overflow them.
func X87Stack(insts []Inst) (needs, net int) {
	for i := range insts {
		in := &insts[i]
		if !in.raw.form.isX87 {
			continue
		}
		switch in.Mnemonic {
		case "fninit", "finit", "fnsave", "fsave", "frstor", "fldenv":
			return needs, 0 // sets the stack by itself
		}
		needs = max(needs, x87Reads(in)-net)
		net += x87Effect[in.Mnemonic]
	}
	return min(needs, x87Registers), net
}

// x87Reads is how many registers from the top on an instruction looks at.
func x87Reads(in *Inst) int {
	pops := max(0, -x87Effect[in.Mnemonic])
	modrm := in.Bytes[len(in.Bytes)-1]
	escape := len(in.Bytes) >= 2 && in.Bytes[len(in.Bytes)-2]&0xf8 == 0xd8
	switch {
	case len(in.Mem) > 0 && strings.HasPrefix(in.Mnemonic, "f") && x87Effect[in.Mnemonic] > 0:
		return 0 // a load
	case len(in.Mem) > 0 && controlWord[in.Mnemonic]:
		return 0
	case !escape || modrm < 0xc0 || len(in.Mem) > 0:
		return max(1, pops)
	case constant[in.Mnemonic]:
		return 0
	case in.Mnemonic == "fld", in.Bytes[len(in.Bytes)-2] != 0xd9 || modrm < 0xd0:
		return max(int(modrm&7)+1, pops) // st(i) in the low bits
	}
	return max(1, pops)
}

var (
	controlWord = map[string]bool{"fldcw": true, "fnstcw": true, "fstcw": true, "fnstsw": true, "fstsw": true, "fnstenv": true, "fstenv": true}
	constant    = map[string]bool{
		"fldz": true, "fld1": true, "fldpi": true, "fldl2e": true, "fldl2t": true, "fldlg2": true, "fldln2": true,
		"fnclex": true, "fclex": true, "fnop": true, "fnstsw": true, "fstsw": true, "fincstp": true, "fdecstp": true, "ffree": true, "ffreep": true,
	}
)
