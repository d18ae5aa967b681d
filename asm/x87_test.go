package asm

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestX87Stack(t *testing.T) {
	for _, row := range require.Table(t, "x87.txt") {
		needs, net, steady := X87Stack(mustDecode(t, row[0]))
		got := []string{row[0], fmt.Sprint(needs), fmt.Sprint(net), "steady", row[4]}
		if !steady {
			got[1], got[3] = "", "unsteady"
		}
		require.Equal(t, row[4], row, got)
	}
}

// The address of an x87 instruction is another in each copy; where none has left its own, or nothing stores it, there
// is nothing to refuse.
func TestX87Pointer(t *testing.T) {
	for _, c := range []struct {
		text, hex string
		index     int // of the refused instruction, -1 for none
	}{
		{"fnstenv [rbx]", "d933", -1},
		{"fninit; fnstenv [rbx]", "dbe3 d933", -1},
		{"fldcw [rbx]; fnsave [rbx]", "d92b dd33", -1},
		{"fldenv [rbx]; fnstenv [rbx]", "d923 d933", -1},
		{"fld1; fstp st(0)", "d9e8 ddd8", -1},
		{"fld1; fstp st(0); fnstenv [rbx]", "d9e8 ddd8 d933", 2},
		{"fnstenv [rbx]; fld1; fstp st(0)", "d933 d9e8 ddd8", 0},
		{"fnsave [rbx]; fld1; fstp st(0)", "dd33 d9e8 ddd8", 0},
		{"fxsave [rbx]; fld1; fstp st(0)", "0fae03 d9e8 ddd8", 0},
		{"fxsave64 [rbx]; fld1; fstp st(0)", "480fae03 d9e8 ddd8", 0},
		{"pxor mm0, mm0; fxsave [rbx]", "0fefc0 0fae03", -1},
	} {
		insts := mustDecode(t, c.hex)
		r := Refuse(insts)
		switch {
		case c.index < 0 && r != nil:
			t.Errorf("%s: %v", c.text, r)
		case c.index >= 0 && (r == nil || r.Reason != verdict.Nondeterministic || r.Inst.Index != c.index):
			t.Errorf("%s: %v, want instruction %d refused", c.text, r, c.index)
		}
	}
}
