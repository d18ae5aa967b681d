package batch

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestResumeScales: resuming keeps a mark per row in memory, and no rows.
func TestResumeScales(t *testing.T) {
	const n = 40_000
	path := file(t)
	f := require.Get(os.Create(path))(t)
	defer f.Close()
	w := require.Get(resultfile.NewWriter(f, resultfile.CSV, schema))(t)
	e := resultfile.Entry{RunID: here().ID(), RunHeader: here().String(), Tries: 1, Result: profiler.Result{
		Status: profiler.OK, Cycles: 1.25, CILow: 1.2, CIHigh: 1.3, Instructions: 4, Bytes: 9, UnrollShort: 64, UnrollLong: 256}}
	for i := range n {
		e.Row = input.Row{Number: int64(i + 1), Line: i + 1, Code: fmt.Appendf(nil, "%08d", i), Carried: []string{fmt.Sprint(i)}}
		require.NoError(t, w.Write(schema.Cells(&e)))
		e.RunHeader = ""
	}
	require.NoError(t, w.Close())
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
