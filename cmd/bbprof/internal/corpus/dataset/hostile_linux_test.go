package dataset

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
)

// TestHostileFolder: what is no regular file of the folder, or has no end, is named and not read.
func TestHostileFolder(t *testing.T) {
	whole, sheet := sealed(t, core)
	replace := func(name string, with func(path, moved string) error) func(t *testing.T, dir string, s *Sheet) {
		return func(t *testing.T, dir string, _ *Sheet) {
			path, moved := filepath.Join(dir, name), filepath.Join(t.TempDir(), "moved")
			require.NoError(t, os.Rename(path, moved))
			require.NoError(t, with(path, moved))
		}
	}
	pipe := func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }
	endless := func(path, _ string) error { return os.Symlink("/dev/zero", path) }
	outside := func(path, moved string) error { return os.Symlink(moved, path) }
	for _, c := range []struct {
		change func(t *testing.T, dir string, s *Sheet)
		want   string
	}{
		{replace("test.csv", pipe), "test.csv: it cannot be read: it is not a regular file: p"},
		{replace(SheetFile, pipe), "datasheet.json: it cannot be read, so nothing"},
		{replace("test.csv", endless), "test.csv: it cannot be read: it is not a regular file: L"},
		{replace("microarchitecture=zen4/part=1/rows.parquet", endless), "microarchitecture=zen4/part=1/rows.parquet: it is not a regular file: L"},
		{replace("test.csv", outside), "test.csv: it cannot be read: it is not a regular file: L"},
		{replace("microarchitecture=zen4", outside), "microarchitecture=zen4/part=0/rows.parquet: it cannot be read: "},
		{replace("test.csv", func(path, _ string) error {
			f, err := os.Create(path)
			if err == nil {
				defer f.Close()
				err = f.Truncate(1 << 42) // a hole
			}
			return err
		}), "test.csv: it cannot be read: it has 4398046511104 bytes, more than"},
		{edit(SheetFile, "part=1/", "part=0/"), `datasheet.json: it lists part "microarchitecture=zen4/part=0/rows.parquet" twice`},
		{edit(SheetFile, `"rows": 100`, `"rows": 4000000`),
			`datasheet.json: it lists part "microarchitecture=zen4/part=0/rows.parquet" twice, or with more than 1000000 rows`},
		{edit(SheetFile, `"rows": 100`, `"rows": 10`), "microarchitecture=zen4/part=0/rows.parquet: it has more rows than the 10"},
	} {
		dir := changed(t, whole, sheet, c.change)
		found := make(chan []string, 1)
		go func() {
			v, _ := Verify(dir)
			found <- v.Problems
		}()
		select {
		case problems := <-found:
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, c.want) }) {
				t.Errorf("%q, want %q", problems, c.want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("it never ends, want %q", c.want)
		}
	}
}
