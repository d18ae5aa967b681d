package resultfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// TestPartitions: each row is in exactly one part of its core, and no part is too long, empty, or outside the
// directory, whatever the core's name.
func TestPartitions(t *testing.T) {
	dir := t.TempDir()
	schema := SchemaOf([]string{"hex", "row", "run"})
	p := require.Get(NewPartitions(dir, schema, []string{"row", "hex"}, 2, func(cells []string) string { return cells[2] }))(t)
	for i, core := range []string{"Zen 8", "Zen 9", "Zen 8", "Zen-8", "Zen 8", "../../Zen 9"} {
		require.NoError(t, p.Write([]string{fmt.Sprint("9", i), fmt.Sprint(i + 1), core}))
	}
	require.NoError(t, p.Close())
	got := map[string]string{}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		_, rows := read(t, require.Get(os.ReadFile(path))(t))
		for _, cells := range rows {
			got[name] += strings.Join(cells, " ") + ";"
		}
		return nil
	})
	want := map[string]string{
		"microarchitecture=Zen-8/part=0/rows.parquet":       "1 90;3 92;",
		"microarchitecture=Zen-8/part=1/rows.parquet":       "4 93;5 94;",
		"microarchitecture=Zen-9/part=0/rows.parquet":       "2 91;",
		"microarchitecture=..-..-Zen-9/part=0/rows.parquet": "6 95;",
	}
	require.Equal(t, "it", want, got)
	for _, names := range [][]string{{"nosuch"}, {"hex", "hex"}} {
		if _, err := NewPartitions(dir, schema, names, 2, nil); err == nil {
			t.Errorf("%q can be chosen", names)
		}
	}
}
