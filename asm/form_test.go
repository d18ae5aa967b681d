package asm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestFormEncode has registers and addresses with encodings of their own; TestFormsReadBack has every form.
func TestFormEncode(t *testing.T) {
	for _, c := range []struct {
		form   string
		values []int64
		at     Address
		mask   int
		want   string
	}{
		{"add r16, i16", []int64{12, 0x1234}, Address{}, 0, "add r12w, 0x1234"},
		{"mov r8, r8", []int64{6, 3}, Address{}, 0, "mov sil, bl"},
		{"mov r64, i64", []int64{15, -2}, Address{}, 0, "mov r15, 0xfffffffffffffffe"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: R12, Index: -1}, 0, "mov rbx, qword ptr [r12]"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: R13, Index: -1}, 0, "mov rbx, qword ptr [r13]"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: NoBase, Index: -1, Disp: 8}, 0, "mov rbx, qword ptr [0x8]"},
		{"mov r64, m64", []int64{11, 0}, Address{Base: NoBase, Index: 9, Scale: 4, Disp: -8}, 0, "mov r11, qword ptr [r9*4-0x8]"},
		{"mov r64, m64", []int64{3, 0}, Address{Base: R12, Index: 5, Disp: 8, Long: true}, 0, "mov rbx, qword ptr [r12+rbp*1+0x8]"},
		{"lea r64, m", []int64{3, 0}, Address{Base: RAX, Index: 9, Scale: 8, Disp: 300}, 0, "lea rbx, [rax+r9*8+0x12c]"},
		{"addps xmm, m128", []int64{9, 0}, Address{Base: RSI, Index: -1, Disp: 64}, 0, "addps xmm9, xmmword ptr [rsi+0x40]"},
		{"{evex} vaddps xmm, xmm, xmm", []int64{17, 26, 31}, Address{}, 0, "vaddps xmm17, xmm26, xmm31"},
		{"vaddps zmm {k}{z}, zmm, m32{1to16}", []int64{1, 2, 0}, Address{Base: RSI, Index: -1, Disp: 64}, 3,
			"vaddps zmm1{k3}{z}, zmm2, dword ptr [rsi+0x40]{1to16}"},
		{"vaddps zmm, zmm, zmm, {er}", []int64{1, 2, 3}, Address{}, 0, "vaddps zmm1, zmm2, zmm3, {rn-sae}"},
		{"vpgatherdd zmm {k}, vm32z", []int64{1, 0}, Address{Base: RSI, Index: 18, Scale: 4}, 2, "vpgatherdd zmm1{k2}, dword ptr [rsi+zmm18*4]"},
	} {
		code := require.Get(FormNamed(c.form).Encode(c.values, c.at, c.mask))(t)
		require.Equal(t, fmt.Sprintf("%s: %x", c.form, code), c.want, Text(require.Get(Decode(code))(t)))
	}
	if code, err := FormNamed("kandq k, k, k").Encode([]int64{1, 9, 2}, Address{}, 0); err == nil {
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
			case MMXOperand, OpmaskOperand, X87Operand:
				values[i] = int64(i + 1)
				name := map[OperandClass]string{MMXOperand: "mm%d", OpmaskOperand: "k%d", X87Operand: "st(%d)"}
				want[i] = fmt.Sprintf(name[o.Class], i+1)
			case OtherOperand:
				values[i] = int64(i + 1)
			}
			if o.Index > 0 {
				at.Index = 14
			}
			if o.Fixed >= 0 {
				want[i] = ""
			}
		}
		code := require.Get(f.Encode(values, at, 1))(t)
		in := mustDecode(t, fmt.Sprintf("%x", code))[0]
		shown := strings.Split(in.Text(), ", ")
		for i, w := range want {
			if w != "" && (i >= len(shown) || !strings.Contains(shown[i], w)) {
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
	for code := range strings.FieldsSeq("4801c0 4c89f1 488b442418 488d7c9008 83c001 480fafc3 " +
		"c5f458c2 66410fefc0 48c1e003 0fb6c1 410fb6c0 f20f1008") {
		in := &mustDecode(t, code)[0]
		values, at, mask, ok := in.OperandValues()
		if !ok {
			t.Errorf("%s: no values", in.Text())
			continue
		}
		again := require.Get(in.Form().Encode(values, at, mask))(t)
		require.Equal(t, code, in.Text(), mustDecode(t, fmt.Sprintf("%x", again))[0].Text())
	}
	// ah, rip, fs, lock, rep, an address of 32 bits, a gather, no base
	for code := range strings.FieldsSeq("88e0 488b0510000000 64488b042528000000 f00fb10f f348ab 678b00 " +
		"c4e26990040f 8b042500100000") {
		if _, _, _, ok := mustDecode(t, code)[0].OperandValues(); ok {
			t.Errorf("%s has values", code)
		}
	}
}
