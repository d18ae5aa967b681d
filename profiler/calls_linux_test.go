package profiler

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

// callTrace is the kernel's own list of the system calls that children of this thread make and
// that are carried out: the tracepoint raw_syscalls:sys_enter comes after seccomp
// (kernel/entry/common.c, syscall_trace_enter). It does not rely on bbprof. The four calls
// that the filter permits are excluded, because they would fill the buffer.
type callTrace struct{ dir string } // of the instance, "" where there is none

// traceCalls starts it for the calling thread, which must launch the children; without permission, the list is empty.
func traceCalls(t *testing.T) callTrace {
	t.Helper()
	dir, err := traceInstance(t)
	for _, setting := range [][2]string{
		{"buffer_size_kb", "8192"},
		{"options/event-fork", "1"},
		{"set_event_pid", strconv.Itoa(unix.Gettid())},
		{"events/raw_syscalls/sys_enter/filter", fmt.Sprintf("common_pid != %d && id != %d && id != %d && id != %d && id != %d",
			unix.Gettid(), unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_GETRUSAGE)},
		{"events/raw_syscalls/sys_enter/enable", "1"},
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, setting[0]), []byte(setting[1]), 0o600)
		}
	}
	if err != nil {
		t.Logf("system calls are not traced: %v", err)
		return callTrace{}
	}
	return callTrace{dir}
}

// traceInstance makes a trace buffer that nothing else uses.
func traceInstance(t *testing.T) (string, error) {
	root := "/sys/kernel/tracing"
	if _, err := os.Stat(root + "/instances"); err != nil {
		root = t.TempDir()
		if err := unix.Mount("tracefs", root, "tracefs", 0, ""); err != nil {
			return "", fmt.Errorf("mounting tracefs: %w", err)
		}
		t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	}
	dir := filepath.Join(root, "instances", fmt.Sprintf("bbprof-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	t.Cleanup(func() { os.Remove(dir) }) // before the mount goes
	return dir, nil
}

var tracedCall = regexp.MustCompile(`-(\d+)\s.*sys_enter: NR (-?\d+) `)

// setUp limits the calls of a child before its filter is installed: Go's between fork and exec, then Launch's.
var setUp = map[int]int{
	unix.SYS_RT_SIGPROCMASK: 4, unix.SYS_RT_SIGACTION: 130, unix.SYS_SETSID: 1, unix.SYS_PRCTL: 2, unix.SYS_GETPPID: 2, unix.SYS_GETPID: 2,
	unix.SYS_KILL: 1, unix.SYS_CHDIR: 1, unix.SYS_DUP3: 4, unix.SYS_FCNTL: 4, unix.SYS_PTRACE: 1, unix.SYS_EXECVE: 1,
	unix.SYS_MMAP: 9, unix.SYS_CLOSE: 5, unix.SYS_CAPSET: 1, unix.SYS_SECCOMP: 1,
}

// judge compares the list with the permitted calls of children.
func (c callTrace) judge(t *testing.T) {
	t.Helper()
	if c.dir == "" {
		return
	}
	list := require.Get(os.ReadFile(filepath.Join(c.dir, "trace")))(t)
	calls := map[string]map[int]int{} // by process
	last := map[string]int{}
	for line := range strings.Lines(string(list)) {
		m := tracedCall.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		nr, _ := strconv.Atoi(m[2])
		if calls[m[1]] == nil {
			calls[m[1]] = map[int]int{}
		}
		calls[m[1]][nr]++
		last[m[1]] = nr
	}
	children, total := 0, 0
	for pid, made := range calls {
		if made[unix.SYS_EXECVE] == 0 {
			continue // a thread of Go's
		}
		children++
		for nr, n := range made {
			total += n
			if n > setUp[nr] {
				t.Errorf("child %s made system call %d, %d times", pid, nr, n)
			}
		}
		if last[pid] != unix.SYS_SECCOMP {
			t.Errorf("child %s made system call %d after its set-up", pid, last[pid])
		}
	}
	if children == 0 {
		t.Error("the kernel shows no child, and not even its set-up: it was not asked rightly")
	}
	t.Logf("%d children made %d system calls, the last of each being that which installs its filter", children, total)
}
