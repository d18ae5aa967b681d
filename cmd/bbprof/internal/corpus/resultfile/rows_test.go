package resultfile

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestCheck: a row that bbprof cannot have written is refused in each format, whoever reads it.
func TestCheck(t *testing.T) {
	schema := SchemaOf(strings.Fields("hex status reason cycles ci_low ci_high row_cycles row_ci_low row_ci_high"))
	for _, row := range require.Table(t, "check.txt") {
		cells, says := row[:len(schema)], row[len(schema)]
		for _, f := range []Format{CSV, JSON, Parquet} {
			file := write(t, f, schema, [][]string{cells})
			path := require.File(t, "result", file)
			in := require.Get(OpenRows(path, nil))(t)
			_, err := in.Next()
			require.NoError(t, in.Close())
			if says == "" {
				require.NoError(t, err)
			} else {
				require.Fails(t, f, err, path+": row 1: ")
				require.Fails(t, cells, err, says)
			}
			if f == Parquet {
				continue
			}
			lines := require.Get(NewLineReader(bytes.NewReader(file), ""))(t)
			if _, err := lines.NextResult(); (err == nil) != (says == "") {
				t.Errorf("%s, %s, read to be resumed or merged: %v, want %q", cells, f, err, says)
			}
		}
	}
}

// TestReject: a row turned into a rejection is what a rejected result writes.
func TestReject(t *testing.T) {
	e := *entries()[0]
	schema := NewSchema(true, []string{"a", "b"})
	got := schema.Cells(&e)
	schema.Positions().Reject(got, verdict.BusyCore, "why")
	e.Result.Rejection = &verdict.Rejection{Reason: verdict.BusyCore, Detail: "why; about 0.2500 cycles"}
	e.Result.Status, e.Result.Reason, e.Result.Clock, e.Result.LoopsTake, e.Result.Impossible = profiler.Rejected, verdict.BusyCore, nil, "", ""
	want := schema.Cells(&e)
	require.Equal(t, "the row", want, got)
}

// TestNeverIdle: in every format rows that were accepted although no core was idle are read as rejected, and counted;
// as written they stay accepted.
func TestNeverIdle(t *testing.T) {
	all := entries()
	all[0].Result.Warnings = []string{"one", neverIdle + ": at its fastest the contention probe took 1482 cycles"}
	schema := NewSchema(true, []string{"a", "b"})
	var rows [][]string
	for _, e := range all {
		e.RunHeader = ""
		rows = append(rows, schema.Cells(e))
	}
	for _, f := range []Format{CSV, JSON, Parquet} {
		name := require.File(t, "old", write(t, f, schema, rows))
		for _, asWritten := range []bool{false, true} {
			in := require.Get(OpenRows(name, nil))(t)
			in.AsWritten = asWritten
			row := require.Get(in.Next())(t)
			status := []string{row.Cell("status"), row.Cell("reason"), row.Cell("cycles")}
			want := []string{"rejected", "busy_core", ""}
			if asWritten {
				want = []string{"ok", "", "0.2500"}
			}
			if !slices.Equal(status, want) || !strings.HasPrefix(row.Cell("detail"), "one; "+neverIdle) {
				t.Errorf("%s: %q, %q", f, status, row.Cell("detail"))
			}
			for range in.All() {
			}
			var says strings.Builder
			in.LeftOut(&says)
			if in.Busy != 1 || !strings.Contains(says.String(), "left out: 1 row of a busy core") {
				t.Errorf("%s: %d are busy; %s", f, in.Busy, &says)
			}
			in.Close()
		}
	}
	none := require.Get(OpenRows("-", strings.NewReader("hex,status\n90,ok\n")))(t)
	for range none.All() {
	}
	none.LeftOut(writerThatFails{t})
}

type writerThatFails struct{ *testing.T }

func (w writerThatFails) Write(p []byte) (int, error) {
	w.Errorf("it says %s", p)
	return len(p), io.EOF
}
