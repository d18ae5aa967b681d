package asm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func formNamed(t *testing.T, name string) Form {
	t.Helper()
	f := FormNamed(name)
	if f == nil {
		t.Fatalf("there is no form %q", name)
	}
	return *f
}

// TestFormEncode encodes forms of each kind, with registers and addresses that need each prefix bit.
func TestFormEncode(t *testing.T) {
	for _, c := range []struct {
		form   string
		values []int64
		at     Address
		mask   int
		want   string
	}{
		{"add r64, r64", []int64{0, 9}, Address{}, 0, "add rax, r9"},
		{"add r16, i16", []int64{12, 0x1234}, Address{}, 0, "add r12w, 0x1234"},
		{"mov r8, r8", []int64{6, 3}, Address{}, 0, "mov sil, bl"},
		{"mov r64, i64", []int64{15, -2}, Address{}, 0, "mov r15, 0xfffffffffffffffe"},
		{"shl r32, cl", []int64{7, 0}, Address{}, 0, "shl edi, cl"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: R12, Index: -1}, 0, "mov rbx, qword ptr [r12]"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: R13, Index: -1}, 0, "mov rbx, qword ptr [r13]"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: NoBase, Index: -1, Disp: 8}, 0, "mov rbx, qword ptr [0x8]"},
		{"mov r64, m64", []int64{11, 0}, Address{Base: NoBase, Index: 9, Scale: 4, Disp: -8}, 0, "mov r11, qword ptr [r9*4-0x8]"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: R12, Index: 5, Disp: 8, Long: true}, 0, "mov rbx, qword ptr [r12+rbp*1+0x8]"},
		{"lea r64, m", []int64{3, 0}, Address{Base: RAX, Index: 9, Scale: 8, Disp: 300}, 0, "lea rbx, [rax+r9*8+0x12c]"},
		{"addps xmm, m128", []int64{9, 0}, Address{Base: RSI, Index: -1, Disp: 64}, 0, "addps xmm9, xmmword ptr [rsi+0x40]"},
		{"vaddps ymm, ymm, ymm", []int64{1, 10, 11}, Address{}, 0, "vaddps ymm1, ymm10, ymm11"},
		{"{evex} vaddps xmm, xmm, xmm", []int64{17, 26, 31}, Address{}, 0, "vaddps xmm17, xmm26, xmm31"},
		{"vaddps zmm {k}{z}, zmm, m32{1to16}", []int64{1, 2, 0}, Address{Base: RSI, Index: -1, Disp: 64}, 3,
			"vaddps zmm1{k3}{z}, zmm2, dword ptr [rsi+0x40]{1to16}"},
		{"vaddps zmm, zmm, zmm, {er}", []int64{1, 2, 3}, Address{}, 0, "vaddps zmm1, zmm2, zmm3, {rn-sae}"},
		{"vpgatherdd zmm {k}, vm32z", []int64{1, 0}, Address{Base: RSI, Index: 18, Scale: 4}, 2, "vpgatherdd zmm1{k2}, dword ptr [rsi+zmm18*4]"},
		{"andn r64, r64, r64", []int64{8, 9, 10}, Address{}, 0, "andn r8, r9, r10"},
		{"vblendvps xmm, xmm, xmm, xmm", []int64{1, 2, 3, 14}, Address{}, 0, "vblendvps xmm1, xmm2, xmm3, xmm14"},
		{"kandq k, k, k", []int64{1, 2, 3}, Address{}, 0, "kandq k1, k2, k3"},
		{"fadd st, st(i)", []int64{0, 3}, Address{}, 0, "fadd st, st(3)"},
	} {
		f := formNamed(t, c.form)
		code, err := f.Encode(c.values, c.at, c.mask)
		if err != nil {
			t.Errorf("%s: %v", c.form, err)
			continue
		}
		insts, err := Decode(code)
		if err != nil || len(insts) != 1 {
			t.Errorf("%s: %x: %v", c.form, code, err)
			continue
		}
		require.Equal(t, fmt.Sprintf("%s: %x", c.form, code), c.want, insts[0].Text())
	}
	f := formNamed(t, "kandq k, k, k")
	if code, err := f.Encode([]int64{1, 9, 2}, Address{}, 0); err == nil {
		t.Errorf("there is no k9, but %x encodes one", code)
	}
}

// TestFormsReadBack encodes every form with registers 8 and up where the encoding allows, and holds the decoder's
// text against the form's operands, and its form against the form, but where another does the same.
func TestFormsReadBack(t *testing.T) {
	names, known := map[string]bool{}, 0
	for _, f := range Forms() {
		if names[f.Name()] {
			t.Errorf("two forms are called %s", f.Name())
		}
		names[f.Name()] = true
		operands := f.Operands()
		values, want := make([]int64, len(operands)), make([]string, len(operands))
		at := Address{Base: R9, Index: -1, Disp: 0x40}
		for i, o := range operands {
			values[i] = int64(i + 9)
			switch o.Class {
			case GPROperand:
				want[i] = gprNames[map[int]int{1: 0, 2: 1, 4: 2, 8: 3}[o.Width]][i+9]
			case VectorOperand:
				want[i] = fmt.Sprintf("%cmm%d", "xyz"[o.Width/32], i+9)
			case MMXOperand, OpmaskOperand, X87Operand, OtherOperand:
				values[i] = int64(i + 1)
			}
			if o.Index > 0 {
				at.Index = 14
			}
			if o.Fixed >= 0 {
				want[i] = ""
			}
		}
		code, err := f.Encode(values, at, 1)
		if err != nil {
			t.Errorf("%s: %v", f.Name(), err)
			continue
		}
		in := mustDecode(t, fmt.Sprintf("%x", code))[0]
		for i, w := range want {
			if !strings.Contains(in.Text(), w) {
				t.Errorf("%s: %x is %s, whose operand %d should be %s", f.Name(), code, in.Text(), i, w)
			}
		}
		switch got := in.Form(); {
		case got == nil:
			t.Logf("%s: an instruction of it is of no form", f.Name())
		case got.Name() == f.Name() || "{evex} "+got.Name() == f.Name():
			known++
		default:
			t.Errorf("%s: an instruction of it is of form %s", f.Name(), got.Name())
		}
	}
	if known < len(names)*98/100 {
		t.Errorf("%d of %d forms are recognised", known, len(names))
	}
}

// TestOperandValues: the operands of an instruction, encoded by its form, are the same text.
func TestOperandValues(t *testing.T) {
	for _, tt := range []struct {
		hex  string
		none bool
	}{
		{hex: "4801c0"}, {hex: "4c89f1"}, {hex: "488b442418"}, {hex: "488d7c9008"}, {hex: "83c001"}, {hex: "480fafc3"},
		{hex: "c5f458c2"}, {hex: "66410fefc0"}, {hex: "48c1e003"}, {hex: "0fb6c1"}, {hex: "410fb6c0"}, {hex: "f20f1008"},
		{hex: "88e0", none: true},               // ah
		{hex: "488b0510000000", none: true},     // rip
		{hex: "64488b042528000000", none: true}, // fs
		{hex: "f00fb10f", none: true},           // lock
		{hex: "f348ab", none: true},             // rep
		{hex: "678b00", none: true},             // address of 32 bits
		{hex: "c4e26990040f", none: true},       // gather
		{hex: "8b042500100000", none: true},     // no base
	} {
		in := &mustDecode(t, tt.hex)[0]
		values, at, mask, ok := in.OperandValues()
		if ok == tt.none {
			t.Errorf("%s: values are there: %t", in.Text(), ok)
		}
		if !ok {
			continue
		}
		code := require.Get(in.Form().Encode(values, at, mask))(t)
		require.Equal(t, tt.hex, in.Text(), mustDecode(t, fmt.Sprintf("%x", code))[0].Text())
	}
}
