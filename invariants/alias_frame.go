package invariants

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// AliasFrame finds two pages that use one line of one frame. If one of them stores, that makes a dependency that the
// program does not have. Loads alone are slower only where the L1D way is predicted from the linear address.
func AliasFrame(t Trace, core Core) Finding {
	n := 0
	var last asm.Access
	var other uint64
	t.shared(line, func(u *user) bool { return u.stored || core.WayPredicted }, func(a asm.Access, page uint64) {
		n++
		last, other = a, page
	})
	if n > 0 {
		return t.broken(verdict.AliasFrame, last, "%d line(s) of a frame are used through two pages, such as %#x by %#x and by the page at %#x",
			n, last.Addr&within&^(line-1), last.Addr, other)
	}
	return held(verdict.AliasFrame, "no line of a frame is used through two pages")
}

// MayAlias reports whether a byte of a frame is used through two pages, and loaded through one of them. BHive's list of blocks
// that may alias (benchmark/may-alias.csv) follows this rule, however far apart the accesses are, and without a store if need be.
func MayAlias(t Trace) bool {
	any := false
	t.shared(1, func(u *user) bool { return u.loaded }, func(asm.Access, uint64) { any = true })
	return any
}

// shared calls found once for each unit of a frame, of so many bytes, that several pages use in a way that is
// harmful, with the access that made it so and another page.
func (t Trace) shared(unit uint64, harmful func(*user) bool, found func(a asm.Access, other uint64)) {
	if len(t.Frame) < 2 {
		return
	}
	users := make([]user, uint64(t.lastFrame()+1)*page/unit)
	for _, a := range t.Accesses {
		for addr := a.Addr &^ (unit - 1); addr < a.Addr+uint64(a.Width); addr += unit {
			u := &users[(uint64(t.frame(addr))*page+addr&within)/unit]
			p := addr &^ within
			if !u.used {
				u.used, u.page = true, p
			}
			if p != u.page {
				u.several, u.other = true, p
			}
			u.stored, u.loaded = u.stored || a.Write, u.loaded || a.Read
			if u.told || !u.several || !harmful(u) {
				continue
			}
			u.told = true
			other := u.page
			if p == u.page {
				other = u.other
			}
			found(a, other)
		}
	}
}

// user records which pages used a part of a frame.
type user struct {
	page           uint64 // the first page
	other          uint64 // the latest other page
	used, several  bool   // whether they are set
	stored, loaded bool
	told           bool
}
