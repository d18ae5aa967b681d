package invariants

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// Trace is every access of one run of the longer image, in program order, and the frame that
// each of its pages stands on.
type Trace struct {
	Accesses []asm.Access
	Copies   int
	Frame    map[uint64]int // by page address
	Insts    []asm.Inst
}

// Core is what of a core decides about aliasing and residency.
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

// Finding is what a rule says: evidence that it held, or the rejection.
type Finding struct {
	Evidence  Evidence
	Rejection *verdict.Rejection
	// Copy is the first copy of the block that broke it: fewer copies would not have.
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

// Contained holds every access to the pages that were mapped for the block. Bbprof's own
// pages are there too, and a block that forges their address would read or change them
// without a fault.
func Contained(t Trace) Finding {
	at := lookup{of: t.Frame}
	for _, a := range t.Accesses {
		for p := a.Addr &^ within; p < a.Addr+uint64(a.Width); p += page {
			if !at.maps(p) {
				if layout.Owns(a.Addr, uint64(a.Width)) {
					return t.broken(verdict.Unmappable, a, "%#x is in bbprof's own region", a.Addr)
				}
				return t.broken(verdict.Unmappable, a, "%s of %d bytes at %#x, where no page was mapped: the block changes what it does from run to run", kind(a), a.Width, a.Addr)
			}
		}
	}
	return Finding{}
}

// Split finds accesses that cross a cache line. Wider ones than a line (xsave, fxsave) take
// several lines by nature and count only if they do not start at one.
func Split(t Trace) Finding {
	n := 0
	var first asm.Access
	for _, a := range t.Accesses {
		if splits(a) {
			if n == 0 {
				first = a
			}
			n++
		}
	}
	if n > 0 {
		return t.broken(verdict.Misaligned, first, "%d of %d accesses cross a %d-byte line, the first %s of %d bytes at %#x",
			n, len(t.Accesses), line, kind(first), first.Elem, first.Addr)
	}
	return held(verdict.Misaligned, "none of %d accesses crosses a %d-byte line", len(t.Accesses), line)
}

func splits(a asm.Access) bool {
	if a.Elem > line {
		return a.Addr%line != 0
	}
	for addr := a.Addr; addr < a.Addr+uint64(a.Width); addr += uint64(a.Elem) {
		if addr%line+uint64(a.Elem) > line {
			return true
		}
		if addr%line == 0 && line%a.Elem == 0 {
			return false // from an aligned start on, elements never cross
		}
	}
	return false
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

// Alias4K finds loads that overlap, in the low 12 bits of the address alone, a store that may
// still be in the store buffer: the core compares those bits first and delays the load (Intel
// Optimization Manual, "4-KByte aliasing"). As many stores as the buffer has entries count
// as still there, whatever stands between, which is conservative. Two pages on one frame are
// AliasFrame's: there the overlap is real.
func Alias4K(t Trace, core Core) Finding {
	recent := newStores(core.StoreBuffer)
	loads := 0
	var load, store asm.Access
	for _, a := range t.Accesses {
		if a.Read {
			if n := recent.aliases(t, a); n > 0 {
				if loads == 0 {
					load, store = a, recent.back(n)
				}
				loads++
			}
		}
		if a.Write {
			recent.add(a)
		}
	}
	if loads > 0 {
		return t.broken(verdict.Alias4K, load, "%d load(s) meet one of the %d stores before them with equal low 12 bits: the first loads %d bytes at %#x after instruction %d stored %d bytes at %#x",
			loads, core.StoreBuffer, load.Width, load.Addr, store.Inst+1, store.Width, store.Addr)
	}
	return held(verdict.Alias4K, "no load overlaps one of the %d stores before it in the low 12 bits of the address alone", core.StoreBuffer)
}

// apart reports whether two accesses overlap within pages that stand on different frames: not
// a byte that both access, then. A rep string operation spans pages, each with a frame.
func (t Trace) apart(a, b asm.Access) bool {
	for p := a.Addr &^ within; p < a.Addr+uint64(a.Width); p += page {
		for q := b.Addr &^ within; q < b.Addr+uint64(b.Width); q += page {
			from := max(a.Addr, p) - p
			to := min(a.Addr+uint64(a.Width)-p, page)
			if from+q < b.Addr+uint64(b.Width) && b.Addr < to+q && t.Frame[p] != t.Frame[q] {
				return true
			}
		}
	}
	return false
}

func overlap(a, b asm.Access) bool {
	return a.Addr < b.Addr+uint64(b.Width) && b.Addr < a.Addr+uint64(a.Width)
}

// overlap12 is overlap of the low 12 bits, which wrap around: a quick look ahead of apart.
func overlap12(a, b asm.Access) bool {
	return (a.Addr-b.Addr)&within < uint64(b.Width) || (b.Addr-a.Addr)&within < uint64(a.Width)
}

// AliasFrame finds two pages that use one line of one frame. With a store among them that
// makes a dependency that the program does not have. Loads alone suffer where the L1D way
// is predicted from the linear address.
func AliasFrame(t Trace, core Core) Finding {
	users := make([][page / line]user, t.lastFrame()+1)
	n := 0
	var last asm.Access
	var other uint64
	at := lookup{of: t.Frame}
	for _, a := range t.Accesses {
		for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
			u := &users[at.frame(addr)][addr&within/line]
			if !u.used {
				*u = user{used: true, page: addr &^ within}
			}
			was := u.harmful(core)
			if p := addr &^ within; p != u.page {
				u.several, u.other = true, p
			}
			u.stored = u.stored || a.Write
			if !was && u.harmful(core) {
				n++
				last, other = a, u.page
				if addr&^within == u.page {
					other = u.other
				}
			}
		}
	}
	if n > 0 {
		return t.broken(verdict.AliasFrame, last, "%d line(s) of a frame are used through two pages, such as %#x by %#x and by the page at %#x", n, last.Addr&within&^(line-1), last.Addr, other)
	}
	return held(verdict.AliasFrame, "no line of a frame is used through two pages")
}

// lookup finds frames; successive accesses mostly are to one page.
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

// user is who used a line of a frame.
type user struct {
	used    bool
	page    uint64 // the first page
	other   uint64 // the latest that is not the first
	several bool   // whether there is one
	stored  bool
}

func (u *user) harmful(core Core) bool { return u.several && (u.stored || core.WayPredicted) }

// flushes take a line out of L1D, or write it back, each time (SDM vol. 2): the block's own doing,
// which no context and no repetition changes.
var flushes = []string{"clflush", "clflushopt", "clwb"}

// Residency counts the lines of each L1D set, bbprof's own in the same sets included, and
// infers from them that nothing is evicted. L1D is indexed by the address within a page and
// tagged by the physical one, so pages on one frame share their lines. Instructions that move lines
// besides are not followed: then nothing is inferred, and a block that flushes lines is rejected.
func Residency(t Trace, core Core, own [page / line]int) Finding {
	if i := slices.IndexFunc(t.Insts, func(in asm.Inst) bool { return slices.Contains(flushes, in.Mnemonic) }); i >= 0 {
		return Finding{Rejection: &verdict.Rejection{Reason: verdict.L1DMiss, Inst: t.Insts[i].Verdict(i), Detail: fmt.Sprintf(
			"the block itself takes lines out of L1D or writes them back (%s): its time is that of the memory behind", t.Insts[i].Mnemonic)}}
	}
	used := make([][page / line]bool, t.lastFrame()+1)
	at := lookup{of: t.Frame}
	lines, perSet, full := 0, own, -1
	for _, a := range t.Accesses {
		for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
			set := addr & within / line
			if u := &used[at.frame(addr)][set]; !*u {
				*u = true
				lines++
				if perSet[set]++; perSet[set] == core.L1DWays+1 && full < 0 {
					full = a.Copy
				}
			}
		}
	}
	worst := slices.Max(perSet[:])
	if worst > core.L1DWays {
		return Finding{Copy: max(full, 0), Rejection: &verdict.Rejection{Reason: verdict.L1DMiss, Detail: fmt.Sprintf(
			"%d lines, bbprof's own included, share an L1D set of %d ways", worst, core.L1DWays)}}
	}
	if i := slices.IndexFunc(t.Insts, func(in asm.Inst) bool { return asm.StateOf([]asm.Inst{in}).CacheControl }); i >= 0 {
		return Finding{Evidence: Evidence{verdict.L1DMiss, Unchecked, fmt.Sprintf(
			"%s moves lines into or out of the caches beside what it accesses", t.Insts[i].Mnemonic)}}
	}
	return held(verdict.L1DMiss, "lines used: %d, frames: %d; the fullest set holds %d lines with bbprof's own, of %d ways", lines, t.frames(), worst, core.L1DWays)
}

// lastFrame is the highest number of a frame.
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

// SelfForwarding counts the loads of one iteration, the last of the trace, that a store fed only
// because two registers start equal: the store and the load name their address by different
// registers. Such a dependency is an artefact of the initial state, not of the block.
func SelfForwarding(t Trace, core Core) (loads int, example string) {
	recent := newStores(core.StoreBuffer)
	for _, a := range t.Accesses {
		if a.Read && a.Copy == t.Copies-1 {
			if n := recent.feeds(a); n > 0 && t.otherRegisters(a, recent.back(n)) {
				if loads == 0 {
					example = fmt.Sprintf("instruction %d loads at %#x what instruction %d stored", a.Inst+1, a.Addr, recent.back(n).Inst+1)
				}
				loads++
			}
		}
		if a.Write {
			recent.add(a)
		}
	}
	return loads, example
}

// otherRegisters reports whether two accesses name their addresses by different registers.
func (t Trace) otherRegisters(a, b asm.Access) bool {
	x, y := t.Insts[a.Inst].Mem[a.Mem], t.Insts[b.Inst].Mem[b.Mem]
	return x.Base != y.Base || x.Index != y.Index || x.Segment != y.Segment
}

// NewPages is how many pages the second half of the copies touches that the first did not:
// a block that walks on never has a steady state in one set of pages.
func NewPages(t Trace) int {
	early, late := map[uint64]bool{}, map[uint64]bool{}
	var last asm.Access
	for i, a := range t.Accesses {
		if i > 0 && (a.Copy < t.Copies/2) == (last.Copy < t.Copies/2) && a.Addr&^within == last.Addr&^within && a.Addr&within+uint64(a.Width) <= page {
			continue // seen with the one before
		}
		last = a
		for p := a.Addr &^ within; p < a.Addr+uint64(a.Width); p += page {
			if a.Copy < t.Copies/2 {
				early[p] = true
			} else if !early[p] {
				late[p] = true
			}
		}
	}
	return len(late)
}
