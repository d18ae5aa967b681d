package asm

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestDataflow(t *testing.T) {
	gpr := func(regs ...Reg) (v Values) {
		for _, r := range regs {
			v.GPR |= 1 << r
		}
		return v
	}
	vec := func(regs ...int) (v Values) {
		for _, r := range regs {
			v.Vector |= 1 << r
		}
		return v
	}
	flags := func(f Flags) Values { return Values{Flags: f} }
	for _, c := range []struct {
		name, hex     string
		reads, writes Values
	}{
		{"add rax, rcx", "4801c8", gpr(RAX, RCX), gpr(RAX).Or(flags(AllFlags))},
		{"adc rax, rcx", "4811c8", gpr(RAX, RCX).Or(flags(Carry)), gpr(RAX).Or(flags(AllFlags))},
		{"inc rax keeps CF", "48ffc0", gpr(RAX), gpr(RAX).Or(flags(AllFlags &^ Carry))},
		{"mov eax, ecx", "89c8", gpr(RCX), gpr(RAX)},
		{"mov al, cl merges", "88c8", gpr(RAX, RCX), gpr(RAX)},
		{"mov ah, cl merges", "88cc", gpr(RAX, RCX), gpr(RAX)},
		{"xor eax, eax", "31c0", Values{}, gpr(RAX).Or(flags(AllFlags))},
		{"xor eax, ecx", "31c8", gpr(RAX, RCX), gpr(RAX).Or(flags(AllFlags))},
		{"xor al, al", "30c0", gpr(RAX), gpr(RAX).Or(flags(AllFlags))},
		{"sub rcx, rcx", "4829c9", Values{}, gpr(RCX).Or(flags(AllFlags))},
		{"cmovb rax, rcx", "480f42c1", gpr(RAX, RCX).Or(flags(Carry)), gpr(RAX)},
		{"cmova rax, rcx", "480f47c1", gpr(RAX, RCX).Or(flags(Carry | Zero)), gpr(RAX)},
		{"sete al", "0f94c0", gpr(RAX).Or(flags(Zero)), gpr(RAX)},
		{"shl rax, 1", "48d1e0", gpr(RAX), gpr(RAX).Or(flags(AllFlags))},
		{"shl rax, cl", "48d3e0", gpr(RAX, RCX).Or(flags(AllFlags)), gpr(RAX).Or(flags(AllFlags))},
		{"bt rax, rcx", "480fa3c8", gpr(RAX, RCX), flags(Carry)},
		{"mov al, spl", "4088e0", gpr(RAX, RSP), gpr(RAX)},
		{"cqo", "4899", gpr(RAX), gpr(RDX)},
		{"rep movsq", "f348a5", gpr(RSI, RDI, RCX), gpr(RSI, RDI, RCX)},
		{"stosb", "aa", gpr(RDI, RAX), gpr(RDI)},
		{"leave", "c9", gpr(RBP), gpr(RSP, RBP)},
		{"mulx rax, rcx, rdx", "c4e2f3f6c2", gpr(RDX), gpr(RAX, RCX)},
		{"cmpxchg [rbx], rcx", "480fb10b", gpr(RAX, RCX, RBX), gpr(RAX).Or(flags(AllFlags))},
		{"maskmovq mm0, mm1", "0ff7c1", gpr(RDI).Or(Values{X87: true}), Values{X87: true}},
		{"mul rcx", "48f7e1", gpr(RAX, RCX), gpr(RAX, RDX).Or(flags(AllFlags))},
		{"mov rax, [rbx+rcx]", "488b040b", gpr(RBX, RCX), gpr(RAX)},
		{"lea rax, [rbx]", "488d03", gpr(RBX), gpr(RAX)},
		{"push rax", "50", gpr(RAX, RSP), gpr(RSP)},
		{"addps xmm0, xmm1", "0f58c1", vec(0, 1), vec(0)},
		{"vaddps ymm0, ymm1, ymm2", "c5f458c2", vec(1, 2), vec(0)},
		{"sqrtsd xmm0, xmm1 merges", "f20f51c1", vec(0, 1), vec(0)},
		{"sqrtpd xmm0, xmm1", "660f51c1", vec(1), vec(0)},
		{"pxor xmm3, xmm3", "660fefdb", Values{}, vec(3)},
		{"vpxor xmm0, xmm1, xmm1", "c5f1efc1", Values{}, vec(0)},
		{"vpxor xmm0, xmm1, xmm0", "c5f1efc0", vec(0, 1), vec(0)},
		{"movaps xmm0, [rax]", "0f2800", gpr(RAX), vec(0)},
		{"movaps [rax], xmm0", "0f2900", gpr(RAX).Or(vec(0)), Values{}},
		{"cvtsi2sd xmm0, eax merges", "f20f2ac0", gpr(RAX).Or(vec(0)), vec(0)},
		{"movd eax, xmm0", "660f7ec0", vec(0), gpr(RAX)},
		{"ucomisd xmm0, xmm1", "660f2ec1", vec(0, 1), flags(AllFlags)},
		{"blendvps xmm1, xmm2, xmm0", "660f3814ca", vec(0, 1, 2), vec(1)},
		{"vaddps zmm17{k1}, zmm1, zmm2 merges", "62e1744958ca", vec(1, 2, 17).Or(Values{Opmask: 2}), vec(17)},
		{"vaddps zmm17{k1}{z}, zmm1, zmm2", "62e174c958ca", vec(1, 2).Or(Values{Opmask: 2}), vec(17)},
		{"vpgatherdd xmm1{k1}, [rax+xmm2*4]", "62f27d09900c90", gpr(RAX).Or(vec(1, 2)).Or(Values{Opmask: 2}), vec(1).Or(Values{Opmask: 2})},
		{"fadd st, st(1)", "d8c1", Values{X87: true}, Values{X87: true}},
	} {
		in := &mustDecode(t, c.hex)[0]
		reads, writes := in.Dataflow()
		require.Equal(t, fmt.Sprintf("%s (%s)", c.name, in.Text()), [2]Values{c.reads, c.writes}, [2]Values{reads, writes})
	}
}
