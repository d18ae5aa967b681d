package assemble

import (
	"context"
	"fmt"
	"testing"
)

// TestLoopBody: a branch back to the first instruction is cut off, and any other stays for the decoder to refuse.
func TestLoopBody(t *testing.T) {
	for name, a := range assemblers(t) {
		for _, tt := range []struct{ text, want, branch string }{
			{"1: add rax, rbx; dec rcx; jnz 1b", "4801d848ffc9", "jne"},
			{".L3:\n\tadd %rbx, %rax\n\tjmp .L3\n", "4801d8", "jmp"},
			{".loop: add rax, rbx\nloop .loop", "4801d8", "loop"},
			{"x: dec rcx; .byte 0x0f, 0x85; .long x - . - 4", "48ffc9", "jne"}, // a branch of 32 bits
			{"nop; x: dec rcx; jnz x", "9048ffc975fb", ""},
			{"x: dec rcx; jnz x; nop", "48ffc975fb90", ""},
			{"dec rcx; jnz 1f; nop; 1:", "48ffc9750190", ""},
			{"x: dec rcx; call x", "48ffc9e8f8ffffff", ""},
			{"x: jmp x", "ebfe", ""},
			{"add rax, rbx", "4801d8", ""},
		} {
			code, err := a.Block(context.Background(), tt.text)
			if err != nil {
				t.Errorf("%s: %q: %v", name, tt.text, err)
				continue
			}
			if body, branch := LoopBody(code); fmt.Sprintf("%x", body) != tt.want || branch != tt.branch {
				t.Errorf("%s: %q: %x and branch %q, want %s and %q", name, tt.text, body, branch, tt.want, tt.branch)
			}
		}
	}
}
