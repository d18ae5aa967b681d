package invariants

import (
	"github.com/bbprof/bbprof/asm"
)

// NewPages counts the pages that the second half of the copies touches and the first does not. A block that touches
// new pages in every copy has no steady state in one set of pages.
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
