package invariants

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
)

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

// Carried counts the loads of one iteration, the last of the trace, that a store of an iteration before fed.
func Carried(t Trace, core Core) (loads int) {
	recent := newStores(core.StoreBuffer)
	for _, a := range t.Accesses {
		if a.Read && a.Copy == t.Copies-1 {
			if n := recent.feeds(a); n > 0 && recent.back(n).Copy < a.Copy {
				loads++
			}
		}
		if a.Write {
			recent.add(a)
		}
	}
	return loads
}
