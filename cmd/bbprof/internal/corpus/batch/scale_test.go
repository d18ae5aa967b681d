package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestResumeScales: resuming keeps a mark per row in memory, and no rows.
func TestResumeScales(t *testing.T) {
	const n = 10_000
	path, names := file(t), schema.Names()
	lines := []string{strings.Join(names, ",")}
	row := make([]string, len(names))
	row[slices.Index(names, "run")] = here().ID()
	for i := range n {
		row[0], row[1], row[slices.Index(names, "row")] = block(i), "error", fmt.Sprint(i+1)
		lines = append(lines, strings.Join(row, ","))
	}
	writeFile(t, path, strings.Join(lines, "\n")+"\n")
	lines = nil
	before := inUse()
	out, _ := require.Get2(Resume(path, resultfile.CSV, schema, here()))(t)
	require.Equal(t, "rows", int64(n), out.Earlier())
	if perRow := float64(inUse()-before) / n; perRow > 60 {
		t.Errorf("%.0f bytes a row are kept", perRow)
	}
	require.NoError(t, end(out))
}
