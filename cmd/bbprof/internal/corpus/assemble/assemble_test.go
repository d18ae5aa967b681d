package assemble

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// assemblers returns all installed ones.
func assemblers(t *testing.T) map[string]*Assembler {
	t.Helper()
	all := map[string]*Assembler{}
	for _, tool := range []struct {
		name string
		args []string
		need require.Need
	}{
		{"as", []string{"--64"}, require.Binutils},
		{"llvm-mc", []string{"-triple=x86_64-linux-gnu", "-filetype=obj"}, require.LLVM},
	} {
		if path, err := exec.LookPath(tool.name); err == nil {
			all[tool.name] = &Assembler{path: path, name: tool.name, args: tool.args}
		}
	}
	if len(all) == 0 {
		require.Skip(t, require.Binutils, "neither as nor llvm-mc is installed")
	}
	return all
}

// TestBlocks: among others a text stands on one line, and a bad one, or one that would swallow or clash with others,
// fails alone.
func TestBlocks(t *testing.T) {
	const fails = "!"
	hex := func(code []byte, err error) string {
		if err != nil {
			return fails
		}
		return fmt.Sprintf("%x", code)
	}
	for name, a := range assemblers(t) {
		tests := [][2]string{
			{"add rax, rbx; imul rcx, rax", "4801d8480fafc8"},
			{"add %rbx, %rax; imul %rax, %rcx", "4801d8480fafc8"},
			{"mov rax, qword ptr [rbx+0x8]\nnop", "488b430890"},
			{"foo", fails},
			{"movq 8(%rbx), %rax\nnop", "488b430890"},
			{"xor $1, %eax", "83f001"},
			{"x: dec ecx; jnz x", "ffc975fc"},
			{"x: dec edx; jnz x", "ffca75fc"},
			{"1: dec rcx; jnz 1b", "48ffc975fb"},
			{"nop /* open", map[string]string{"as": "90", "llvm-mc": fails}[name]},
			{".byte 0x90, 0x90", "9090"},
			{"", fails},
			{".if 0", fails},
			{"mov eax, [rbz]", fails},
			{"vaddps zmm1, zmm2, zmm3", "62f16c4858cb"},
		}
		var texts []string
		for _, tt := range tests {
			texts = append(texts, tt[0])
		}
		results := require.Get(a.Blocks(t.Context(), texts))(t)
		for i, tt := range tests {
			require.Equal(t, name+": "+tt[0], tt[1], hex(a.Block(t.Context(), tt[0])))
			if strings.Contains(tt[0], "\n") {
				tt[1] = fails
			}
			require.Equal(t, name+", among others: "+tt[0], tt[1], hex(results[i].Code, results[i].Err))
		}
	}
}

// TestNothingStaysBehind: a running assembler has no file that would remain if bbprof were killed.
func TestNothingStaysBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, a := range assemblers(t) {
		script := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"+`test -z "$(ls -A "$TMPDIR")" && exec `+a.path+` "$@"`), 0o755))
		a.path = script
		if code, err := a.Block(t.Context(), "nop"); err != nil || len(code) != 1 {
			t.Errorf("%s: %x, %v", name, code, err)
		}
	}
}

// TestBlockErrors: the error is the assembler's message, with the text's line.
func TestBlockErrors(t *testing.T) {
	for name, a := range assemblers(t) {
		for _, tt := range []struct {
			text string
			line int
			want string
		}{
			{"nop\nfoo rax", 2, "foo"},
			{"add rax, rbz", 1, "rbz"},
			{"", 1, "no instruction"},
			{"# nothing", 1, "no instruction"},
			{"nop; .incbin \"/etc/passwd\"", 1, ".incbin"},
			{"nop\n .include \"x\"", 1, ".include"},
			{"jmp elsewhere", 1, "elsewhere"},
			{"jmp 0x1234", 1, map[string]string{"as": "a branch to the number 0x1234 leaves the block", "llvm-mc": ""}[name]},
		} {
			code, err := a.Block(t.Context(), tt.text)
			bad := (*Error)(nil)
			if !errors.As(err, &bad) || bad.Line != tt.line || !strings.Contains(bad.Message, tt.want) {
				t.Errorf("%s: %q: %x and error %v, want one on line %d with %q", name, tt.text, code, err, tt.line, tt.want)
			}
		}
	}
}

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
		{"f30f1efa", ATT, "endbr64" + mark},
		{"90c5f87790", Go, "NOPL; VZEROUPPER; NOPL"},
		{"06", Intel, ""},
	} {
		code := require.Hex(t, tt.hex)
		require.Equal(t, fmt.Sprintf("%s in %s", tt.hex, tt.syntax), tt.want, Block(code, tt.syntax))
	}
}
