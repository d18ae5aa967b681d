package tracee

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

// TestFrozen: a child frozen for longer than its limit is in time if it resumes. One frozen for good is given up,
// but not for overtime.
func TestFrozen(t *testing.T) {
	group := freezable(t)
	c := launch(t)
	place(c, iterations(5_000_000))
	group.take(c.pid)
	const limit = 30 * time.Millisecond
	group.freeze("1")
	time.AfterFunc(5*limit, func() { group.freeze("0") })
	began := time.Now()
	stop, err := c.Do([]Op{Run(entry, 1)}, limit)
	if took := time.Since(began); err != nil || !stop.Done || took < 5*limit {
		t.Fatalf("%+v, %v after %v", stop, err, took)
	}
	group.freeze("1")
	began = time.Now()
	_, err = c.Do([]Op{Run(entry, 1)}, limit)
	took := time.Since(began)
	if dead := (*DeadError)(nil); !errors.As(err, &dead) || dead.Overtime || took < patience*limit {
		t.Fatalf("frozen for good: %v after %v", err, took)
	}
	t.Logf("after %v: %v", took.Round(time.Millisecond), err)
}

// cgroup is a cgroup v2 directory, in which processes can be frozen and killed.
type cgroup struct {
	dir string
	t   *testing.T
}

// freezable makes one for a test, or skips the test.
func freezable(t *testing.T) cgroup {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} { // in systemd's unified and hybrid layouts
		var fs unix.Statfs_t
		if err := unix.Statfs(root, &fs); err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(root, "bbprof-test-")
		if err != nil {
			require.Skip(t, require.Kernel, "%v", err)
		}
		t.Cleanup(func() { // once the child has left it, a little after its death
			for end := time.Now().Add(generous); os.Remove(dir) != nil && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		})
		if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err != nil {
			require.Skip(t, require.Kernel, "%v", err) // before Linux 5.2
		}
		return cgroup{dir, t}
	}
	require.Skip(t, require.Kernel, "no cgroup2 hierarchy is mounted where it usually is")
	return cgroup{}
}

func (g cgroup) take(pid int) {
	g.t.Helper()
	if err := g.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
		require.Skip(g.t, require.Kernel, "%v", err)
	}
}

func (g cgroup) freeze(how string) {
	if err := g.write("cgroup.freeze", how); err != nil {
		g.t.Error(err)
	}
}

func (g cgroup) write(file, what string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(what), 0)
}
