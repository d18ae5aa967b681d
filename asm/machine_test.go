package asm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestAccessesFrom: what instructions access from one state.
func TestAccessesFrom(t *testing.T) {
	s := Machine{Regs: Regs{RIP: 0x400000, FSBase: 0x10000, GSBase: 0x20000}, Opmasks: [8]uint64{1: 0b0101, 2: 0}}
	for i := range s.GPR {
		s.GPR[i] = 0x1000 * uint64(i+1)
	}
	s.GPR[numSI], s.GPR[numDI] = 0xffffffff80000000, 0xfffffffffffff1ff
	s.Vectors[1] = [64]byte{0: 1, 4: 2, 8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 12: 4} // 1, 2, -1, 4
	s.Vectors[2] = [64]byte{3: 0x80, 15: 0x80}                                       // of 4 elements the first and the last
	for _, c := range []struct{ name, hex, want string }{
		{"mov eax, [rbx+8]", "8b4308", "4008/4r"},
		{"mov [rip+0x10], rax", "48890510000000", "400017/8w"},
		{"add fs:[0x28], eax", "6401042528000000", "10028/4rw"},
		{"lea eax, [rbx]", "8d03", ""},
		{"push rax", "50", "4ff8/8w"},
		{"xlat", "d7", "4000/1r"},
		{"bt [rbx], rcx", "480fa30b", "4400/8r"},
		{"bt dword [rbx], edi: the signed bit offset -0xe01 is in dword -0x71", "0fa33b", "3e3c/4r"},
		{"bt [rbx], 5: an immediate moves nothing", "480fba2305", "4000/8r"},
		{"mov eax, [rbx+rcx*8-8]", "8b44cbf8", "13ff8/4r"},
		{"mov eax, gs:[0x28]", "658b042528000000", "20028/4r"},
		{"a displacement alone is sign-extended", "8b042500000080", "ffffffff80000000/4r"},
		{"and truncated under 67", "678b042500000080", "80000000/4r"},
		{"67: the low half of rsi", "678b06", "80000000/4r"},
		{"then the segment's base", "67648b06", "80010000/4r"},
		{"pop [rsp]", "8f0424", "5000/8r 5008/8w"},
		{"movsq", "48a5", "ffffffff80000000/8r fffffffffffff1ff/8w"},
		{"rep stosb", "f3aa", "fffffffffffff1ff/1w"},
		{"repne scasw", "66f2af", "fffffffffffff1ff/2r"},
		{"vpgatherdd xmm0, [rbx+4*xmm1], xmm2", "c4e26990048b", "4004/4r 4010/4r"},
		{"vpgatherdd xmm0{k1}, [rbx+4*xmm1]", "62f27d0990048b", "4004/4r 3ffc/4r"},
		{"vpscatterdd [rbx+4*xmm1]{k2}, xmm0", "62f27d0aa0048b", ""},
		{"vmaskmovps xmm0, xmm2, [rbx]", "c4e2692c03", "4000/16r"},
		{"vmaskmovps xmm0, xmm3, [rbx]", "c4e2612c03", "4000/16r-"},
		{"vmovups xmm0{k1}, [rbx]", "62f17c091003", "4000/16r"},
		{"vmovups xmm0{k2}, [rbx]", "62f17c0a1003", "4000/16r-"},
	} {
		got := ""
		mustDecode(t, c.hex)[0].AccessesFrom(&s, func(a Access, m Mem, suppressed bool) {
			got += fmt.Sprintf(" %x/%d", a.Addr, a.Width)
			for i, on := range []bool{a.Read, a.Write, suppressed} {
				if on {
					got += "rw-"[i : i+1]
				}
			}
		})
		require.Equal(t, c.name, c.want, strings.TrimPrefix(got, " "))
	}
	s.GPR[1] = 0 // rcx
	for _, repeated := range []string{"f3aa", "f3a4", "f2ae"} {
		mustDecode(t, repeated)[0].AccessesFrom(&s, func(a Access, _ Mem, _ bool) { t.Errorf("%s accesses %#x in no round", repeated, a.Addr) })
	}
}
