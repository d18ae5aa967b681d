// Package pmu counts what a process does by the CPU's performance counters, through
// perf_event_open(2), in user mode alone.
package pmu

// Event is something that a CPU counts.
type Event uint64

// Hardware events by their generic numbers (enum perf_hw_id, linux/perf_event.h).
const (
	Cycles       Event = 0 // core cycles
	Instructions Event = 1 // retired instructions
)

// Scope is whose events are counted.
type Scope bool

const (
	Thread Scope = false // one thread's
	Family Scope = true  // a process's and those of all that it starts
)
