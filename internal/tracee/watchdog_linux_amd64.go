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
		child, err1 := cpuClock(t.pid, 0)
		thread, err2 := cpuClock(t.thread, perThread)
		if t.used = child + thread - t.before; err1 != nil || err2 != nil {
			t.used = time.Since(t.launched) // as if it had run all along
		}
	}
	return t.used
}

// perThread selects the clock of a thread of this process.
const perThread = 4 // CPUCLOCK_PERTHREAD_MASK (linux/posix-timers.h)

// cpuClock reads a CPU clock by the kernel's number (make_process_cpuclock, linux/posix-timers.h).
func cpuClock(id, flags int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^id<<3|scheduled|flags), &ts)
	return time.Duration(ts.Nano()), err
}

// ration is the time limit of a list and the part used up. It counts CPU time of the child and the monitor's thread:
// otherwise a suspended or busy machine would fail a block that ends soon enough. The first slice of the limit counts
// as used; the CPU clock is only read after it. Later, at most the timer's interval counts: after the pause of a
// virtual machine some kernels charge it to the running process.
type ration struct {
	limit time.Duration
	armed time.Duration // total of the timer's intervals
	asked bool
	began time.Duration // CPU clock at the list's start, if the first slice was used
}

const (
	slicesPerLimit = 10
	// The kernel updates another process's CPU time at its ticks, 1 to 10 ms apart (thread_group_cputime,
	// kernel/sched/cputime.c), so reading it much more often is useless.
	leastSlice = time.Millisecond
	// A list that gets less than a twentieth of a CPU is given up; otherwise a frozen child would hang the run.
	patience = 20
)

type outcome int

const (
	inTime   outcome = iota
	overtime         // it used up its limit
	starved          // it hardly got a CPU
)

// begin starts a list and returns the timer's first interval.
func (r *ration) begin(limit time.Duration) time.Duration {
	*r = ration{limit: limit, armed: min(limit, max(limit/slicesPerLimit, leastSlice))}
	return r.armed
}

// fired handles the timer, given the CPU clock. For a list in time, next is the timer's next interval.
func (r *ration) fired(cpu time.Duration) (next time.Duration, _ outcome) {
	if !r.asked {
		r.asked, r.began = true, cpu-r.armed
	}
	left := r.limit - min(cpu-r.began, r.armed)
	switch {
	case left <= 0:
		return 0, overtime
	case r.armed >= patience*r.limit:
		return 0, starved
	}
	next = max(min(left, r.limit/slicesPerLimit), leastSlice)
	r.armed += next
	return next, inTime
}
