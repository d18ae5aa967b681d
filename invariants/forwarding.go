package invariants

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// Forwards is what the loads of a trace's last iteration have of earlier stores.
type Forwards struct {
	Fed int // loads that an earlier store fed
	// Self counts those that it feeds only because registers or words of memory start equal: the store names the address
	// by other registers, or in another iteration by an index from another place of memory. Such a dependency is the
	// initial state's, not the block's.
	Self int
	// Apart are elements of memory by which such indices would differ; none if Self counts no index.
	Apart initial.Elements
}

// Forwarding finds which loads meet stores.
func Forwarding(t Trace, core Core) (f Forwards) {
	recent := stores{room: core.StoreBuffer}
	for _, a := range t.Accesses {
		if a.Read && a.Copy == t.Copies-1 {
			if n := recent.feeds(&a); n > 0 {
				f.Fed++
				store := recent.back(n)
				lookedUp, elements := t.lookedUp(&a, store)
				if lookedUp || t.otherRegisters(&a, store) {
					f.Self++
				}
				if f.Apart.Width == 0 {
					f.Apart = elements
				}
			}
		}
		if a.Write {
			recent.add(a)
		}
	}
	return f
}

// otherRegisters reports whether two accesses name their addresses by different registers.
func (t Trace) otherRegisters(a, b *asm.Access) bool {
	x, y := t.Insts[a.Inst].Mem[a.Mem], t.Insts[b.Inst].Mem[b.Mem]
	return x.Base != y.Base || x.Index != y.Index || x.Segment != y.Segment
}

// lookedUp reports whether a load and a store of an earlier iteration take their address from memory, each from another
// place, and elements that would set them apart.
func (t Trace) lookedUp(load, store *asm.Access) (yes bool, elements initial.Elements) {
	if load.Copy == store.Copy {
		return false, elements
	}
	source, from, itself := t.source(load)
	if source < 0 || itself {
		return itself, elements
	}
	places := map[int]uint64{} // by the copy
	for _, a := range t.Accesses {
		if a.Inst == source && a.Read {
			places[a.Copy] = a.Addr
		}
	}
	if places[load.Copy] == places[store.Copy] {
		return false, elements
	}
	scale := max(1, int(t.Insts[load.Inst].Mem[load.Mem].Scale))
	if from.Width <= 8 {
		elements = initial.Elements{Width: from.Width, Step: uint64(max(1, load.Width/scale))}
	}
	return true, elements
}

// source returns the last instruction before an access that loads a part of its address, -1 if none does, and where from;
// itself: the address of that load was loaded by it, too, as in a list.
func (t Trace) source(a *asm.Access) (inst int, from asm.Mem, itself bool) {
	wanted := pointers(t.Insts[a.Inst].Mem[a.Mem])
	for i := a.Inst - 1; i >= 0; i-- {
		reads, writes := t.Insts[i].Dataflow()
		if writes.GPR&wanted == 0 {
			continue
		}
		for _, m := range t.Insts[i].Mem {
			if m.Read && !m.Implicit {
				return i, m, pointers(m)&writes.GPR != 0
			}
		}
		wanted = wanted&^writes.GPR | reads.GPR
	}
	return -1, from, false
}

// pointers are the general registers in an address.
func pointers(m asm.Mem) (set uint16) {
	for _, r := range [...]asm.Register{m.Base, m.Index} {
		if n, ok := r.GPR(); ok {
			set |= 1 << n
		}
	}
	return set
}
