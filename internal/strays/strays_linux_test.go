package strays

import (
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

// TestTraced: what this thread still traces is ended, and what another one traces is that one's.
func TestTraced(t *testing.T) {
	before := require.Get(Adopt())(t)
	start := func() (pid int, err error) { // stops before its first instruction
		runtime.LockOSThread() // never unlocked: the thread ends with its tracee
		return syscall.ForkExec("/proc/self/exe", nil, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	}
	pid, err := start()
	if err != nil {
		require.Skip(t, require.Kernel, "ptrace: %v", err)
	}
	other, end, ended := make(chan int), make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		pid, err := start()
		other <- pid
		<-end
		if err == nil {
			unix.Kill(pid, unix.SIGKILL)
			unix.Wait4(pid, nil, unix.WALL, nil)
		}
	}()
	<-other
	if got := slices.Compact(End(before)); !slices.Equal(got, []int{pid}) { // on a busy machine it takes more than one round
		t.Errorf("%v ended, want %d alone", got, pid)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("%d is left: %v", pid, err)
	}
	close(end)
	<-ended
}
