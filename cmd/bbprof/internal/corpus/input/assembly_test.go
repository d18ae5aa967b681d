package input

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/internal/require"
)

// TestAssemblyColumn: a corpus may hold assembly instead of machine code; a row that does not assemble is rejected
// with the assembler's message and its line.
func TestAssemblyColumn(t *testing.T) {
	if _, err := assemble.New(); errors.Is(err, assemble.ErrMissing) {
		require.Skip(t, require.Binutils, "%v", err)
	}
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
	if _, err := assemble.New(); errors.Is(err, assemble.ErrMissing) {
		require.Skip(t, require.Binutils, "%v", err)
	}
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
