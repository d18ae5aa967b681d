package sigchld

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

// A child that stops sends no signal; one that ends does.
func TestNotOfStops(t *testing.T) {
	got := make(chan os.Signal, 16)
	signal.Notify(got, unix.SIGCHLD)
	defer signal.Stop(got)
	ofStops := func() { change(func(flags uint64) uint64 { return flags &^ noStops }) }
	ofStops()
	defer ofStops() // as a process begins
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "kill -STOP $$; kill -STOP $$"}, nil)
	if err != nil {
		require.Skip(t, require.Kernel, "%v", err)
	}
	stopped := func() {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("wait4: %v, status %#x", err, uint32(status))
		}
	}
	told := func(within time.Duration) bool {
		select {
		case <-got:
			return true
		case <-time.After(within):
			return false
		}
	}
	const surely, hardly = 30 * time.Second, 200 * time.Millisecond
	stopped()
	if !told(surely) {
		t.Error("no signal of a first stop, so this test would not see one")
	}
	NotOfStops()
	unix.Kill(pid, unix.SIGCONT)
	stopped()
	if told(hardly) {
		t.Error("a stop sends a signal")
	}
	unix.Kill(pid, unix.SIGCONT)
	if !told(surely) {
		t.Error("the end sends none")
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || !status.Exited() {
		t.Errorf("wait4: %v, status %#x", err, uint32(status))
	}
}
