package invariants

// NewPages counts the pages that the second half of the copies touches and the first does not. A block that touches
// new pages in every copy has no steady state in one set of pages.
func NewPages(t Trace) int {
	early, late := map[uint64]bool{}, map[uint64]bool{}
	for _, a := range t.Accesses {
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
