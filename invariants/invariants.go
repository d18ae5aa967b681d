// Package invariants holds the rules under which a throughput is ground truth, one function
// each. A rule looks at what is known of a run and returns evidence that it held, or the
// rejection that says how it did not.
package invariants

import (
	"fmt"

	"github.com/bbprof/bbprof/internal/space"
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

// Memory is what is known of a block's accesses without their addresses.
type Memory struct {
	Pages  int
	Frames int
	Loads  bool
	Stores bool
}

const noTrace = "the addresses within the pages are not known"

// L1D infers that all data stay in L1D. Caches are indexed and tagged by physical address
// within a page, so a frame takes one line of each set whatever pages stand on it. Control
// page and samples take another each; the list of words to restore holds 8 bytes for each
// 8 bytes of the frames that a block may write, so as many lines as they.
func L1D(m Memory, ways int) Evidence {
	lines := m.Frames + 2
	if m.Stores {
		lines += m.Frames
	}
	e := Evidence{Invariant: verdict.L1DMiss, Kind: Inferred}
	switch {
	case m.Pages == 0:
		e.Detail = "no page was touched"
	case lines <= ways:
		e.Detail = fmt.Sprintf("%d page(s) on %d frame(s) of %d bytes: at most %d lines per set with bbprof's own, of %d ways", m.Pages, m.Frames, space.PageSize, lines, ways)
	default:
		e.Kind = Unchecked
		e.Detail = fmt.Sprintf("%d frame(s) and bbprof's own lines may take %d lines per set, of %d ways", m.Frames, lines, ways)
	}
	return e
}

// L1I infers that all code stays in L1I.
func L1I(codeBytes, size int) Evidence {
	e := Evidence{Invariant: verdict.L1IMiss, Kind: Inferred, Detail: fmt.Sprintf("%d bytes of code, of %d", codeBytes, size)}
	if codeBytes > size {
		e.Kind = Unchecked
	}
	return e
}

// ContextSwitches reports what the kernel counted for the child; windows that saw a switch
// were dropped.
func ContextSwitches(kept, dropped int) Evidence {
	return Evidence{
		Invariant: verdict.ContextSwitch, Kind: Counted,
		Detail: fmt.Sprintf("0 in the %d windows kept (getrusage); %d window(s) that saw one were dropped", kept, dropped),
	}
}

// Misaligned says whether an access can have crossed a cache line.
func Misaligned(m Memory) Evidence {
	if m.Pages == 0 {
		return Evidence{verdict.Misaligned, Inferred, "no memory access"}
	}
	return Evidence{verdict.Misaligned, Unchecked, noTrace}
}

// Alias4K says whether a load can have met an earlier store with equal low address bits.
func Alias4K(m Memory) Evidence {
	switch {
	case !m.Loads || !m.Stores:
		return Evidence{verdict.Alias4K, Inferred, "it takes a load and a store"}
	case m.Pages < 2:
		return Evidence{verdict.Alias4K, Inferred, "all accesses are to one page"}
	}
	return Evidence{verdict.Alias4K, Unchecked, noTrace}
}

// AliasFrame says whether two pages can have used the same line of one frame.
func AliasFrame(m Memory) Evidence {
	switch {
	case m.Pages < 2:
		return Evidence{verdict.AliasFrame, Inferred, "all accesses are to one page"}
	case m.Frames >= m.Pages:
		return Evidence{verdict.AliasFrame, Inferred, "each page has a frame of its own"}
	}
	return Evidence{verdict.AliasFrame, Unchecked, noTrace}
}
