// Package forms selects instruction forms of package asm by name, and their operands.
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

// Values returns a value for each operand: the register that must stand there, or what choose says.
func Values(f *asm.Form, choose func(i int, o asm.Operand) int64) []int64 {
	operands := f.Operands()
	values := make([]int64, len(operands))
	for i, o := range operands {
		if values[i] = int64(o.Fixed); o.Fixed < 0 {
			values[i] = choose(i, o)
		}
	}
	return values
}

// Example encodes the form with a different register per operand and memory at rsi.
func Example(f *asm.Form) ([]byte, error) {
	at := asm.Address{Base: asm.RSI, Index: -1}
	values := Values(f, func(i int, o asm.Operand) int64 {
		if o.Index > 0 {
			at.Index = len(f.Operands()) + 1
		}
		if o.Class == asm.ImmediateOperand || o.Class == asm.OtherOperand {
			return 1
		}
		return int64(i + 1)
	})
	return f.Encode(values, at, 1)
}
