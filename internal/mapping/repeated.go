package mapping

import (
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
)

// willExceed reports whether a string instruction that has asked for a page will ask for more pages than there may be,
// whatever it finds. To map them would take a run through all pages before for each: up to a second for a large count.
func (p Plan) willExceed(m Mapping, in *asm.Inst, stop tracee.Regs) bool {
	const directionFlag = 1 << 10 // DF (SDM vol. 1, 3.4.3.2)
	for _, mem := range in.Mem {
		if mem.Repeat != asm.Rep || mem.AddrSize != 64 {
			return false
		}
	}
	if stop.Flags&directionFlag != 0 || len(in.Mem) == 0 {
		return false
	}
	regs := asm.Regs{GPR: stop.GPR, FSBase: p.Init.FSBase, GSBase: p.Init.GSBase}
	// As many bytes as pass all pages that there may be, and one more, or lead to where no page can be.
	width := uint64(in.Mem[0].Width)
	bytes := width * min(regs.GPR[asm.RCX], uint64(p.Pages+2)*layout.PageSize/width)
	for _, mem := range in.Mem {
		at := mem.Addr(&regs)
		for page := layout.PageOf(at); page < at+bytes; page += layout.PageSize {
			if p.forbidden(page) != "" {
				bytes = max(page, at) - at
			}
		}
	}
	for _, mem := range in.Mem {
		at, pages := mem.Addr(&regs), len(m.Pages)
		for page := layout.PageOf(at); page < at+bytes; page += layout.PageSize {
			if !slices.ContainsFunc(m.Pages, func(q mapper.Page) bool { return q.Addr == page }) {
				pages++
			}
		}
		if pages > p.Pages {
			return true
		}
	}
	return false
}
