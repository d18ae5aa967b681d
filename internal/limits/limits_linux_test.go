package limits

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestTasksLeft(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"nothing is known", nil, 1 << 30},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/pids.max": "max\n", "sys/fs/cgroup/a/pids.current": "3\n"}, 1 << 30},
		{"a limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/pids.max": "10\n", "sys/fs/cgroup/a/pids.current": "3\n"}, 7},
		{"its own threads are among the current", map[string]string{"proc/self/cgroup": "0::/a\n", "proc/self/status": "Name:\tx\nThreads:\t2\n",
			"sys/fs/cgroup/a/pids.max": "10\n", "sys/fs/cgroup/a/pids.current": "3\n"}, 9},
		{"a parent's", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/pids.max": "10\n", "sys/fs/cgroup/a/b/pids.current": "1\n",
			"sys/fs/cgroup/a/pids.max": "10\n", "sys/fs/cgroup/a/pids.current": "8\n"}, 2},
		{"version 1", map[string]string{"proc/self/cgroup": "8:pids:/a\n0::/\n",
			"sys/fs/cgroup/pids/a/pids.max": "10\n", "sys/fs/cgroup/pids/a/pids.current": "4\n"}, 6},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
		}
		require.Equal(t, c.name, c.want, min(tasksLeft(root), 1<<30))
	}
}
