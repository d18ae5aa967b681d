package mapping

import (
	"bytes"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
)

// willExceed reports whether a string instruction that faulted on a page will exceed the limit of pages. Mapping them would
// take a run through all earlier pages for each: up to a second for a large count.
func (p Plan) willExceed(c runner, m Mapping, in *asm.Inst, stop tracee.Regs) bool {
	const directionFlag = 1 << 10 // DF (SDM vol. 1, 3.4.3.2)
	regs := asm.Regs{GPR: stop.GPR, FSBase: p.Init.FSBase, GSBase: p.Init.GSBase}
	count := regs.GPR[asm.RCX]
	for _, mem := range in.Mem {
		if mem.Repeat == asm.Once {
			return false
		}
		if mem.AddrSize == 32 {
			count = uint64(uint32(count)) // it counts by ecx then
		}
	}
	if len(in.Mem) == 0 {
		return false
	}
	r := stringInst{p: p, mem: in.Mem, regs: regs, down: stop.Flags&directionFlag != 0, width: uint64(in.Mem[0].Width)}
	// Enough bytes to exceed the limit of pages, or fewer up to an unmappable address.
	r.bytes = r.width * min(count, uint64(p.Pages+2)*layout.PageSize/r.width)
	for i := range r.mem {
		r.bytes = min(r.bytes, r.bytesBefore(i, func(page uint64) bool { return p.unmappable(page) != "" || r.mem[i].AddrSize == 32 && page>>32 != 0 }))
	}
	for i := range r.mem {
		pages := len(m.Pages)
		r.bytesBefore(i, func(page uint64) bool {
			if !slices.ContainsFunc(m.Pages, func(q mapper.Page) bool { return q.Addr == page }) {
				pages++
			}
			return false
		})
		if pages > p.Pages {
			return r.runsToCount(c)
		}
	}
	return false
}

// stringInst is a string instruction with its registers.
type stringInst struct {
	p     Plan
	mem   []asm.Mem
	regs  asm.Regs
	down  bool
	width uint64
	bytes uint64 // upper bound of the accessed bytes
}

// bytesBefore returns the number of bytes that an operand accesses before the first page for which stop holds, or all.
func (r *stringInst) bytesBefore(i int, stop func(page uint64) bool) uint64 {
	at := r.mem[i].Addr(&r.regs)
	if !r.down {
		for page, n := layout.PageOf(at), uint64(0); n < r.bytes; page += layout.PageSize {
			if stop(page) {
				return n
			}
			n = page + layout.PageSize - at
		}
		return r.bytes
	}
	end := at + r.width // first address above the accessed bytes
	for page, n := layout.PageOf(end-1), uint64(0); n < r.bytes; page -= layout.PageSize {
		if stop(page) {
			return n
		}
		n = end - page
	}
	return r.bytes
}

// runsToCount reports whether no comparison ends the instruction before its count does. Pages still to be mapped have the contents
// of the frames: if those are equal, the comparisons repeat after a page.
func (r *stringInst) runsToCount(c runner) bool {
	repeat := r.mem[0].Repeat
	if repeat == asm.Rep {
		return true
	}
	frame := c.Frame(0)
	for i := 1; i < r.p.Frames; i++ {
		if !bytes.Equal(c.Frame(i), frame) {
			return false
		}
	}
	element := func(at uint64) (v uint64) {
		for i := range r.width {
			v |= uint64(frame[(at+i)%layout.PageSize]) << (8 * i)
		}
		return v
	}
	step := r.width
	if r.down {
		step = -step
	}
	a, b := r.mem[0].Addr(&r.regs), r.mem[len(r.mem)-1].Addr(&r.regs)
	for range layout.PageSize / r.width {
		other := element(b)
		if len(r.mem) == 1 { // scas
			other = r.regs.GPR[asm.RAX] & (1<<(8*r.width) - 1)
		}
		if (element(a) == other) != (repeat == asm.RepEqual) {
			return false
		}
		a, b = a+step, b+step
	}
	return true
}
