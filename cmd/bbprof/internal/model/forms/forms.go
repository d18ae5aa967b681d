// Package forms chooses among the instruction forms of package asm: those that a name matches and those
// that this CPU runs. asm.Form encodes them with operands of the caller's choice:
//
//	for _, f := range forms.Select(nil, false) {
//		code, err := f.Encode(values, address, mask) // a register or an immediate for each operand
//	}
package forms

import (
	"context"
	"regexp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Select gives the forms whose mnemonic matches, all if match is nil. Unless all, it leaves out those that
// differ from another in masking, broadcast or rounding alone.
func Select(match *regexp.Regexp, all bool) []asm.Form {
	var list []asm.Form
	for _, f := range asm.Forms() {
		if (all || !f.Decorated()) && (match == nil || match.MatchString(f.Mnemonic())) {
			list = append(list, f)
		}
	}
	return list
}

// Profiler measures blocks. A *profiler.Profiler is one.
type Profiler interface {
	Profile(context.Context, profiler.Block) (profiler.Result, error)
}

// Example is an instruction of the form: other registers for each operand, memory at rsi.
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

// Supported reports of each form whether this CPU has the instruction: whether an example of it runs
// without raising #UD. Forms that bbprof refuses are not supported.
func Supported(ctx context.Context, p Profiler, list []asm.Form) ([]bool, error) {
	has := make([]bool, len(list))
	for i := range list {
		f := &list[i]
		if reason, _ := f.Refused(); reason != "" {
			continue
		}
		code, err := Example(f)
		if err != nil {
			return nil, err
		}
		r, err := p.Profile(ctx, profiler.Block{Code: code})
		if err != nil {
			return nil, err
		}
		has[i] = r.Status != profiler.Failed && (r.Rejection == nil || r.Rejection.Reason != verdict.SIGILL && r.Rejection.Reason != verdict.UnsupportedISA)
	}
	return has, nil
}
