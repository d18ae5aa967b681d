package asm

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestCategoryOf(t *testing.T) {
	const (
		add   = "4801d8"   // add rax, rbx
		load  = "488b03"   // mov rax, [rbx]
		store = "488903"   // mov [rbx], rax
		both  = "48ff03"   // inc qword ptr [rbx]
		paddd = "660ffec1" // paddd xmm0, xmm1
		addsd = "f20f58c1" // addsd xmm0, xmm1
		movr  = "4889d8"   // mov rax, rbx
		movx  = "0f28c1"   // movaps xmm0, xmm1
		pmovm = "660fd7c1" // pmovmskb eax, xmm1
	)
	for _, test := range []struct {
		name, code string
		want       Category
	}{
		{"nothing", "", ""},
		{"one add", add, Scalar},
		{"half of two instructions load", add + load, Load},
		{"a third load", add + add + load, Scalar},
		{"half store", add + store, Store},
		{"one access in three is a store", load + load + store, Load},
		{"two in five are stores", load + load + load + store + store, LoadStore},
		{"one access in three is a load", load + store + store, Store},
		{"read and written", both, LoadStore},
		{"push stores", "50", Store},
		{"pop loads", "58", Load},
		{"lea computes", "488d0411", Scalar},
		{"vectors", paddd + paddd + load, Vector},
		{"scalar floating point works on vector registers", addsd, Vector},
		{"both", paddd + add, ScalarVector},
		{"a move does not make a vector block mixed", paddd + movr, Vector},
		{"nor a scalar one", add + movx, Scalar},
		{"moves alone", movx + movr, ScalarVector},
		{"a mask taken from a vector is computed", pmovm, Vector},
		{"MMX", "0ffec1", Vector},
		{"x87 is scalar", "d8c1", Scalar},
	} {
		require.Equal(t, test.name, test.want, CategoryOf(mustDecode(t, test.code)))
	}
}

func TestConstant(t *testing.T) {
	for code, want := range map[string]bool{
		"4801d8": false, "83c001": true, "c1e001": true, "d1e0": false, "837c241005": true, "48b80000000000000070": true, "c5f8c6c101": true, "8b442410": false,
	} {
		_, ok := mustDecode(t, code)[0].Constant()
		require.Equal(t, code, want, ok)
	}
}

func TestShape(t *testing.T) {
	for _, test := range []struct{ code, want string }{
		{"4801d8", "add r64, r64"},
		{"480303", "add r64, m64"},
		{"0103", "add m32, r32"},
		{"83c001", "add r32, i"},
		{"488d0411", "lea r64, m"},
		{"50", "push r64"},
		{"c5f458c2", "vaddps ymm, ymm, ymm"},
		{"c5fc5803", "vaddps ymm, ymm, m256"},
		{"62f17cc95803", "vaddps zmm{k}, zmm, m512"},
		{"f348a5", "rep movs m64, m64"},
		{"f0480103", "lock add m64, r64"},
		{"48d3e0", "shl r64, cl"},
		{"d8c1", "fadd st, st(i)"},
		{"90", "nop"},
	} {
		insts := mustDecode(t, test.code)
		require.Equal(t, test.code, test.want, insts[0].Shape())
	}
}
