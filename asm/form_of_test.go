package asm

import "testing"

// TestFormOfInst: an instruction that a form encodes is of that form, or of one that does the same.
func TestFormOfInst(t *testing.T) {
	known, all := 0, Forms()
	for i := range all {
		f := &all[i]
		operands := f.Operands()
		values := make([]int64, len(operands))
		at := Address{Base: RSI, Index: -1}
		for k, o := range operands {
			switch {
			case o.Fixed >= 0:
				values[k] = int64(o.Fixed)
			case o.Class != ImmediateOperand:
				values[k] = int64(k + 1)
			}
			if o.Index > 0 {
				at.Index = 9
			}
		}
		code, err := f.Encode(values, at, 1)
		if err != nil {
			continue
		}
		insts, err := Decode(code)
		if err != nil || len(insts) != 1 {
			continue
		}
		if got := insts[0].Form(); got != nil && (got == FormNamed(f.Name()) || "{evex} "+got.Name() == f.Name()) {
			known++
		} else if got != nil {
			t.Errorf("%s: an instruction of it is of form %s", f.Name(), got.Name())
		} else {
			t.Logf("%s: an instruction of it is of no form", f.Name())
		}
	}
	if known < len(all)*98/100 {
		t.Errorf("%d of %d forms are recognised", known, len(all))
	}
}
