package mapping

import (
	"cmp"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/mapper"
)

// confirm holds the pages that were there from the start against what a run with them accessed: each
// has to be one that the block would have asked for, at the step that the page then names. It reports
// whether the mapping is that of a block that began with none; else what is left of it is a better
// one to begin with.
func (m *Mapping) confirm(p Plan, accesses []asm.Access) bool {
	known, found := m.Pages[:m.Known], m.Pages[m.Known:]
	touched, asked := make([]bool, len(known)), make([]bool, len(known))
	left := len(known) // not touched so far
	on := finder{pages: known}
	for len(accesses) > 0 && left > 0 {
		n := 1
		for n < len(accesses) && accesses[n].Inst == accesses[0].Inst && accesses[n].Copy == accesses[0].Copy {
			n++
		}
		for _, a := range accesses[:n] {
			for addr := layout.PageOf(a.Addr); addr < a.Addr+uint64(a.Width); addr += layout.PageSize {
				if i := on.page(addr); i >= 0 && !touched[i] {
					touched[i], asked[i] = true, askedBy(&known[i], p.Insts, accesses[:n])
					left--
				}
			}
		}
		accesses = accesses[n:]
	}
	var pages []mapper.Page
	for i, q := range known {
		if asked[i] && !slices.ContainsFunc(found, func(f mapper.Page) bool { return f.Copy == q.Copy && f.Inst == q.Inst }) {
			pages = append(pages, q)
		}
	}
	confirmed := len(pages) == len(known)
	pages = append(pages, found...)
	slices.SortStableFunc(pages, func(a, b mapper.Page) int { return cmp.Or(cmp.Compare(a.Copy, b.Copy), cmp.Compare(a.Inst, b.Inst)) })
	for i, q := range pages {
		confirmed = confirmed && q.Frame == i%p.Frames
	}
	m.Pages = pages
	return confirmed
}

// askedBy notes how an instruction, of which these are the accesses, asks for the page, being the
// first to touch it. Where they do not tell at which address, the step that was noted before has to be
// this one, or askedBy is false.
func askedBy(q *mapper.Page, insts []asm.Inst, accesses []asm.Access) bool {
	const widest = 64 // bytes: wider ones are made in parts, as are those of no power of two
	a := accesses[0]
	in := &insts[a.Inst]
	m := in.Mem[a.Mem]
	if len(in.Mem) == 1 && m.Elements == 0 && m.Mask == asm.NoRegister && !m.String &&
		a.Width <= widest && a.Width&(a.Width-1) == 0 && layout.PageOf(a.Addr+uint64(a.Width)-1) == q.Addr {
		q.Copy, q.Inst, q.Fault = a.Copy, a.Inst, a.Addr
		return true
	}
	return q.Copy == a.Copy && q.Inst == a.Inst &&
		slices.ContainsFunc(accesses, func(a asm.Access) bool { return a.Addr <= q.Fault && q.Fault < a.Addr+uint64(a.Width) })
}

// finder finds pages by their addresses. Successive accesses mostly are to one page.
type finder struct {
	pages []mapper.Page
	last  int
}

// page is the number of the page at an address, -1 if there is none.
func (f *finder) page(addr uint64) int {
	if f.pages[f.last].Addr == addr {
		return f.last
	}
	i := slices.IndexFunc(f.pages, func(p mapper.Page) bool { return p.Addr == addr })
	if i >= 0 {
		f.last = i
	}
	return i
}
