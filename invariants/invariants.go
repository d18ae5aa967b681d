// Package invariants holds the rules under which a throughput is ground truth, one function
// each. A rule looks at what is known of a run and returns evidence that it held, or the
// rejection that says how it did not.
package invariants

import (
	"fmt"

	"github.com/bbprof/bbprof/verdict"
)

// Kind is how much stands behind a piece of evidence.
type Kind string

const (
	Counted   Kind = "counted"   // a counter said so
	Inferred  Kind = "inferred"  // it follows from what the block can touch and the sizes of the caches
	Unchecked Kind = "unchecked" // nothing was found out
)

// Evidence is what is known about one invariant of an accepted result.
type Evidence struct {
	Invariant verdict.Reason `json:"invariant"` // the reason that its violation would have been
	Kind      Kind           `json:"kind"`
	Detail    string         `json:"detail"`
}

// L1I infers that all code stays in L1I.
func L1I(codeBytes, size int) Finding {
	if codeBytes > size {
		return Finding{Rejection: &verdict.Rejection{Reason: verdict.L1IMiss, Detail: fmt.Sprintf(
			"%d bytes of code run, and L1I holds %d; use fewer copies", codeBytes, size)}}
	}
	return held(verdict.L1IMiss, "%d bytes of code, of %d", codeBytes, size)
}

// ContextSwitches reports what the kernel counted for the child; windows that saw a switch
// were dropped.
func ContextSwitches(kept, dropped int) Evidence {
	return Evidence{
		Invariant: verdict.ContextSwitch, Kind: Counted,
		Detail: fmt.Sprintf("0 in the %d windows kept (getrusage); %d window(s) that saw one were dropped", kept, dropped),
	}
}
