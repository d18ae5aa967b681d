package batch

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestDiskFills: a full disk ends the run with a clear error, and the run can resume once there is room. If only
// sorting lacks room, the result is kept unsorted.
func TestDiskFills(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		require.Skip(t, require.Root, "mounting a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	resize := func(size string) {
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size="+size))
	}
	path, corpus := filepath.Join(dir, "result.csv"), text(1000)
	l := &lab{delay: jitter}
	full := func() int {
		t.Helper()
		_, err := batched(t, l, path, corpus, Options{})
		var writing *WriteError
		if !errors.As(err, &writing) || !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		return len(rows(t, path)) // whole rows
	}
	first := full()
	if first < 100 || first > 900 {
		t.Errorf("%d rows fit", first)
	}
	resize("96k")
	if second := full(); second <= first {
		t.Errorf("%d rows, after %d", second, first)
	}
	resize("192k")
	require.Equal(t, "rows", 1000, full())
	// The rows are there, and only the second file did not fit: others may use the first.
	require.Get(resultfile.OpenRows(path, nil))(t).Close() // or the disk stays busy
	resize("1m")
	require.Get(batched(t, l, path, corpus, Options{}))(t)
	holds(t, rows(t, path), corpus)
}
