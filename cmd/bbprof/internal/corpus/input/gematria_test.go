package input

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/gematria"
	"github.com/bbprof/bbprof/internal/require"
)

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
