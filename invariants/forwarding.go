package invariants

import "github.com/bbprof/bbprof/asm"

// Forwarding counts the loads of the trace's last iteration that an earlier store fed. self counts those that it feeds
// only because registers or words of memory start equal: the store names the address by other registers, or in another
// iteration by an index from another place of memory. Such a dependency is the initial state's, not the block's.
func Forwarding(t Trace, core Core) (fed, self int) {
	recent := newStores(core.StoreBuffer)
	for _, a := range t.Accesses {
		if a.Read && a.Copy == t.Copies-1 {
			if n := recent.feeds(&a); n > 0 {
				fed++
				if store := recent.back(n); t.otherRegisters(&a, store) || t.lookedUp(&a, store) {
					self++
				}
			}
		}
		if a.Write {
			recent.add(a)
		}
	}
	return fed, self
}

// otherRegisters reports whether two accesses name their addresses by different registers.
func (t Trace) otherRegisters(a, b *asm.Access) bool {
	x, y := t.Insts[a.Inst].Mem[a.Mem], t.Insts[b.Inst].Mem[b.Mem]
	return x.Base != y.Base || x.Index != y.Index || x.Segment != y.Segment
}

// lookedUp reports whether a load and a store of an earlier iteration take their address from memory, each from another
// place.
func (t Trace) lookedUp(load, store *asm.Access) bool {
	if load.Copy == store.Copy {
		return false
	}
	source, itself := t.source(load)
	if source < 0 || itself {
		return itself
	}
	from := map[int]uint64{} // by the copy
	for _, a := range t.Accesses {
		if a.Inst == source && a.Read {
			from[a.Copy] = a.Addr
		}
	}
	return from[load.Copy] != from[store.Copy]
}

// source returns the last instruction before an access that loads a part of its address, -1 if none does; itself: the
// address of that load was loaded by it, too, as in a list.
func (t Trace) source(a *asm.Access) (inst int, itself bool) {
	wanted := pointers(t.Insts[a.Inst].Mem[a.Mem])
	for i := a.Inst - 1; i >= 0; i-- {
		reads, writes := t.Insts[i].Dataflow()
		if writes.GPR&wanted == 0 {
			continue
		}
		for _, m := range t.Insts[i].Mem {
			if m.Read && !m.Implicit {
				return i, pointers(m)&writes.GPR != 0
			}
		}
		wanted = wanted&^writes.GPR | reads.GPR
	}
	return -1, false
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
