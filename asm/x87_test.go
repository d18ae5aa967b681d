package asm

import (
	"testing"

	"github.com/bbprof/bbprof/verdict"
)

func TestX87Stack(t *testing.T) {
	for _, c := range []struct {
		text, hex  string
		needs, net int
		steady     bool
	}{
		{"nothing of x87", "4801c0", 0, 0, true},
		{"fld1", "d9e8", 0, 1, false},
		{"fstp st(0)", "ddd8", 1, -1, false},
		{"fld1; fstp st(0)", "d9e8 ddd8", 0, 0, true},
		{"fstp st(0); fld1", "ddd8 d9e8", 1, 0, true},
		{"fld dword [rbx]; fadd dword [rbx]; fstp dword [rbx]", "d903 d803 d91b", 0, 0, true},
		{"fadd st, st(3)", "d8c3", 4, 0, true},
		{"fadd st, st(7)", "d8c7", 8, 0, true},
		{"fld st(0); fstp st(0)", "d9c0 ddd8", 1, 0, true},
		{"fld st(6); fstp st(0)", "d9c6 ddd8", 7, 0, true},
		{"fld st(7); fstp st(0): needs the register that it fills", "d9c7 ddd8", 0, 0, false},
		{"fst st(3): one source, and st(3) is full from then on", "ddd3", 1, 0, true},
		{"fst st(7); fld1; fstp st(0): pushes onto what it filled", "ddd7 d9e8 ddd8", 0, 0, false},
		{"fchs", "d9e0", 1, 0, true},
		{"fyl2x; fld1", "d9f1 d9e8", 2, 0, true},
		{"fpatan; fld1", "d9f3 d9e8", 2, 0, true},
		{"fprem", "d9f8", 2, 0, true},
		{"fscale", "d9fd", 2, 0, true},
		{"fptan; fstp st(0)", "d9f2 ddd8", 1, 0, true},
		{"fxch st(1)", "d9c9", 2, 0, true},
		{"fcompp; fld1; fld1", "ded9 d9e8 d9e8", 2, 0, true},
		{"faddp; fld1", "dec1 d9e8", 2, 0, true},
		{"fcmovb st, st(2)", "dac2", 3, 0, true},
		{"fist dword [rbx]", "db13", 1, 0, true},
		{"fnstcw [rbx]; fldcw [rbx]; fnstsw ax; fnclex; fnop; fwait", "d93b d92b dfe0 dbe2 d9d0 9b", 0, 0, true},
		{"fdecstp; fincstp", "d9f6 d9f7", 0, 0, true},
		{"fincstp; fld1: fills what it stepped over", "d9f7 d9e8", 0, 0, false},
		{"fld1; ffree st(0); fincstp", "d9e8 ddc0 d9f7", 0, 0, true},
		{"fld1; ffreep st(0)", "d9e8 dfc0", 0, 0, true},
		{"eight pushes, eight pops", "d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8", 0, 0, true},
		{"nine pushes, nine pops", "d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 d9e8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8 ddd8", 0, 0, false},
		{"fninit; fld1", "dbe3 d9e8", 0, 0, true},
		{"fstp st(0); fninit", "ddd8 dbe3", 1, 0, false},
		{"fld1; fnsave [rbx]", "d9e8 dd33", 0, 0, true},
		{"frstor [rbx]; fstp st(0)", "dd23 ddd8", 0, 0, true},
		{"paddb mm0, mm1; emms; fld1; fstp st(0)", "0ffcc1 0f77 d9e8 ddd8", 0, 0, true},
		{"paddb mm0, mm1; fld1; fstp st(0): mmx leaves all full", "0ffcc1 d9e8 ddd8", 0, 0, false},
		{"paddb mm0, mm1; fadd st, st(7)", "0ffcc1 d8c7", 0, 0, true},
	} {
		needs, net, steady := X87Stack(mustDecode(t, c.hex))
		if steady != c.steady || net != c.net || steady && needs != c.needs {
			t.Errorf("%s: needs %d, net %+d, steady %v; want %d, %+d, %v", c.text, needs, net, steady, c.needs, c.net, c.steady)
		}
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
