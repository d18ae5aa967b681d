package invariants

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// Trace lists the accesses of one run of the longer image in program order, with the frame of each page.
type Trace struct {
	Accesses []asm.Access
	Copies   int
	Frame    map[uint64]int // by page address
	Insts    []asm.Inst
}

// fingerprinted is how many copies a fingerprint covers, whatever the number of copies that were traced.
const fingerprinted = 16

// Fingerprint is a hash of the addresses and widths of the first copies' accesses, in order.
func (t Trace) Fingerprint() string {
	h := fnv.New64a()
	for _, a := range t.Accesses {
		if a.Copy < fingerprinted {
			fmt.Fprintf(h, "%x %d,", a.Addr, a.Width)
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Core holds the sizes of a core that decide aliasing and residency.
type Core struct {
	L1DWays     int `json:"l1d_ways"`
	StoreBuffer int `json:"store_buffer_entries"`
	DTLB        int `json:"dtlb_entries"` // 0: not known
	// WayPredicted says that the L1D way is predicted from the linear address, so that two pages that use one line of
	// a frame slow each other down without any store: AMD's family 17h on (Software Optimization Guide, "L1 data
	// cache", µtags).
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

func (t Trace) frame(addr uint64) int { return t.Frame[addr&^within] }

// frames are the numbers of the frames, ascending.
func (t Trace) frames() []int { return slices.Compact(slices.Sorted(maps.Values(t.Frame))) }

// lastFrame is the highest frame number.
func (t Trace) lastFrame() int {
	frames := append([]int{0}, t.frames()...)
	return frames[len(frames)-1]
}

func (t Trace) byCopy() [][]asm.Access {
	by := make([][]asm.Access, t.Copies)
	for _, a := range t.Accesses {
		by[a.Copy] = append(by[a.Copy], a)
	}
	return by
}

// Repeats reports whether each copy of the second half has the accesses of the copy before it.
func (t Trace) Repeats() bool {
	by := t.byCopy()
	if len(by) < 2 || len(by[0]) == 0 {
		return false
	}
	same := func(a, b asm.Access) bool {
		a.Copy = b.Copy
		return a == b
	}
	second := by[(len(by)-1)/2:]
	return !slices.ContainsFunc(second, func(c []asm.Access) bool { return !slices.EqualFunc(c, second[0], same) })
}

// extendedPeriod is the longest period of Extended: a block that loads indices from the word that fills memory, which
// has 8 bytes, repeats its steps after 8 copies at most.
const extendedPeriod = 8

// Extended extrapolates the trace to a number of copies. ok is false unless each copy of the second half repeats the
// accesses of the copy a period before, moved by that copy's step.
func (t Trace) Extended(copies int) (_ Trace, ok bool) {
	by := t.byCopy()
	period := 1
	for ; !advances(by, period); period *= 2 {
		if period == extendedPeriod {
			return t, false
		}
	}
	t.Accesses = slices.Clone(t.Accesses)
	for c := len(by); c < copies; c++ {
		next := slices.Clone(by[c-period])
		for k := range next {
			next[k].Copy, next[k].Addr = c, 2*next[k].Addr-by[c-2*period][k].Addr
		}
		by, t.Accesses = append(by, next), append(t.Accesses, next...)
	}
	t.Copies = copies
	return t, true
}

// advances reports whether each copy of the second half repeats the accesses of the copy a period before, moved by that copy's step.
func advances(by [][]asm.Access, period int) bool {
	first := (len(by)-1)/2 + 1 - period // the copies before have settled
	if first < 0 || len(by) < first+3*period {
		return false
	}
	for c := first + 2*period; c < len(by); c++ {
		one, two := by[c-period], by[c-2*period]
		if len(by[c]) != len(one) || len(one) != len(two) {
			return false
		}
		for k, a := range by[c] {
			moved := one[k]
			moved.Copy, moved.Addr = a.Copy, 2*one[k].Addr-two[k].Addr
			if a != moved {
				return false
			}
		}
	}
	return true
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
