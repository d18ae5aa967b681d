package tracee

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

// TestKilledWhileLaunched: a child killed at any stage of its launch is reported dead, and the host is not blamed.
func TestKilledWhileLaunched(t *testing.T) {
	launch(t).Close() // or skip
	stages := map[string]func(*Tracee) error{
		"the options":      func(c *Tracee) error { return c.follow() },
		"all that follows": func(c *Tracee) error { return c.settle(nil) },
		"a counter":        func(c *Tracee) error { return c.openCounters([]Counter{{Attr: make([]byte, 64), Leader: -1}}) },
		"its descriptors":  func(c *Tracee) error { return c.closeAll() },
		"its limits":       func(c *Tracee) error { return c.limit() },
		"its capabilities": func(c *Tracee) error { return c.giveUpCapabilities() },
		"the filter":       func(c *Tracee) error { return c.installFilter() },
	}
	for name, stage := range stages {
		for _, early := range []bool{true, false} { // whether the child is about to end or has ended
			c := &Tracee{stub: buildStub(0, 0), pidfd: -1}
			require.NoError(t, c.shared.create())
			require.NoError(t, c.exec())
			unix.Kill(c.pid, unix.SIGKILL)
			if !early {
				ends(c.pid)
			}
			mustBeDeath(t, name, c.orDeath(stage(c)))
			c.Close()
		}
	}
}

func mustBeDeath(t *testing.T, name string, err error) {
	t.Helper()
	if dead, ok := err.(*DeadError); !ok || dead.Signal != int(unix.SIGKILL) || dead.Overtime {
		t.Errorf("%s: %v (%T), want a death by SIGKILL", name, err, err)
	}
}

// TestKilledAnywhereInLaunch kills children at increasing delays.
func TestKilledAnywhereInLaunch(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	whole := time.Now()
	launch(t).Close() // or skip
	took := time.Since(whole)
	const launches = 150
	killed := 0
	for i := range launches {
		var killer sync.WaitGroup
		killer.Go(func() {
			for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
				if pid := childOf(tid); pid > 0 {
					for at := time.Now().Add(took * time.Duration(i) / launches); time.Now().Before(at); {
					}
					unix.Kill(pid, unix.SIGKILL)
					return
				}
			}
		})
		c, err := Launch(0, fsBase, gsBase)
		killer.Wait() // before the number is reused
		if err == nil {
			c.Close()
			continue
		}
		killed++
		mustBeDeath(t, fmt.Sprintf("launch %d", i), err)
	}
	t.Logf("%d of %d launches were cut off", killed, launches)
	if killed == 0 {
		require.Skip(t, require.Idle, "no launch was cut off")
	}
}

// childOf returns a child started by a thread of this process, 0 if there is none.
func childOf(tid int) int {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", tid))
	first, _, _ := strings.Cut(string(list), " ")
	pid, _ := strconv.Atoi(first)
	return pid
}

// A refusal to a living child remains a refusal, and so does a filter that kills.
func TestRefusalIsNoDeath(t *testing.T) {
	c := launch(t)
	refusal := errors.New("refused")
	if err := c.orDeath(refusal); err != refusal || !c.Alive() {
		t.Errorf("%v", err)
	}
	mustServe(t, c)
	for _, c := range []*Tracee{{dead: &DeadError{Signal: SIGSYS}}, {}} { // the second has no child yet
		if err := c.orDeath(refusal); err != refusal {
			t.Errorf("%v", err)
		}
	}
}
