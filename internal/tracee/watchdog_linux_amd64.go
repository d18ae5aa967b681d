package tracee

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog kills a child that overstays. One timer serves all of a child's runs.
type watchdog struct {
	kill  func()
	clock func() time.Duration // CPU time
	timer *time.Timer
	ended chan struct{} // the timer fired, and that was the last time for this list

	mu      sync.Mutex // guards what follows: the timer fires on a goroutine of its own
	on      bool       // a list is under way
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
	if w.on { // else the list came to its end just now
		var next time.Duration
		if next, w.outcome = w.ration.fired(w.clock()); w.outcome == inTime {
			w.timer.Reset(next)
			return
		}
		w.kill()
	}
	w.ended <- struct{}{}
}

// stop ends a list's time and says what became of it. Unless it was in time, kill has run. The next
// list will not be blamed for this one.
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

// CPUTime is for how long the child and the monitor's thread have had a CPU since Launch. That of a
// child that has ended is what it was when it was last asked for. Any goroutine may ask.
func (t *Tracee) CPUTime() time.Duration {
	t.mortal.Lock()
	defer t.mortal.Unlock()
	if t.pid > 0 {
		t.used = t.ask()
	}
	return t.used
}

// ask is CPUTime of a child that has not been reaped.
func (t *Tracee) ask() time.Duration {
	child, err := cpuClock(t.pid, 0)
	if err != nil {
		return time.Since(t.launched) // it has been all along
	}
	thread, err := cpuClock(t.thread, perThread)
	if err != nil {
		return time.Since(t.launched)
	}
	return child + thread - t.before
}

// perThread asks for the time of a thread of this process.
const perThread = 4 // CPUCLOCK_PERTHREAD_MASK (linux/posix-timers.h)

// cpuClock reads a CPU clock by the number that the kernel gives it (make_process_cpuclock,
// linux/posix-timers.h), which is what clock_getcpuclockid(3) returns.
func cpuClock(id, flags int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^id<<3|scheduled|flags), &ts)
	return time.Duration(ts.Nano()), err
}
