package invariants

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// AliasFrame finds two pages that use one line of one frame. If one of them stores, that makes a
// dependency that the program does not have. Loads alone are slower only where the L1D way is
// predicted from the linear address.
func AliasFrame(t Trace, core Core) Finding {
	users := make([][page / line]user, t.lastFrame()+1)
	n := 0
	var last asm.Access
	var other uint64
	at := lookup{of: t.Frame}
	for _, a := range t.Accesses {
		for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
			u := &users[at.frame(addr)][addr&within/line]
			if !u.used {
				*u = user{used: true, page: addr &^ within}
			}
			was := u.harmful(core)
			if p := addr &^ within; p != u.page {
				u.several, u.other = true, p
			}
			u.stored = u.stored || a.Write
			if !was && u.harmful(core) {
				n++
				last, other = a, u.page
				if addr&^within == u.page {
					other = u.other
				}
			}
		}
	}
	if n > 0 {
		return t.broken(verdict.AliasFrame, last, "%d line(s) of a frame are used through two pages, such as %#x by %#x and by the page at %#x", n, last.Addr&within&^(line-1), last.Addr, other)
	}
	return held(verdict.AliasFrame, "no line of a frame is used through two pages")
}

// user records which pages used a line of a frame.
type user struct {
	used    bool
	page    uint64 // the first page
	other   uint64 // the latest other page
	several bool   // whether other is set
	stored  bool
}

func (u *user) harmful(core Core) bool { return u.several && (u.stored || core.WayPredicted) }
