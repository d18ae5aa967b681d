package invariants

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// Trace lists the accesses of one run of the longer image in program order, with the frame of each
// page.
type Trace struct {
	Accesses []asm.Access
	Copies   int
	Frame    map[uint64]int // by page address
	Insts    []asm.Inst
}

// Core holds the sizes of a core that decide aliasing and residency.
type Core struct {
	L1DWays     int `json:"l1d_ways"`
	StoreBuffer int `json:"store_buffer_entries"`
	// WayPredicted says that the L1D way is predicted from the linear address, so that two
	// pages that use one line of a frame slow each other down without any store: AMD's
	// family 17h on (Software Optimization Guide, "L1 data cache", µtags).
	WayPredicted bool `json:"l1d_way_predicted"`
}

const (
	line   = 64
	page   = layout.PageSize
	within = page - 1
)

// Finding is a rule's outcome: evidence that it held, or the rejection.
type Finding struct {
	Evidence  Evidence
	Rejection *verdict.Rejection
	// Copy is the first copy of the block that violates the rule: fewer copies would not.
	Copy int
}

func held(reason verdict.Reason, format string, args ...any) Finding {
	return Finding{Evidence: Evidence{reason, Inferred, fmt.Sprintf(format, args...)}}
}

func (t Trace) broken(reason verdict.Reason, a asm.Access, format string, args ...any) Finding {
	addr := a.Addr
	return Finding{Copy: a.Copy, Rejection: &verdict.Rejection{
		Reason: reason, Detail: fmt.Sprintf(format, args...), Inst: t.Insts[a.Inst].Verdict(a.Inst), Address: &addr,
	}}
}

func kind(a asm.Access) string {
	switch {
	case a.Read && a.Write:
		return "a read and write"
	case a.Write:
		return "a store"
	}
	return "a load"
}

// lookup finds frames; successive accesses are mostly to one page.
type lookup struct {
	of   map[uint64]int
	page uint64
	last int
	any  bool
}

func (l *lookup) frame(addr uint64) int {
	if p := addr &^ within; !l.any || p != l.page {
		l.page, l.last, l.any = p, l.of[p], true
	}
	return l.last
}

// maps reports whether addr is on a mapped page.
func (l *lookup) maps(addr uint64) bool {
	if p := addr &^ within; !l.any || p != l.page {
		frame, ok := l.of[p]
		if !ok {
			return false
		}
		l.page, l.last, l.any = p, frame, true
	}
	return true
}

// lastFrame is the highest frame number.
func (t Trace) lastFrame() int {
	last := 0
	for _, f := range t.Frame {
		last = max(last, f)
	}
	return last
}

func (t Trace) frames() int {
	distinct := map[int]bool{}
	for _, f := range t.Frame {
		distinct[f] = true
	}
	return len(distinct)
}

// Extended is the trace of so many copies of a block of which each, in the second half of those that were traced, accesses what the copy before
// does, moved by as much as that copy moved it; ok is false of any other.
func (t Trace) Extended(copies int) (_ Trace, ok bool) {
	var by [][]asm.Access // by the copy
	for _, a := range t.Accesses {
		for len(by) <= a.Copy {
			by = append(by, nil)
		}
		by[a.Copy] = append(by[a.Copy], a)
	}
	last := len(by) - 1
	if last < 3 || last != t.Copies-1 {
		return t, false
	}
	moved := func(c, k int) uint64 { return by[c][k].Addr - by[c-1][k].Addr }
	for c := last/2 + 1; c <= last; c++ {
		if len(by[c]) != len(by[c-1]) {
			return t, false
		}
		for k, a := range by[c] {
			before := by[c-1][k]
			before.Addr, before.Copy = a.Addr, a.Copy
			if a != before || moved(c, k) != moved(last, k) {
				return t, false
			}
		}
	}
	t.Accesses = slices.Clone(t.Accesses)
	for c := last + 1; c < copies; c++ {
		for k, a := range by[last] {
			a.Copy, a.Addr = c, a.Addr+uint64(c-last)*moved(last, k)
			t.Accesses = append(t.Accesses, a)
		}
	}
	t.Copies = copies
	return t, true
}

// Pages is how many pages it touches.
func (t Trace) Pages() int {
	pages := map[uint64]bool{}
	for _, a := range t.Accesses {
		pages[a.Addr&^within] = true
		pages[(a.Addr+uint64(max(a.Width, 1))-1)&^within] = true
	}
	return len(pages)
}
