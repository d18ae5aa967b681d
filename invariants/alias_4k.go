package invariants

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Alias4K finds loads that overlap, in the low 12 bits of the address alone, a store that may still be in the store
// buffer: the core compares those bits first and delays the load (Intel Optimization Manual, "4-KByte aliasing"). The
// last stores, as many as the buffer has entries, count as still there, which is conservative. Two pages on one frame
// are AliasFrame's case: there the overlap is real.
func Alias4K(t Trace, core Core) Finding {
	loads := 0
	var load, store asm.Access
	Aliasing(t, core, func(l, s asm.Access) {
		if loads == 0 {
			load, store = l, s
		}
		loads++
	})
	if loads > 0 {
		return t.broken(verdict.Alias4K, load, "%d load(s) meet one of the %d stores before them with equal low 12 bits: "+
			"the first loads %d bytes at %#x after instruction %d stored %d bytes at %#x",
			loads, core.StoreBuffer, load.Width, load.Addr, store.Inst+1, store.Width, store.Addr)
	}
	return held(verdict.Alias4K, "no load overlaps one of the %d stores before it in the low 12 bits of the address alone", core.StoreBuffer)
}

// Aliasing calls found for each load that violates Alias4K, with the youngest store that it aliases.
func Aliasing(t Trace, core Core, found func(load, store asm.Access)) {
	recent := stores{room: core.StoreBuffer}
	for _, a := range t.Accesses {
		if a.Read {
			if n := recent.aliases(t, &a); n > 0 {
				found(a, *recent.back(n))
			}
		}
		if a.Write {
			recent.add(a)
		}
	}
}

// apart reports whether two accesses overlap in the low 12 bits on pages of different frames, and so share no byte. A
// rep string operation spans pages, each with a frame.
func (t Trace) apart(a, b *asm.Access) bool {
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

func overlap(a, b *asm.Access) bool {
	return a.Addr < b.Addr+uint64(b.Width) && b.Addr < a.Addr+uint64(a.Width)
}

// overlap12 is overlap of the low 12 bits, which wrap around: a cheap test before apart.
func overlap12(a, b *asm.Access) bool {
	return (a.Addr-b.Addr)&within < uint64(b.Width) || (b.Addr-a.Addr)&within < uint64(a.Width)
}
