package invariants

import "github.com/bbprof/bbprof/asm"

// Forwarding counts the loads of one iteration, the last of the trace, that an earlier store fed. Of these, self counts those that it
// fed only because two registers start equal: the store and the load name their address by different registers. Such a
// dependency is an artefact of the initial state, not of the block.
func Forwarding(t Trace, core Core) (fed, self int) {
	recent := newStores(core.StoreBuffer)
	for _, a := range t.Accesses {
		if a.Read && a.Copy == t.Copies-1 {
			if n := recent.feeds(a); n > 0 {
				fed++
				if t.otherRegisters(a, recent.back(n)) {
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
func (t Trace) otherRegisters(a, b asm.Access) bool {
	x, y := t.Insts[a.Inst].Mem[a.Mem], t.Insts[b.Inst].Mem[b.Mem]
	return x.Base != y.Base || x.Index != y.Index || x.Segment != y.Segment
}
