package assemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// pastes are functions as tools print them, with the hexadecimal code of the block.
var pastes = map[string][2]string{
	"Compiler Explorer": {`f:
        vmovss  xmm1, dword ptr [rip + .LCPI0_0]
        vaddss  xmm0, xmm1, dword ptr [rip + .LCPI0_1]
        ret
.LCPI0_0:
        .long   0x3f800000
.LCPI0_1:
        .long   0x40000000
        .zero   4
`, "c5fa100df80f0000" + "c5f2580530100000"}, // 0x1000 and 0x1040 from the start
	"gcc -S": {"\t.file\t\"t.c\"\n\t.text\n\t.p2align 4\n\t.globl\tf\n\t.type\tf, @function\nf:\n.LFB0:\n\t.cfi_startproc\n" +
		"\taddsd\t.LC1(%rip), %xmm1\n\tret\n\t.cfi_endproc\n\t.size\tf, .-f\n\t.section\t.rodata\n.LC1:\n\t.long\t0\n\t.long\t1073217536\n", "f20f580df80f0000"},
	"Mach-O": {"\t.section\t__TEXT,__text,regular,pure_instructions\n\t.globl\t_f\n\t.p2align\t4, 0x90\n_f:\nLBB0_1:\n\taddq\t%rsi, %rax\n" +
		"\tdecq\t%rdi\n\tjne\tLBB0_1\n\tretq\n\t.subsections_via_symbols\n", "4801f048ffcf75f8"},
	"objdump -d": {"\n0000000000001149 <f>:\n    1149:\t48 01 f0             \tadd    %rsi,%rax\n    114c:\t48 ff cf             \tdec    %rdi\n" +
		"    114f:\t75 f8                \tjne    1149 <f>\n    1151:\tc3                   \tret\n", "4801f048ffcf75f8"},
	"gdb": {"Dump of assembler code for function f:\n   0x0000000000001149 <+0>:\tadd    %rsi,%rax\n   0x000000000000114c <+3>:\tdec    %rdi\n" +
		"=> 0x000000000000114f <+6>:\tjne    0x1149 <f>\n   0x0000000000001151 <+8>:\tret\nEnd of assembler dump.\n", "4801f048ffcf75f8"},
	"GCC's in Intel syntax":   {"addss xmm0, DWORD PTR .LC0[rip]\nmov rax, table[rip+8]", "f30f5805f80f0000488b0539100000"},
	"a table by its address":  {"movzx eax, BYTE PTR [rdi]\nadd DWORD PTR hist[0+rax*4], 1\nmov ebx, OFFSET hist", "0fb6078304850002002001bb00020020"},
	"the same in AT&T":        {"addl $1, hist(,%rax,4)\nmovl $other, %ebx", "8304850002002001bbc0120020"},
	"a value that is set":     {".set N, 24\n\tmovl $N, %eax\n", "b818000000"},
	"no space after ptr":      {"mov eax, dword ptr[rbx]", "8b03"},
	"a constant and no more":  {"addss xmm0, dword ptr [rip + .LC0]", "f30f5805f80f0000"},
	"a label of the block":    {"lea rax, [rip + .La]\n.La: nop", "488d050000000090"},
	"what a user aligns":      {"nop\n.p2align 2\nnop", "90" + "0f1f00" + "90"},
	"a return by itself":      {"ret", "c3"},
	"data that is the user's": {"nop\n.byte 0x90", "9090"},
}

func TestPastes(t *testing.T) {
	for name, a := range assemblers(t) {
		for what, c := range pastes {
			code, err := a.Block(t.Context(), c[0])
			require.NoError(t, err)
			require.Equal(t, name+": "+what, c[1], fmt.Sprintf("%x", code))
		}
	}
}

// TestPasteLines: a message names the line that the user sees.
func TestPasteLines(t *testing.T) {
	for name, a := range assemblers(t) {
		for what, c := range pastes {
			lines := strings.SplitAfter(strings.TrimRight(c[0], "\n"), "\n")
			if what == "objdump -d" || what == "gdb" || strings.Contains(c[0], "\n\t.section\t.rodata") {
				continue
			}
			text := strings.Join(lines, "") + "\nno such thing\n"
			_, err := a.Block(t.Context(), text)
			if bad, ok := err.(*Error); !ok || bad.Line != len(lines)+1 {
				t.Errorf("%s: %s: %v, want line %d", name, what, err, len(lines)+1)
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
