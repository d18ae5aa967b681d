package dataset

import "testing"

func TestTokens(t *testing.T) {
	for block, want := range map[string]string{
		"480344240831c0":   "add rax, qword ptr [rsp+0x8]|add r64, m64|rax rsp [rsp+0x8]|rax cf of zf;xor eax, eax|xor r32, r32||rax cf of zf",
		"5048c1e104":       "push rax|push r64|rax rsp|rsp [rsp-0x8];shl rcx, 0x4|shl r64, i|rcx|rcx cf of zf",
		"64890c25f8ffffff": "mov dword ptr fs:[0xfffffffffffffff8], ecx|mov m32, r32|rcx|[fs:-0x8]",
		"c4e249b81cc6":     "vfmadd231ps xmm3, xmm6, xmmword ptr [rsi+rax*8]|vfmadd231ps xmm, xmm, m128|rax rsi v3 v6 [rsi+rax*8]|v3",
		"480fb60d10000000": "movzx rcx, byte ptr [rip+0x10]|movzx r64, m8|[rip+0x10]|rcx",
		"480f44c1":         "cmove rax, rcx|cmove r64, r64|rax rcx zf|rax",
	} {
		if got := tokens(block); got != want {
			t.Errorf("%s: %q, want %q", block, got, want)
		}
	}
}
