package mapper

import (
	"cmp"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/space"
)

// Confirm holds the pages that were there from the start against what a run with them accessed: each
// has to be one that the block would have asked for, at the step that the page then names. It reports
// whether the mapping is that of a block that began with none; else what is left of it is a better
// one to begin with.
func (m *Mapping) Confirm(p Plan, accesses []asm.Access) bool {
	known, found := m.Pages[:m.Known], m.Pages[m.Known:]
	touched, asked := make([]bool, len(known)), make([]bool, len(known))
	left := len(known) // not touched so far
	last := 0          // successive accesses mostly are to one page
	for len(accesses) > 0 && left > 0 {
		n := 1
		for n < len(accesses) && accesses[n].Inst == accesses[0].Inst && accesses[n].Copy == accesses[0].Copy {
			n++
		}
		for _, a := range accesses[:n] {
			for addr := pageOf(a.Addr); addr < a.Addr+uint64(a.Width); addr += space.PageSize {
				if known[last].Addr != addr {
					i := slices.IndexFunc(known, func(q Page) bool { return q.Addr == addr })
					if i < 0 {
						continue
					}
					last = i
				}
				if !touched[last] {
					touched[last], asked[last] = true, known[last].askedBy(p.Insts, accesses[:n])
					left--
				}
			}
		}
		accesses = accesses[n:]
	}
	var pages []Page
	for i, q := range known {
		if asked[i] && !slices.ContainsFunc(found, func(f Page) bool { return f.Copy == q.Copy && f.Inst == q.Inst }) {
			pages = append(pages, q)
		}
	}
	confirmed := len(pages) == len(known)
	pages = append(pages, found...)
	slices.SortStableFunc(pages, func(a, b Page) int { return cmp.Or(cmp.Compare(a.Copy, b.Copy), cmp.Compare(a.Inst, b.Inst)) })
	for i, q := range pages {
		confirmed = confirmed && q.Frame == i%p.Frames
	}
	m.Pages = pages
	return confirmed
}

// askedBy notes how an instruction, of which these are the accesses, asks for the page, being the
// first to touch it. Where they do not tell at which address, the step that was noted before has to be
// this one, or askedBy is false.
func (q *Page) askedBy(insts []asm.Inst, accesses []asm.Access) bool {
	const widest = 64 // bytes: wider ones are made in parts, as are those of no power of two
	a := accesses[0]
	in := &insts[a.Inst]
	m := in.Mem[a.Mem]
	if len(in.Mem) == 1 && m.Elements == 0 && m.Mask == asm.NoRegister && !m.String &&
		a.Width <= widest && a.Width&(a.Width-1) == 0 && pageOf(a.Addr+uint64(a.Width)-1) == q.Addr {
		q.Copy, q.Inst, q.Fault = a.Copy, a.Inst, a.Addr
		return true
	}
	return q.Copy == a.Copy && q.Inst == a.Inst &&
		slices.ContainsFunc(accesses, func(a asm.Access) bool { return a.Addr <= q.Fault && q.Fault < a.Addr+uint64(a.Width) })
}

func pageOf(addr uint64) uint64 { return addr &^ (space.PageSize - 1) }
