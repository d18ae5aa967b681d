// Package invariants holds the rules under which a throughput is ground truth, one function
// each. A rule looks at what is known of a run and returns evidence that it held, or the
// rejection that says how it did not.
//
// A rule is named for the reason of its rejection and stands in the file of that name: misaligned.go,
// alias_4k.go (a load and an earlier store with equal low 12 bits), alias_frame.go (two pages, one line
// of one frame), l1d_miss.go, l1i_miss.go.
// trace.go has what they read, stores.go the store buffer that two of them imitate, and predict.go
// what addresses alone say of an iteration.
package invariants

import (
	"fmt"

	"github.com/bbprof/bbprof/verdict"
)

// Kind is how well a piece of evidence is founded.
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

// ContextSwitches reports what the kernel counted for the child; windows that saw a switch
// were dropped.
func ContextSwitches(kept, dropped int) Evidence {
	return Evidence{
		Invariant: verdict.ContextSwitch, Kind: Counted,
		Detail: fmt.Sprintf("0 in the %d windows kept (getrusage); %d window(s) that saw one were dropped", kept, dropped),
	}
}
