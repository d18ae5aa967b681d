package invariants

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// Misaligned finds accesses that cross a cache line. Accesses wider than a line (xsave, fxsave) count only if they do
// not start at a line.
func Misaligned(t Trace) Finding {
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
	}
	return false
}
