package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/gematria"
	"github.com/bbprof/bbprof/internal/require"
)

// TestAssemblyColumn: a corpus may hold assembly instead of machine code; a row that does not assemble is rejected
// with the assembler's message and its line.
func TestAssemblyColumn(t *testing.T) {
	require.Tool(t, require.Binutils, "as", "llvm-mc")
	for _, tt := range []struct{ text, want string }{
		{"asm\nadd rax, rbx\n\n# c\nfoo\n\"imul rcx, rax; nop\"\n", "2:4801d8 5:foo 6:480fafc890"},
		{"id,ASM\n1,\"add rax, rbx\"\n2,\"add %rbx, %rax\"\n3,\n4\n", "2:4801d8 3:4801d8 4:no instruction 5:no instruction"},
		{"hex,asm\n90,\"add rax, rbx\"\n", "2:90"},
		{"asm\nnop", "2:90"},
	} {
		in := require.Get(Open([]string{"-"}, strings.NewReader(tt.text), "", nil))(t)
		var got []string
		for row, err := in.Next(); !errors.Is(err, io.EOF); row, err = in.Next() {
			require.NoError(t, err)
			what := fmt.Sprintf("%x", row.Code)
			for _, word := range []string{"foo", "no instruction"} {
				if row.Rejection != nil && strings.Contains(row.Rejection.Detail, word) {
					what = word
				}
			}
			got = append(got, fmt.Sprintf("%d:%s", row.Line, what))
		}
		require.Equal(t, tt.text, tt.want, strings.Join(got, " "))
	}
}

// TestAssemblyDoesNotWait: a row from a pipe is returned before the next arrives.
func TestAssemblyDoesNotWait(t *testing.T) {
	require.Tool(t, require.Binutils, "as", "llvm-mc")
	r, w := io.Pipe()
	defer w.Close()
	go fmt.Fprint(w, "asm\nnop\n")
	read := make(chan Row, 1)
	go func() {
		in, err := Open([]string{"-"}, r, "", nil)
		if err == nil {
			row, _ := in.Next()
			read <- row
		}
	}()
	select {
	case row := <-read:
		require.Equal(t, "it", []byte{0x90}, row.Code)
	case <-time.After(30 * time.Second):
		t.Error("a row that is there is not given out")
	}
}

// TestGematria: Gematria's files are corpora. An annotated block starts from its state, except for flags, MXCSR
// and the x87 unit.
func TestGematria(t *testing.T) {
	annotated := gematria.Annotated{Hex: "488b03", Size: 4096, Fill: 0x100, Pages: []uint64{0x1000}, Registers: []gematria.Register{
		{Name: "RBX", Value: 0x2000}, {Name: "XMM3", Value: 7}, {Name: "FS", Value: 0x3000}, {Name: "EFLAGS"},
		{Name: "MXCSR", Value: 0}, {Name: "FP0", Value: 1}}}
	measured := gematria.Throughput{Source: "m: x", Cycles: []float64{1, 1.5},
		Instructions: []gematria.Instruction{{Code: []byte{0x48, 0x01}}, {Code: []byte{0xc0}}}}
	const set = "rbx=0x2000;xmm3=0x7;fs_base=0x3000;fill=0x100"
	whole := string(gematria.AppendRecord(nil, measured.Message()))
	for name, c := range map[string]struct{ file, want string }{ // set, source and cycles
		"annotated":  {string(gematria.AppendRecord(nil, annotated.Message())), "488b03=488b03|" + set + "||"},
		"throughput": {whole, "4801c0=4801c0||m: x|1 1.5"},
	} {
		in := require.Get(Open([]string{"-"}, strings.NewReader(c.file), "", nil))(t)
		require.Equal(t, name, c.want, strings.Join(readAll(t, in), "\n"))
	}
	for name, c := range map[string]struct{ file, says string }{
		"cut short":    {whole + whole[:20], "record 2 of the TFRecord file is damaged"},
		"another kind": {string(gematria.AppendRecord(nil, []byte("text"))), "not a Protocol Buffers message"},
	} {
		in, err := Open([]string{"-"}, strings.NewReader(c.file), "", nil)
		for err == nil {
			_, err = in.Next()
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, c.says)
		}
	}
}

// TestGematriaNames: a block with an unknown register becomes a row with a reason and does not end the input.
func TestGematriaNames(t *testing.T) {
	file := gematria.AppendRecord(nil, gematria.Annotated{Hex: "90", Registers: []gematria.Register{{Name: "TMM0", Value: 1}}}.Message())
	file = gematria.AppendRecord(file, gematria.Annotated{Hex: "91"}.Message())
	in := require.Get(Open([]string{"-"}, bytes.NewReader(file), "", []string{"set"}))(t)
	require.Equal(t, "rows", "90!bad_set|| 91=91||", strings.Join(readAll(t, in), " "))
}

// TestSnippet: a snippet of llvm-exegesis is a corpus of one row, which starts as its annotations say.
func TestSnippet(t *testing.T) {
	require.Tool(t, require.Binutils, "as")
	const text = "# LLVM-EXEGESIS-DEFREG RBX 12346000\n# LLVM-EXEGESIS-MEM-DEF M 4096 0000000012345600\n# LLVM-EXEGESIS-MEM-MAP M 305422336\n" +
		"# LLVM-EXEGESIS-SNIPPET-ADDRESS 401136\nmovq (%rbx), %rax\n"
	for _, text := range []string{text, "\n.intel_syntax noprefix\n" + strings.Replace(text, "movq (%rbx), %rax", "mov rax, qword ptr [rbx]", 1)} {
		in := require.Get(Open([]string{"-"}, strings.NewReader(text), "", []string{"hex", "set"}))(t)
		row := require.Get(in.Next())(t)
		require.Equal(t, "row", []string{"488b03", "rbx=0x12346000,fill=0x12345600", "0x401136"}, append([]string{row.Hex(), row.Set.String()}, row.Carried...))
		if row.At == nil || *row.At != 0x401136 {
			t.Errorf("it stands at %v", row.At)
		}
		require.Equal(t, "rows after it", 0, len(readAll(t, in)))
	}
	for text, says := range map[string]string{
		"# LLVM-EXEGESIS-LIVEIN RDI\nfoo\n": "line 2: as: ",
		"# LLVM-EXEGESIS-MEM-DEF M 3 010203\n# LLVM-EXEGESIS-MEM-MAP M 8\nnop\n": "memory holds several values, and a " +
			"row has one that fills all; measure it with bbprof -asm -",
		"# other\n# LLVM-EXEGESIS-LIVEIN RDI\n": "no instruction",
	} {
		_, err := Open([]string{"-"}, strings.NewReader(text), "", nil)
		require.Fails(t, text, err, says)
	}
}
