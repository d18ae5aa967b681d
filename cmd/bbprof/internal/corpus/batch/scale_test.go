package batch

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// synthetic writes a result of n rows, as a run would.
func synthetic(t testing.TB, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "result.csv")
	require.NoError(t, Synthesise(path, n))
	return path
}

// Synthesise writes n rows that were never measured.
func Synthesise(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := resultfile.NewLines(resultfile.CSV, schema)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	w.Write(lines.Header())
	e := resultfile.Entry{RunID: here().ID(), RunHeader: here().String(), Tries: 1, Result: profiler.Result{
		Status: profiler.OK, Cycles: 1.25, CILow: 1.2, CIHigh: 1.3, Instructions: 4, Bytes: 9, UnrollShort: 64, UnrollLong: 256,
		SamplesKept: 64, WindowsKept: 8, Mode: profiler.Unroll, FrontEnd: profiler.OpCache, PaperVerdict: "ok"}}
	var line []byte
	for i := range n {
		e.Row.Number, e.Row.Line = int64(i+1), i+1
		e.Row.Code = fmt.Appendf(nil, "%08d", i)
		e.Row.Carried = []string{fmt.Sprint(i)}
		if line, err = lines.Append(line[:0], schema.Cells(&e)); err != nil {
			return err
		}
		w.Write(line)
		e.RunHeader = ""
	}
	return w.Flush()
}

// scan resumes a result, and returns the time and the memory retained.
func scan(t testing.TB, path string, n int) (time.Duration, uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	out, _, err := Resume(path, resultfile.CSV, schema, here())
	if err != nil || out.Earlier() != int64(n) {
		t.Fatal(out, err)
	}
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	end(out)
	runtime.KeepAlive(out)
	return took, after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

// TestResumeScales: the time to resume grows linearly with the rows, and memory holds a mark per row and an entry
// per block, no rows.
func TestResumeScales(t *testing.T) {
	require.Slow(t)
	const few, many = 10_000, 80_000
	small, large := synthetic(t, few), synthetic(t, many)
	// Others may take the CPU, more often from the longer: compare the best times.
	a, b := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for try := 0; try < 3 || try < 30 && b > 2*many/few*a; try++ {
		took, _ := scan(t, small, few)
		a = min(a, took)
		took, kept := scan(t, large, many)
		b = min(b, took)
		if perRow := float64(kept) / many; perRow > 60 {
			t.Errorf("%.0f bytes a row are kept", perRow)
		}
	}
	if b > 2*many/few*a {
		t.Errorf("%d times the rows take %.1f times as long", many/few, float64(b)/float64(a))
	}
}
