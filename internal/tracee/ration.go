package tracee

import "time"

// ration is the time that a list may take, and how much of it is used up. What counts is CPU time,
// of the child and of the monitor's thread: on a machine that stands still, or is busy with other
// work, a block that ends soon enough would else not.
//
// A list hardly ever lasts for a slice of its limit, so only then is the CPU clock read at all, and the
// first slice counts as used. Later, no more counts than the timer was set for: after the pause of a
// virtual machine some kernels charge it to the process that ran.
type ration struct {
	limit time.Duration
	armed time.Duration // for so long the timer was set, in all
	asked bool
	began time.Duration // what the CPU clock showed when the list began, if the first slice was used
}

const (
	slicesPerLimit = 10
	// The kernel brings another process's CPU time up to date at its ticks, 1 to 10 ms apart
	// (thread_group_cputime, kernel/sched/cputime.c): there is no use in asking much more often.
	leastSlice = time.Millisecond
	// A list that gets less than a twentieth of a CPU is given up, or a frozen child would hang the run.
	patience = 20
)

// outcome is what becomes of a list.
type outcome int

const (
	inTime   outcome = iota
	overtime         // it used up its limit
	starved          // it hardly got a CPU
)

// begin starts a list and says when to ask for the first time.
func (r *ration) begin(limit time.Duration) time.Duration {
	*r = ration{limit: limit, armed: min(limit, max(limit/slicesPerLimit, leastSlice))}
	return r.armed
}

// fired is asked, with what the CPU clock shows, each time that the timer fires. A list that is in
// time is to be asked about again after next.
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
