package assemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestBlock(t *testing.T) {
	for name, a := range assemblers(t) {
		for _, tt := range []struct{ text, want string }{
			{"add rax, rbx; imul rcx, rax", "4801d8480fafc8"},
			{"add %rbx, %rax; imul %rax, %rcx", "4801d8480fafc8"},
			{"mov rax, qword ptr [rbx+0x8]\nnop", "488b430890"},
			{"movq 8(%rbx), %rax\nnop", "488b430890"},
			{"xor $1, %eax", "83f001"},
			{"1: dec rcx; jnz 1b", "48ffc975fb"},
			{".byte 0x90, 0x90", "9090"},
			{"vaddps zmm1, zmm2, zmm3", "62f16c4858cb"},
		} {
			code, err := a.Block(context.Background(), tt.text)
			if err != nil {
				t.Errorf("%s: %q: %v", name, tt.text, err)
			} else if diff := cmp.Diff(tt.want, fmt.Sprintf("%x", code)); diff != "" {
				t.Errorf("%s: %q: -want +got:\n%s", name, tt.text, diff)
			}
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
		if code, err := a.Block(context.Background(), "nop"); err != nil || len(code) != 1 {
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
			code, err := a.Block(context.Background(), tt.text)
			bad := (*Error)(nil)
			if !errors.As(err, &bad) || bad.Line != tt.line || !strings.Contains(bad.Message, tt.want) {
				t.Errorf("%s: %q: %x and error %v, want one on line %d with %q", name, tt.text, code, err, tt.line, tt.want)
			}
		}
	}
}

// TestBlocks: a bad text, or one that would swallow or clash with others, fails alone.
func TestBlocks(t *testing.T) {
	for name, a := range assemblers(t) {
		texts := []string{
			"add rax, rbx", "foo", "x: dec ecx; jnz x", "x: dec edx; jnz x", "add %rbx, %rax", "nop /* open", "ret", "",
			".if 0", "mov eax, [rbz]",
		}
		want := []string{"4801d8", "!", "ffc975fc", "ffca75fc", "4801d8", "!", "c3", "!", "!", "!"}
		results, err := a.Blocks(context.Background(), texts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, r := range results {
			if r.Err != nil {
				got = append(got, "!")
			} else {
				got = append(got, fmt.Sprintf("%x", r.Code))
			}
		}
		if name == "as" { // as warns of an open comment and assembles what precedes it
			want[5] = got[5]
		}
		require.Equal(t, name, want, got)
	}
}
