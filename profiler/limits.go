package profiler

import (
	"time"

	"github.com/bbprof/bbprof/internal/tracee"
)

// mapLimit is the CPU time for all steps before a block is timed, in all initial states. Without it,
// hundreds of long runs, one for each page, could take minutes.
const mapLimit = time.Second

// cpuBudget limits the CPU time of several runs of a block and of the work between them. It counts the
// CPU time of the thread and its children, so that a busy machine gets as many runs as an idle one.
type cpuBudget struct {
	s     *session
	limit time.Duration
	began time.Time

	child *tracee.Tracee
	from  time.Duration // CPU time of child that does not count
	past  time.Duration // CPU time of earlier children
}

func (s *session) startBudget(limit time.Duration) *cpuBudget {
	return &cpuBudget{s: s, limit: limit, began: time.Now(), child: s.child, from: s.child.CPUTime()}
}

func (a *cpuBudget) exhausted() bool {
	if a.child != a.s.child {
		a.past += a.child.CPUTime() - a.from
		a.child, a.from = a.s.child, 0
	}
	if time.Since(a.began) <= a.limit {
		return false // CPU time is more expensive to read
	}
	return a.past+a.child.CPUTime()-a.from > a.limit
}
