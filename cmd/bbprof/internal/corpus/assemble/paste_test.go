package assemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/bbprof/bbprof/internal/require"
)

// A paste is a function as a tool prints it, with the hexadecimal code of the block.
type paste struct{ what, text, code string }

func pastes(t *testing.T) (all []paste) {
	t.Helper()
	for _, f := range require.Get(txtar.ParseFile("testdata/pastes.txtar"))(t).Files {
		what, code, _ := strings.Cut(f.Name, " = ")
		all = append(all, paste{what, string(f.Data), code})
	}
	return all
}

func TestPastes(t *testing.T) {
	for name, a := range assemblers(t) {
		for _, c := range pastes(t) {
			code, err := a.Block(t.Context(), c.text)
			require.NoError(t, err)
			require.Equal(t, name+": "+c.what, c.code, fmt.Sprintf("%x", code))
		}
	}
}

// TestPasteLines: a message names the line that the user sees.
func TestPasteLines(t *testing.T) {
	for name, a := range assemblers(t) {
		for _, c := range pastes(t) {
			if c.what == "objdump -d" || c.what == "gdb" || strings.Contains(c.text, "\n\t.section\t.rodata") {
				continue
			}
			line := strings.Count(c.text, "\n") + 1
			_, err := a.Block(t.Context(), c.text+"no such thing\n")
			if bad, ok := err.(*Error); !ok || bad.Line != line {
				t.Errorf("%s: %s: %v, want line %d", name, c.what, err, line)
			}
		}
	}
}

// TestSource: assembly for Mach-O, and of Intel syntax without its directive, becomes a file that as takes.
func TestSource(t *testing.T) {
	for text, want := range map[string]string{
		"f:\n\tadd rax, rbx\n":                                            ".intel_syntax noprefix; f:\n\tadd rax, rbx\n",
		"f:\n\tadd %rbx, %rax\n":                                          "f:\n\tadd %rbx, %rax\n",
		".intel_syntax noprefix\nnop\n":                                   ".intel_syntax noprefix\nnop\n",
		"\t.section __TEXT,__text,regular\n\t.att_syntax\nnop\n":          "\t.text\n\t.att_syntax\nnop\n",
		"\t.section\t__TEXT,__literal8,8byte_literals\nmovl $1, %eax\n":   "\t.section .rodata,\"a\"\nmovl $1, %eax\n",
		"\t.build_version macos, 13, 0\nret $0\n.subsections_via_symbols": "\nret $0\n\n",
	} {
		require.Equal(t, text, want, Source(text))
	}
}

// TestOperands: numbers and keywords are no symbols.
func TestOperands(t *testing.T) {
	for _, text := range []string{"mov 0x10(%rip), %rax", "add -0x8(%rbp), %eax", "mov eax, dword ptr[rbx]", "mov rax, 4[rbx]", "mov rax, fs:[rbx]", ".set N, 24; mov $N, %eax"} {
		require.Equal(t, text, text, blockOnly(text))
	}
}
