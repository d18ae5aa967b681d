package input

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

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
