package batch

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestResumeScales: resuming keeps a mark per row in memory, and no rows.
func TestResumeScales(t *testing.T) {
	const n = 40_000
	path, names := file(t), schema.Names()
	lines := make([]string, 0, n+1)
	lines = append(lines, strings.Join(names, ","))
	row := make([]string, len(names))
	row[slices.Index(names, "run")] = here().ID()
	for i := range n {
		row[0], row[slices.Index(names, "row")] = block(i), fmt.Sprint(i+1)
		lines = append(lines, strings.Join(row, ","))
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
	lines = nil
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	out, _, err := Resume(path, resultfile.CSV, schema, here())
	if err != nil || out.Earlier() != n {
		t.Fatal(out, err)
	}
	after := inUse()
	if perRow := float64(after-min(before, after)) / n; perRow > 60 {
		t.Errorf("%.0f bytes a row are kept", perRow)
	}
	require.NoError(t, end(out))
}
