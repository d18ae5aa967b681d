package invariants

import "github.com/bbprof/bbprof/asm"

// Forwarding counts the loads of the trace's last iteration that an earlier store fed. self counts those whose store
// names the address by other registers, so that it feeds them only because registers start equal: such a dependency
// is the initial state's, not the block's.
func Forwarding(t Trace, core Core) (fed, self int) {
	recent := newStores(core.StoreBuffer)
	for _, a := range t.Accesses {
		if a.Read && a.Copy == t.Copies-1 {
			if n := recent.feeds(&a); n > 0 {
				fed++
				if t.otherRegisters(&a, recent.back(n)) {
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
