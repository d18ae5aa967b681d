package asm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecisive(t *testing.T) {
	gpr := func(regs ...Reg) (v Values) {
		for _, r := range regs {
			v.GPR |= 1 << r
		}
		return v
	}
	for _, c := range []struct {
		name, hex string
		want      Values
		memory    bool
		steps     Values
	}{
		{"add rax, rcx", "4801c8", Values{}, false, Values{}},
		{"mov rax, [rbx+rcx]", "488b040b", gpr(RBX, RCX), false, Values{}},
		{"lea rax, [rbx]", "488d03", Values{}, false, Values{}},
		{"mov [rbx], rcx", "48890b", gpr(RBX), false, Values{}},
		{"bt [rbx], rcx", "480fa30b", gpr(RBX, RCX), false, Values{}},
		{"shl rax, cl", "48d3e0", gpr(RCX), false, Values{}},
		{"shl rax, 1", "48d1e0", Values{}, false, Values{}},
		{"shlx rax, rbx, rcx", "c4e2f1f7c3", gpr(RCX), false, Values{}},
		{"div qword [rbx]", "48f733", gpr(RAX, RDX, RBX), true, Values{}},
		{"divsd xmm1, [rax]", "f20f5e08", gpr(RAX).Or(Values{Vector: 2}), true, Values{}},
		{"vsqrtpd ymm1, ymm2", "c5fd51ca", Values{Vector: 4}, false, Values{}},
		{"psllq xmm1, xmm2", "660ff3ca", Values{Vector: 4}, false, Values{}},
		{"psllq xmm1, 3", "660f73f103", Values{}, false, Values{}},
		{"pslldq xmm1, 3", "660f73f903", Values{}, false, Values{}},
		{"push rax", "50", gpr(RSP), false, gpr(RSP)},
		{"pop rax", "58", gpr(RSP), false, gpr(RSP)},
		{"pop rsp", "5c", gpr(RSP), false, Values{}},
		{"leave", "c9", gpr(RBP), false, gpr(RSP)},
		{"movsb", "a4", gpr(RSI, RDI), false, gpr(RSI, RDI)},
		{"rep stosb", "f3aa", gpr(RDI, RCX), false, gpr(RDI, RCX)},
		{"repne scasb", "f2ae", gpr(RDI, RCX, RAX), true, gpr(RDI, RCX)},
		{"xlat", "d7", gpr(RBX, RAX), false, Values{}},
		{"vpgatherdd xmm1{k1}, [rax+xmm2*4]", "62f27d09900c90", gpr(RAX).Or(Values{Vector: 4, Opmask: 2}), false, Values{}},
		{"vmovups [rax]{k1}, zmm0", "62f17c491100", gpr(RAX).Or(Values{Opmask: 2}), false, Values{}},
		{"vaddps zmm0{k1}, zmm1, zmm2", "62f1744958c2", Values{}, false, Values{}},
		{"ldmxcsr [rax]", "0fae10", gpr(RAX), true, Values{}},
		{"fdiv qword [rax]", "dc30", gpr(RAX).Or(Values{X87: true}), true, Values{}},
		{"fadd qword [rax]", "dc00", gpr(RAX), false, Values{}},
	} {
		in := one(t, c.hex)
		got, memory := in.Decisive()
		if d := cmp.Diff([]any{c.want, c.memory, c.steps}, []any{got, memory && len(in.Mem) > 0, in.Steps()}); d != "" {
			t.Errorf("%s (%s): want -, got +\n%s", c.name, in.Text(), d)
		}
	}
}
