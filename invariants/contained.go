package invariants

import (
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/verdict"
)

// Contained checks that every access is to a page that was mapped for the block. A block that forges the address of
// one of bbprof's own pages would read or change it without a fault.
func Contained(t Trace) Finding {
	for _, a := range t.Accesses {
		for p := a.Addr &^ within; p < a.Addr+uint64(a.Width); p += page {
			if _, mapped := t.Frame[p]; !mapped {
				if layout.Owns(a.Addr, uint64(a.Width)) {
					return t.broken(verdict.Unmappable, a, "%#x is in bbprof's own region", a.Addr)
				}
				return t.broken(verdict.Unmappable, a, "%s of %d bytes at %#x, where no page was mapped: the block changes what it does from run to run",
					kind(a), a.Width, a.Addr)
			}
		}
	}
	return Finding{}
}
