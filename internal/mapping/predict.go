package mapping

import (
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/mapper"
)

// predict lists the captured pages or, without any, those that a run of p.Predict copies will probably touch, in the order of the accesses
// whose addresses follow from the initial state. Mapping them before the first run saves a fault and a stop each. A wrong prediction costs
// time, never correctness: a rejection counts only after a run without predictions, and pages that are missing in the trace are dropped.
func (p Plan) predict() (pages []mapper.Page) {
	if p.Captured != nil {
		for i, page := range p.Captured.Pages {
			pages = append(pages, mapper.Page{Addr: page.Address, Frame: i, Fault: page.Address})
		}
		return pages
	}
	if p.Predict == 0 || p.NoPages {
		return nil
	}
	const followed = 3 // copies; the others advance like the last of these
	all := asm.Follow(p.Insts, followed, p.Init.StartAt(p.home()))
	each := len(all) / followed
	for k := range p.Predict {
		for i, a := range all[:each] {
			m := &p.Insts[a.Inst].Mem[a.Mem]
			second, third := all[each+i], all[2*each+i]
			step := third.Addr - second.Addr
			if k > 0 {
				a = second
				a.Addr += uint64(k-1) * step
			}
			if !a.Known || !m.Read && !m.Write || k > 1 && (step == 0 || !third.Known) {
				continue
			}
			for _, addr := range []uint64{a.Addr, layout.PageOf(a.Addr + uint64(max(m.Width, 1)) - 1)} {
				page := mapper.Page{Addr: layout.PageOf(addr), Inst: a.Inst, Fault: addr, Copy: k, Frame: len(pages) % p.Frames}
				if slices.ContainsFunc(pages, func(q mapper.Page) bool { return q.Addr == page.Addr }) {
					continue
				}
				if len(pages) == min(p.Pages, layout.MaxDryRunOps/2) || p.unmappable(addr) != "" {
					return nil // it will be rejected
				}
				pages = append(pages, page)
			}
		}
	}
	return pages
}

// touchesAll reports whether the trace shows an access to every page.
func (m *MappedBlock) touchesAll() bool {
	return !slices.ContainsFunc(m.Pages, func(p mapper.Page) bool { return m.firstAccess(p.Addr) < 0 })
}

// firstAccess returns the index in the trace of the first access to a page, or -1.
func (m *MappedBlock) firstAccess(page uint64) int {
	return slices.IndexFunc(m.Trace.Accesses, func(a asm.Access) bool {
		return layout.PageOf(a.Addr) <= page && page < a.Addr+uint64(max(a.Width, 1))
	})
}
