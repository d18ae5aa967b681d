package hunt

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestOnlyKeepsAddresses: the remaining instructions keep their addresses, or the candidate is not tried.
func TestOnlyKeepsAddresses(t *testing.T) {
	for _, test := range []struct {
		name, block string
		kept        []int
		want        Case
	}{
		{"a rip-relative operand behind what is taken out: mov rax, [rip+0xd1f2e]; add rax, 7; mov [rip+0xd1f23], rax",
			"488b052e1f0d004883c007488905231f0d00", []int{0, 2}, Case{Hex: "488b052e1f0d00488905271f0d00"}},
		{"a pointer that was computed: lea rdi, [rsi+8]; mov [rdi], rax; mov rbx, [rsi+8]",
			"488d7e08488907488b5e08", []int{1, 2}, Case{"488907488b5e08", "rdi=0x12406688"}},
		{"a pointer that was loaded: mov rcx, [rsi]; mov rax, [rbx+rcx*8]", "488b0e488b04cb", []int{1}, Case{"488b04cb", "rcx=0x12345600"}},
		{"a pointer that moves: add rsi, 8; mov rax, [rsi]", "4883c608488b06", []int{1}, Case{}},
		{"a pointer that nobody knows: popcnt rcx, rcx; mov rax, [rcx]", "f3480fb8c9488b01", []int{1}, Case{}},
		{"an unknown pointer of its own: popcnt rcx, rcx; mov rax, [rcx]; add rdx, 1", "f3480fb8c9488b014883c201", []int{0, 1}, Case{Hex: "f3480fb8c9488b01"}},
		{"a dividend: xor edx, edx; div rcx", "31d248f7f1", []int{1}, Case{}},
		{"pushes that move by less: push rbp; push rbx; add rax, rcx; mov rdx, [rsi]", "55534801c8488b16", []int{0, 3}, Case{Hex: "55488b16"}},
		{"a push that is loaded: push rbp; push rbx; mov rdx, [rsp]", "5553488b1424", []int{1, 2}, Case{}},
		{"a register in no address: add rax, 7; imul rbx, rax", "4883c007480fafd8", []int{1}, Case{Hex: "480fafd8"}},
		{"a displacement too far: add rax, 7; mov rbx, [rip+0x7fffffff]", "4883c007488b1dffffff7f", []int{1}, Case{}},
	} {
		got := Case{}
		if b := newBlock(test.block).only(test.kept); b != nil {
			got = b.asCase()
		}
		require.Equal(t, test.name, test.want, got)
	}
}

// TestExchangedKeepsAddresses: a longer instruction moves later ones, but not their operands.
func TestExchangedKeepsAddresses(t *testing.T) {
	b := newBlock("4883c007488905231f0d00").exchanged(0, []byte{0x48, 0x05, 7, 0, 0, 0}) // add rax, 7 in six bytes
	if b == nil || b.hex != "480507000000488905211f0d00" {
		t.Errorf("got %+v", b)
	}
}
