package predict

import (
	"math"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

// TestLongestChain: the longest chain follows the latencies of single instructions.
func TestLongestChain(t *testing.T) {
	latencies := map[string]map[string]float64{
		"add r64, r64":  {"1 to 1": 1, "2 to 1": 1},
		"imul r64, r64": {"1 to 1": 3, "2 to 1": 3},
		"mov r64, m64":  {"address to 1": 4},
		"mov m64, r64":  {"2 to m": 8},
		"pop r64":       {"rsp to 1": 4, "rsp to rsp": 1},
	}
	for _, test := range []struct {
		name, hex string
		want      float64
	}{
		{"add rax, rax", "4801c0", 1},
		{"imul rax, rbx; add rbx, rax", "480fafc34801c3", 4},
		{"add rax, rcx; add rbx, rcx", "4801c84801cb", 1},
		{"mov rax, [rax]", "488b00", 4},
		{"pop rbx; pop rbp; pop r12", "5b5d415c", 0},
		{"mov rax, [rsi]; add rax, rcx; mov [rsi], rax", "488b064801c8488906", 9},
		{"mov rax, [rsi]; add rax, rcx; mov [rsi+64], rax", "488b064801c848894640", 0},
		{"xor eax, eax; add rax, rcx", "31c04801c8", 0},
	} {
		insts := require.Get(asm.DecodeHex(test.hex))(t)
		var list []map[string]float64
		for i := range insts {
			list = append(list, latencies[insts[i].Form().Name()])
		}
		if got := longestChain(insts, list); math.Abs(got-test.want) > 0.05 {
			t.Errorf("%s: %.2f cycles, want %.2f", test.name, got, test.want)
		}
	}
}
