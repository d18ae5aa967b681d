package rowflags

import (
	"io"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/internal/require"
)

// TestDistinctRows: a different address or register set makes a different block for measuring, where it matters, but
// not for predicting; there a column set may hold anything.
func TestDistinctRows(t *testing.T) {
	const rip = "488b0510000000" // mov rax, [rip+0x10]
	text := "hex,address,set\n4801c0,0x1,\n4801c0,0x2,\n4801c0,0x1,rax=1\nno block,,\n90,,train\n" + rip + ",0x1,\n" + rip + ",0x2,\n" + rip + ",0x1,\n"
	file := require.File(t, "blocks.csv", text)
	rows := require.Get(DistinctRows([]string{file}, RowsOf([]string{file}, nil, "", measuredBy),
		func(r input.Row) string { return batch.Identity(r.Code, r.At, r.Set.String()) }, io.Discard))(t)
	var got []string
	for _, r := range rows {
		b := r.Block()
		got = append(got, strings.TrimRight(strings.Join([]string{r.Hex(), string(rune('0' + *b.Setup.Address)), b.Setup.Set.String()}, " "), " "))
	}
	require.Equal(t, "rows", []string{"4801c0 1", "4801c0 1 rax=0x1", rip + " 1", rip + " 2"}, got)
	blocks := require.Get(DistinctBlocks([]string{file}, nil, "", io.Discard))(t)
	require.Equal(t, "blocks", []string{"4801c0", "90", rip}, blocks)
}
