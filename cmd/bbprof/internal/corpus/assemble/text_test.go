package assemble

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestBlockText(t *testing.T) {
	for _, tt := range []struct {
		hex    string
		syntax Syntax
		want   string
	}{
		{"4801d8488b4308", Intel, "add rax, rbx; mov rax, qword ptr [rbx+0x8]"},
		{"4801d8488b4308", ATT, "add %rbx,%rax; mov 0x8(%rbx),%rax"},
		{"4801d8488b4308", Go, "ADDQ BX, AX; MOVQ 0x8(BX), AX"},
		{"488b83f8ffffff", ATT, "mov -0x8(%rbx),%rax"}, // x86asm's displacement is 0xfffffff8
		{"f30f1efa", ATT, "endbr64" + Mark},
		{"90c5f87790", Go, "NOPL; VZEROUPPER; NOPL"},
		{"06", Intel, ""},
	} {
		code := require.Hex(t, tt.hex)
		require.Equal(t, fmt.Sprintf("%s in %s", tt.hex, tt.syntax), tt.want, Block(code, tt.syntax))
	}
}
