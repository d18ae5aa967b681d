package profiler

import "time"

// mapLimit is the CPU time for all steps before a block is timed, in all initial states. Without it,
// hundreds of long runs, one for each page, could take minutes.
const mapLimit = time.Second

// startBudget returns a function that reports whether several runs of a block, and the work between them, have used up a limit of CPU time. It
// counts the CPU time of the thread and its children, so that a busy machine gets as many runs as an idle one.
func (s *session) startBudget(limit time.Duration) (exhausted func() bool) {
	began, from := time.Now(), s.cpuTime()
	return func() bool {
		return time.Since(began) > limit && s.cpuTime()-from > limit // CPU time is more expensive to read
	}
}

// cpuTime returns the CPU time of all children so far, and of the thread beside them.
func (s *session) cpuTime() time.Duration {
	if s.child == nil {
		return s.spent
	}
	return s.spent + s.child.CPUTime()
}
