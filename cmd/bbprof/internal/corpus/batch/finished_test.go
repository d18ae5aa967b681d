package batch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestFinished: a complete result is checked like a resumed one, and what its columns cannot show is listed.
// The script batch_resume has other inputs, columns and formats.
func TestFinished(t *testing.T) {
	corpus := text(30)
	whole := file(t)
	require.Get(batched(t, &lab{}, whole, corpus, Options{}))(t)
	all := strings.Join(schema.Names(), ",")
	loop := elsewhere(func(r *resultfile.Run) { r.Settings["mode"] = "loop" })
	lines := strings.SplitAfter(corpus, "\n")
	const runs, input = "CPU and settings were not checked", "the input was not checked"
	for _, c := range []struct {
		name, columns string
		format        resultfile.Format
		corpus        string
		run           resultfile.Run
		unchecked     []string
		wrong         string
	}{
		{"the same", all, resultfile.Parquet, corpus, here(), nil, ""},
		{"other settings", all, resultfile.Parquet, corpus, loop, nil, `setting mode: "unroll", here "loop"`},
		{"another shard", all, resultfile.Parquet, corpus, elsewhere(func(r *resultfile.Run) { r.Shard = "0/2" }), nil, `shard: "", here "0/2"`},
		{"a shorter input", all, resultfile.Parquet, strings.Join(lines[:20], ""), here(), nil, "11 are missing"},
		{"a longer input", all, resultfile.Parquet, corpus + "90,30\n", here(), nil,
			"line 32: the result is complete and has no row 31; go on with the same input"},
		{"a column tells of the run", "run,hex", resultfile.CSV, corpus, loop, nil, "settings or microarchitecture: run "},
		{"two columns", "hex,cycles", resultfile.CSV, corpus, loop, []string{runs, input}, ""},
	} {
		names := strings.Split(c.columns, ",")
		want, _ := require.Get2(schema.Select(names))(t)
		path := filepath.Join(t.TempDir(), "result")
		convert(t, whole, path, c.format, names)
		_, unchecked, err := Finished(path, c.format, want, open(t, c.corpus), Shard{}, c.run)
		if c.wrong == "" {
			require.NoError(t, err)
		} else {
			require.Fails(t, c.name, err, c.wrong)
		}
		if !slices.EqualFunc(unchecked, c.unchecked, strings.Contains) {
			t.Errorf("%s: %q, want %q", c.name, unchecked, c.unchecked)
		}
	}
}

// convert writes some columns of a result in another format.
func convert(t *testing.T, from, to string, format resultfile.Format, names []string) {
	t.Helper()
	in := require.Get(resultfile.OpenRows(from, nil))(t)
	defer in.Close()
	f := require.Get(os.Create(to))(t)
	defer f.Close()
	out := require.Get(resultfile.NewSelection(f, format, in.Schema, names))(t)
	require.NoError(t, in.Copy(out))
}
