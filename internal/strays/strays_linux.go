package strays

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/verdict"
)

var subreaper = sync.OnceValue(func() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// Adopt makes this process the parent of what its programs leave running from now on, and returns the children that
// it already has. A *verdict.HostError says that it may not.
func Adopt() (before []int, err error) {
	if err := subreaper(); err != nil {
		return nil, &verdict.HostError{Missing: "prctl(PR_SET_CHILD_SUBREAPER) is refused, so processes that the program leaves running could not be ended",
			Remedy: "use a seccomp profile that allows prctl; Linux 3.4 or later is needed", Err: err}
	}
	return childrenOf(processes(), os.Getpid()), nil
}

// Run runs a command to its end, and ends and returns the processes that it left running. The command's streams must
// be files: a pipe may not reach its end while strays hold it.
func Run(cmd *exec.Cmd) (left []int, err error) {
	before, err := Adopt()
	if err != nil {
		return nil, err
	}
	err = cmd.Run()
	return End(before), err
}

// strayTime is the longest that ending strays may take. Each round of killing and reaping takes
// milliseconds; only a task in an uninterruptible system call takes longer.
const strayTime = 5 * time.Second

// End ends, reaps and returns the processes that a program has left running. before lists children of this process
// that the program did not start.
func End(before []int) (ended []int) {
	for end := time.Now().Add(strayTime); hasChildren() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		reap(strays(before)) // those that ended by themselves
		left := strays(before)
		if len(left) == 0 {
			break
		}
		ended = append(ended, left...)
		// Stop all first, so that a process that forks all the time does not fork while the others are killed.
		for _, signal := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for _, pid := range left {
				unix.Kill(pid, signal)
			}
		}
		reap(left)
	}
	return ended
}

func reap(pids []int) {
	for _, pid := range pids {
		unix.Wait4(pid, nil, unix.WALL|unix.WNOHANG, nil) // ECHILD until its own parent has ended
	}
}

// hasChildren reports whether this process has any child, of whichever thread.
func hasChildren() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err != unix.ECHILD
}

// ChildRuns reports whether a child of this process is running, and none that has ended awaits its wait.
func ChildRuns() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == nil && info.Signo == 0 // waitid(2)
}

// strays lists this process's descendants, without those in before and those that another thread of this process traces. What this thread still
// traces was born as the program was killed.
func strays(before []int) (all []int) {
	parents := processes()
	next := slices.DeleteFunc(childrenOf(parents, os.Getpid()), func(pid int) bool { return slices.Contains(before, pid) || traced(pid) })
	for len(next) > 0 {
		all = append(all, next...)
		var below []int
		for _, pid := range next {
			below = append(below, childrenOf(parents, pid)...)
		}
		next = below
	}
	return all
}

func childrenOf(parents map[int]int, parent int) (pids []int) {
	for pid, ppid := range parents {
		if ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

func processes() map[int]int {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		// proc_pid_stat(5): pid, name in parentheses, which may hold any character, state, parent.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parents[pid], err = strconv.Atoi(string(fields[1])); err != nil {
			delete(parents, pid)
		}
	}
	return parents
}

func traced(pid int) bool {
	tracer := ptracethread.TracerOf(strconv.Itoa(pid))
	if tracer == "" || tracer == strconv.Itoa(unix.Gettid()) {
		return false
	}
	_, err := os.Stat("/proc/self/task/" + tracer)
	return err == nil
}
