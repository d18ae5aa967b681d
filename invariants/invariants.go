// Package invariants holds the rules under which a throughput is ground truth, one function each. A rule examines a
// run and returns evidence that it held, or a rejection that says how it was violated.
//
// A rule is named for the reason of its rejection and stands in the file of that name: misaligned.go, alias_4k.go (a
// load and an earlier store with equal low 12 bits), alias_frame.go (two pages, one line of one frame), l1d_miss.go,
// l1i_miss.go, dtlb_miss.go. trace.go has their input, stores.go the store buffer that two of them model, and predict.go the
// prediction from addresses alone.
package invariants

import (
	"fmt"

	"github.com/bbprof/bbprof/verdict"
)

// Kind is the strength of a piece of evidence.
type Kind string

const (
	Counted   Kind = "counted"   // by a hardware or kernel counter
	Inferred  Kind = "inferred"  // it follows from the trace and the sizes of the caches
	Unchecked Kind = "unchecked" // not examined
)

// Evidence is the evidence for one invariant of an accepted result.
type Evidence struct {
	Invariant verdict.Reason `json:"invariant"` // the reason for which its violation rejects
	Kind      Kind           `json:"kind"`
	Detail    string         `json:"detail"`
}

// ContextSwitches reports what the kernel counted for the child; windows that saw a switch were dropped.
func ContextSwitches(kept, dropped int) Evidence {
	return Evidence{
		Invariant: verdict.ContextSwitch, Kind: Counted,
		Detail: fmt.Sprintf("0 in the %d windows kept (getrusage); %d window(s) that saw one were dropped", kept, dropped),
	}
}

// IdleCore reports that no other hardware thread slowed the windows kept: each stands between two readings of the
// contention probe at its idle level in cycles; others were dropped. A level of 0 says that there was no probe.
func IdleCore(kept, dropped int, level float64) Evidence {
	if level == 0 {
		return Evidence{verdict.BusyCore, Unchecked, "the clock counts cycles, whoever uses the core beside"}
	}
	return Evidence{
		Invariant: verdict.BusyCore, Kind: Counted,
		Detail: fmt.Sprintf("each of the %d windows kept is between two idle readings of the contention probe (%.0f cycles); %d were dropped", kept, level, dropped),
	}
}
