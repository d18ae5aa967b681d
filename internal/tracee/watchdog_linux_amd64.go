package tracee

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog kills a child that exceeds its limit. One timer serves all of a child's runs.
type watchdog struct {
	kill  func()
	clock func() time.Duration // CPU time
	timer *time.Timer
	ended chan struct{} // the timer fired for the last time for this list

	mu      sync.Mutex // guards the fields below: the timer fires on another goroutine
	on      bool       // a list is running
	ration  ration
	outcome outcome
}

func newWatchdog(clock func() time.Duration, kill func()) *watchdog {
	w := &watchdog{kill: kill, clock: clock, ended: make(chan struct{}, 1)}
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.timer.Stop()
	return w
}

func (w *watchdog) start(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on, w.outcome = true, inTime
	w.timer.Reset(w.ration.begin(limit))
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on { // otherwise the list has just ended
		var next time.Duration
		if next, w.outcome = w.ration.fired(w.clock()); w.outcome == inTime {
			w.timer.Reset(next)
			return
		}
		w.kill()
	}
	w.ended <- struct{}{}
}

// stop ends a list's time and returns its outcome. Unless the list was in time, kill has run. The next list will
// not be blamed for this one.
func (w *watchdog) stop() outcome {
	w.mu.Lock()
	if !w.on {
		w.mu.Unlock()
		return inTime
	}
	w.on = false
	fired := !w.timer.Stop()
	w.mu.Unlock()
	if fired {
		<-w.ended
	}
	return w.outcome
}

// CPUTime returns the CPU time of the child and the monitor's thread since Launch; for a child that has ended, the
// last value read. Any goroutine may call it.
func (t *Tracee) CPUTime() time.Duration {
	t.mortal.Lock()
	defer t.mortal.Unlock()
	if t.pid > 0 {
		t.used = t.ask()
	}
	return t.used
}

// ask returns CPUTime for an unreaped child.
func (t *Tracee) ask() time.Duration {
	child, err := cpuClock(t.pid, 0)
	if err != nil {
		return time.Since(t.launched) // as if it had run all along
	}
	thread, err := cpuClock(t.thread, perThread)
	if err != nil {
		return time.Since(t.launched)
	}
	return child + thread - t.before
}

// perThread selects the clock of a thread of this process.
const perThread = 4 // CPUCLOCK_PERTHREAD_MASK (linux/posix-timers.h)

// cpuClock reads a CPU clock by the number that the kernel assigns (make_process_cpuclock, linux/posix-timers.h),
// as returned by clock_getcpuclockid(3).
func cpuClock(id, flags int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^id<<3|scheduled|flags), &ts)
	return time.Duration(ts.Nano()), err
}
