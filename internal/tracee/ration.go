package tracee

import "time"

// ration is the time limit of a list and the part used up. It counts CPU time of the child and the monitor's thread: otherwise a suspended or busy
// machine would fail a block that ends soon enough. The first slice of the limit counts as used; the CPU clock is only read after it. Later, at most
// the timer's interval counts: after the pause of a virtual machine some kernels charge it to the running process.
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

// outcome is how a list ended.
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
