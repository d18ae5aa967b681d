package host

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/require"
)

func TestSiblings(t *testing.T) {
	sys := fstest.MapFS{
		"devices/system/cpu/cpu1/topology/thread_siblings_list": {Data: []byte("1,5\n")},
		"devices/system/cpu/cpu2/topology/thread_siblings_list": {Data: []byte("2-3\n")},
		"devices/system/cpu/cpu4/topology/thread_siblings_list": {Data: []byte("what\n")},
	}
	for cpu, want := range map[int][]int{1: {1, 5}, 2: {2, 3}, 4: {4}, 7: {7}} {
		require.Equal(t, fmt.Sprint("CPU ", cpu), want, siblings(sys, cpu))
	}
	if got := Siblings(0); !slices.Contains(got, 0) {
		t.Errorf("of CPU 0 here: %v", got)
	}
}

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name, cgroup string
		files        map[string]string // below /sys/fs/cgroup
		want         int
	}{
		{"nothing is known", "", nil, 0},
		{"no limit", "0::/a/b\n", map[string]string{"a/b/cpu.max": "max 100000\n"}, 0},
		{"its own", "0::/a/b\n", map[string]string{"a/b/cpu.max": "300000 100000\n"}, 3},
		{"a parent's", "0::/a/b\n", map[string]string{"a/b/cpu.max": "300000 100000\n", "a/cpu.max": "250000 100000\n"}, 2},
		{"a container's root", "0::/\n", map[string]string{"cpu.max": "100000 100000\n"}, 1},
		{"less than one CPU's", "0::/\n", map[string]string{"cpu.max": "50000 100000\n"}, 1},
		{"no period", "0::/\n", map[string]string{"cpu.max": "100000 0\n"}, 0},
		{"no number", "0::/\n", map[string]string{"cpu.max": "x\n"}, 0},
		{"version 1", "4:memory:/m\n3:cpu,cpuacct:/a\n", map[string]string{
			"cpu,cpuacct/a/cpu.cfs_quota_us": "400000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, 4},
		{"version 1, no limit", "3:cpu:/\n", map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0},
	} {
		root := fstest.MapFS{}
		if c.cgroup != "" {
			root["proc/self/cgroup"] = &fstest.MapFile{Data: []byte(c.cgroup)}
		}
		for name, text := range c.files {
			root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		require.Equal(t, c.name, c.want, quota(root))
	}
}

// TestConfine binds all threads of a process, in one of its own: threads that Go starts later
// too, and none of those that bound themselves afterwards.
func TestConfine(t *testing.T) {
	all := require.Get(AllowedCPUs())(t)
	if len(all) < 2 {
		require.Skip(t, require.CPU, "there is one CPU")
	}
	if os.Getenv("BBPROF_TEST_CONFINE") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestConfine$")
		cmd.Env = append(os.Environ(), "BBPROF_TEST_CONFINE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	require.NoError(t, Confine(all[:1]))
	started, end := make(chan error), make(chan struct{})
	defer close(end)
	for i := range 9 { // each takes a thread of its own, and the first binds itself
		go func() {
			runtime.LockOSThread()
			var err error
			if i == 0 {
				err = PinThread(all[1])
			}
			started <- err
			<-end
		}()
		require.NoError(t, <-started)
	}
	threads := require.Get(os.ReadDir("/proc/self/task"))(t)
	count := map[string]int{}
	for _, thread := range threads {
		count[ptracethread.Status("self/task/"+thread.Name(), "Cpus_allowed_list")]++
	}
	if one := fmt.Sprint(all[1]); count[one] != 1 || count[fmt.Sprint(all[0])] != len(threads)-1 {
		t.Errorf("threads by the CPUs that they may use: %v", count)
	}
}
