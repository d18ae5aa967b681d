package profiler

import (
	"time"

	"github.com/bbprof/bbprof/internal/tracee"
)

// mapLimit is CPU time for everything that happens to a block before it is timed, in all initial
// states: a run can take so long that hundreds of them, a page each, take minutes.
const mapLimit = time.Second

// allowance is CPU time for several runs of a block and what happens between them: of the thread and
// its children, so that it lasts as many runs on a busy machine as on an idle one.
type allowance struct {
	s     *session
	limit time.Duration
	began time.Time

	child *tracee.Tracee
	from  time.Duration // its CPU time when it began to count
	past  time.Duration // what others used that are gone
}

// allow begins an allowance.
func (s *session) allow(limit time.Duration) *allowance {
	return &allowance{s: s, limit: limit, began: time.Now(), child: s.child, from: s.child.CPUTime()}
}

// over reports whether it is used up.
func (a *allowance) over() bool {
	if a.child != a.s.child {
		a.past += a.child.CPUTime() - a.from
		a.child, a.from = a.s.child, 0
	}
	if time.Since(a.began) <= a.limit {
		return false // whatever the CPU time is, which is dearer to ask for
	}
	return a.past+a.child.CPUTime()-a.from > a.limit
}
