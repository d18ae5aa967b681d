package asm

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestLeastCycles(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      float64
	}{
		{"add rax, rax", "4801c0", 1},
		{"two of them", "4801c04801c0", 2},
		{"side by side", "4801c04801c9", 1},
		{"mov eax, ecx; add ecx, eax", "89c801c1", 1},
		{"imul rax, rax", "480fafc0", 3},
		{"imul eax, ecx, 5", "6bc105", 0},
		{"imul eax, eax, 5", "6bc005", 3},
		{"add rax, 1: done at rename", "4883c001", 0},
		{"inc rax", "48ffc0", 0},
		{"and rax, 1", "4883e001", 1},
		{"xor eax, eax; add eax, ecx", "31c001c8", 0},
		{"add al, al: parts may be renamed apart", "00c0", 0},
		{"sbb eax, eax", "19c0", 0},
		{"sbb eax, ecx", "19c8", 1},
		{"adc rax, rax", "4811c0", 1},
		{"mov rax, [rax]", "488b00", 3},
		{"mov rax, [rax]; mov [rbx], rcx: it may be fed", "488b0048890b", 0},
		{"add rax, [rbx]", "480303", 1},
		{"add rax, [rax]", "480300", 1},
		{"add [rax], rax", "480100", 0},
		{"push rax; pop rax", "5058", 0},
		{"xchg rax, rcx; add rax, rcx: exchanges are not known", "48914801c8", 0},
		{"mov rdx, rax; mov rax, rcx; lea rcx, [rdx]; imul rax, rax: a chain through two iterations", "4889c24889c8488d0a480fafc0", 1.5},
		{"addps xmm0, xmm1", "0f58c1", 2},
		{"mulsd xmm0, xmm0; addsd xmm0, xmm1", "f20f59c0f20f58c1", 5},
		{"vaddps ymm0, ymm1, ymm2", "c5f458c2", 0},
		{"vfmadd231ps ymm0, ymm1, ymm2", "c4e275b8c2", 4},
		{"vaddps zmm0{k1}, zmm0, zmm1", "62f17c4958c1", 0},
		{"shl eax, cl", "d3e0", 1},
		{"test eax, eax; cmove eax, ecx", "85c00f44c1", 0},
		{"nop", "90", 0},
	} {
		require.Equal(t, c.name, c.want, LeastCycles(mustDecode(t, c.hex)))
	}
}
