// Package forms selects instruction forms of package asm by name. asm.Form encodes them with operands of the caller's
// choice:
//
//	for _, f := range forms.Select(nil, false) {
//		code, err := f.Encode(values, address, mask) // a register or an immediate for each operand
//	}
package forms

import (
	"regexp"

	"github.com/bbprof/bbprof/asm"
)

// Select returns the forms whose mnemonic matches; nil matches all. Unless all is set, it omits forms that differ from
// another only in masking, broadcast or rounding.
func Select(match *regexp.Regexp, all bool) []asm.Form {
	var list []asm.Form
	for _, f := range asm.Forms() {
		if (all || !f.Decorated()) && (match == nil || match.MatchString(f.Mnemonic())) {
			list = append(list, f)
		}
	}
	return list
}

// Example encodes the form with a different register per operand and memory at rsi.
func Example(f *asm.Form) ([]byte, error) {
	operands := f.Operands()
	values := make([]int64, len(operands))
	at := asm.Address{Base: asm.RSI, Index: -1}
	for i, o := range operands {
		switch {
		case o.Fixed >= 0:
			values[i] = int64(o.Fixed)
		case o.Class == asm.ImmediateOperand, o.Class == asm.OtherOperand:
			values[i] = 1
		default:
			values[i] = int64(i + 1)
		}
		if o.Index > 0 {
			at.Index = len(operands) + 1
		}
	}
	return f.Encode(values, at, 1)
}
