package tracee

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/require"
)

// spin emits an image that never ends.
func spin(e *asm.Emitter) { e.Raw(0xeb, 0xfe) } // jmp $

// iterations emits an image that ends after n iterations.
func iterations(n uint64) func(e *asm.Emitter) {
	return func(e *asm.Emitter) {
		e.MovImm(asm.RAX, n)
		loop := e.PC()
		e.AddImm8(asm.RAX, -1)
		f := e.ForwardJz()
		e.Jmp(loop)
		e.Bind(f)
	}
}

// A limit that passes just as the child stops by itself belongs to this list: if Do returns no error, the child
// still serves, and no later Do reports an overtime that was not its own.
func TestLimitPassesAtTheStop(t *testing.T) {
	late := 0
	for i := range 100 {
		c := launch(t)
		_, err := c.Do(nil, time.Duration(1+i%50)*time.Microsecond)
		if dead, ok := errors.AsType[*DeadError](err); ok && dead.Overtime {
			late++
		} else {
			require.NoError(t, err)
			for range 3 {
				mustServe(t, c)
			}
		}
		c.Close()
	}
	t.Logf("%d of 100 were late", late)
}

// Kill and Close may run concurrently. With -race, this fails if they share fields unguarded; without, a Kill that
// uses a descriptor after Close could hit the next child.
func TestKillMeetsClose(t *testing.T) {
	for range 20 {
		c := launch(t)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(c.Kill)
		}
		c.Close()
		wg.Go(c.Kill)
		next := launch(t)
		wg.Wait()
		mustServe(t, next)
		next.Close()
	}
}

// A caller on another thread gets an error instead of a child that waits forever.
func TestWrongThread(t *testing.T) {
	c := launch(t)
	ptracethread.Run(func() {
		if _, err := c.Do(nil, generous); err == nil {
			t.Error("ptrace obeyed a thread that did not attach")
		}
	})
}

// The limit is CPU time: it passes while the child or the monitor's thread runs, and not while both wait.
func TestCPUTime(t *testing.T) {
	c := launch(t)
	place(c, iterations(10_000_000))
	before := c.CPUTime()
	do(t, c, Run(entry, 1))
	ran, began := c.CPUTime(), time.Now()
	time.Sleep(50 * time.Millisecond)
	if waited, wall := c.CPUTime()-ran, time.Since(began); ran <= before || waited > wall/2 {
		t.Errorf("%v of CPU time in a list, %v in a wait of %v", ran-before, waited, wall)
	}
}

// TestMonitorStopped: a list that ends while the monitor or the whole machine is suspended is in time, even long
// after its limit.
func TestMonitorStopped(t *testing.T) {
	launch(t).Close() // or skip
	cmd, lines, _ := startMonitor(t, "lists")
	for range 8 {
		cmd.Process.Signal(unix.SIGSTOP)
		time.Sleep(2 * limitOfLists)
		cmd.Process.Signal(unix.SIGCONT)
		time.Sleep(time.Millisecond)
	}
	cmd.Process.Signal(unix.SIGTERM)
	if said, _ := io.ReadAll(lines); len(said) > 0 {
		t.Errorf("%s", said)
	}
}

// TestDeaths: whatever ends the child ends its list, is overtime only if the limit ended it, and no later list runs.
func TestDeaths(t *testing.T) {
	const limit = 20 * time.Millisecond
	kill := func(c *Tracee) {
		pid := c.pid
		time.AfterFunc(5*time.Millisecond, func() { unix.Kill(pid, unix.SIGKILL) })
	}
	starve := func(c *Tracee) { // its CPU clock stands still
		c.watch = newWatchdog(func() time.Duration { return time.Hour }, c.Kill)
	}
	for _, d := range []struct {
		name     string
		before   func(c *Tracee)
		limit    time.Duration
		least    time.Duration // until the list ends
		overtime bool
		status   string
	}{
		{"an endless loop", func(*Tracee) {}, limit, 0, true, ""},
		{"one that cannot be killed by descriptor", func(c *Tracee) { loseDescriptor(t, c) }, limit, 0, true, ""},
		{"killed from outside while it runs", kill, generous, 0, false, ""},
		{"killed from outside while it is stopped", func(c *Tracee) { unix.Kill(c.pid, unix.SIGKILL) }, generous, 0, false, ""},
		{"killed from another goroutine", func(c *Tracee) { time.AfterFunc(5*time.Millisecond, c.Kill) }, generous, 0, false, ""},
		{"it never gets a CPU", starve, limit / 4, patience * limit / 4, false, "killed after 100ms"},
	} {
		c := launch(t)
		mustServe(t, c)
		place(c, spin)
		d.before(c)
		began := time.Now()
		_, err := c.Do([]Op{Run(entry, 1)}, d.limit)
		took := time.Since(began)
		dead, ok := errors.AsType[*DeadError](err)
		if ok && d.overtime && strings.Contains(dead.Status, "this machine gave it less") {
			require.Skip(t, require.Idle, "%s: %v", d.name, err)
		}
		if !ok || dead.Overtime != d.overtime || d.overtime && dead.Limit != limit || c.Alive() ||
			took < d.least || !strings.Contains(dead.Status, d.status) {
			t.Errorf("%s: %v after %v, alive %v", d.name, err, took, c.Alive())
		}
		if _, again := c.Do(nil, generous); again != error(dead) {
			t.Errorf("%s: the next list ends with %v", d.name, again)
		}
	}
}

// loseDescriptor replaces the child's descriptor by a file, as if the kernel refused the call that kills by it.
func loseDescriptor(t *testing.T, c *Tracee) {
	t.Helper()
	if c.pidfd < 0 {
		require.Skip(t, require.Kernel, "this kernel gives no descriptor of a process")
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(null, c.pidfd, unix.O_CLOEXEC)
	}
	require.NoError(t, err)
	unix.Close(null)
}

// The timer of a ration of 500 ms fires every 50 ms until that much CPU time has passed.
func TestRation(t *testing.T) {
	const start = 7_000 // CPU clock at the list's start
	for _, c := range []struct {
		name string
		cpu  []time.Duration // CPU clock when the timer fires, in ms
		last []time.Duration // last intervals of the timer, in ms; 50 ahead of them
		end  outcome
	}{
		{"an endless loop on an idle machine", []time.Duration{50, 100, 150, 200, 250, 300, 350, 400, 450, 500},
			[]time.Duration{0}, overtime},
		{"the same, and the clock lags by a tick", []time.Duration{46, 98, 146, 198, 246, 298, 346, 398, 446, 495, 496},
			[]time.Duration{1, 0}, overtime},
		{"a millisecond less than all is not all", []time.Duration{50, 100, 150, 200, 250, 300, 350, 400, 450, 499, 500},
			[]time.Duration{1, 0}, overtime},
		{"half a CPU", []time.Duration{50, 75, 100, 125, 150, 175, 200, 225, 250, 275, 300, 325, 350, 375, 400, 425, 450, 475, 500},
			[]time.Duration{25, 0}, overtime},
		{"frozen from the beginning: the first slice only is lost", []time.Duration{0, 0, 0, 50}, nil, inTime},
		{"a pause that counts: no more counts than was waited for", []time.Duration{50, 60_000, 60_050}, nil, inTime},
		{"the same, ahead of the clock's first reading", []time.Duration{60_000, 60_050}, nil, inTime},
	} {
		var r ration
		require.Equal(t, c.name, 50*time.Millisecond, r.begin(500*time.Millisecond))
		for i, ms := range c.cpu {
			next, outcome := r.fired((start + ms) * time.Millisecond)
			want, end := time.Duration(50), inTime
			if n := len(c.cpu) - i; n <= len(c.last) {
				want = c.last[len(c.last)-n]
			}
			if i == len(c.cpu)-1 {
				end = c.end
			}
			if next != want*time.Millisecond || outcome != end {
				t.Fatalf("%s: step %d: %v and %v, want %d ms and %v", c.name, i, next, outcome, want, end)
			}
		}
	}
}

// A limit of a slice or less is wall-clock time.
func TestShortRations(t *testing.T) {
	for limit, first := range map[time.Duration]time.Duration{
		0: 0, time.Microsecond: time.Microsecond, leastSlice: leastSlice, leastSlice + 1: leastSlice,
		10 * leastSlice: leastSlice, 20 * leastSlice: 2 * leastSlice,
	} {
		var r ration
		require.Equal(t, limit, first, r.begin(limit))
		_, outcome := r.fired(time.Hour)
		require.Equal(t, limit, limit <= leastSlice, outcome == overtime)
	}
}
