package sweep

import (
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestCrossings: add rax, 1 (4 bytes), dec rcx (3), jnz (2), of which the last two may be one: where they stand across a line.
func TestCrossings(t *testing.T) {
	loop := []byte{0x48, 0x83, 0xc0, 0x01, 0x48, 0xff, 0xc9, 0x75, 0xf7}
	one := profiler.Result{Loop: &profiler.LoopReport{CopiesLong: 1}}
	f := require.Get(Of("code", profiler.Setup{}, nil, []int{23, 55, 56, 59, 60, 61}))(t)
	s := OfBlock(loop, f, []profiler.Result{one, one, one, one, one, one}, nil)
	want := map[string][]float64{
		"line_crossings":        {0, 0, 1, 1, 0, 1},
		"branch_line_crossings": {0, 0, 1, 1, 0, 0},
		"branch_32_crossings":   {1, 1, 1, 1, 0, 0},
	}
	for _, c := range s.Groups[0].Columns {
		if values, ok := want[c.Name]; ok {
			require.Equal(t, c.Name, values, c.Values)
			delete(want, c.Name)
		}
	}
	require.Equal(t, "columns that are missing", 0, len(want))

	// In a row of nine bytes each the mean of 64 copies; a block without a branch has none to cross.
	row := OfBlock(loop[:4], f, []profiler.Result{{Ran: profiler.Ran{UnrollLong: 32}}, {}, one, one, one, one}, nil)
	columns := row.Groups[0].Columns
	lines, branches := columns[len(columns)-3].Values, columns[len(columns)-2].Values
	require.Equal(t, "of a row of 4 bytes from byte 23 on", 2.0/32, lines[0])
	require.Equal(t, "that a row has in all", true, lines[1] != lines[1])
	require.Equal(t, "without a branch", 0.0, branches[2])
	if rows := OfBlock(loop[:4], Factor{Name: "copies", Values: []int{8}}, []profiler.Result{one}, nil); len(rows.Groups[0].Columns) != len(predictions) {
		t.Errorf("%d columns where the code stays: %d are predictions", len(rows.Groups[0].Columns), len(predictions))
	}
}
