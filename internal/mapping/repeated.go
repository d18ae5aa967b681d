package mapping

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
)

// A string instruction with a large count asks for a thousand pages in a row, each after a run through
// all pages before: a second for the answer that they are too many. So once it has asked for more
// pages than most blocks have, the rest of what there may be is mapped at once. If the instruction
// then faults beyond, it has passed through all of them, and they are too many. Any other end proves
// nothing, and the pages are found one by one.
type passage struct {
	used  bool      // at least once in a search
	on    bool      // pages are there of which no fault has proved anything
	rip   uint64    // of the instruction, which identifies its copy
	first int       // among the mapping's pages, of those
	from  []address // where it stood before
	count uint64    // what rcx held then
}

// address is where a string instruction stands in one of its operands.
type address struct {
	at    uint64
	width int
}

// begin maps pages ahead of a repeated string instruction that asked for the last page, and returns the steps.
func (w *passage) begin(p Plan, m *Mapping, stop tracee.Stop, im harness.Image) (ops []tracee.Op) {
	index, regs, ok := p.locate(stop, im)
	if !ok || w.on || len(m.Pages) <= steadyPages {
		return nil
	}
	from, count, ok := repeated(&p.Insts[index], regs, stop.Regs.Flags)
	if !ok {
		return nil
	}
	*w = passage{used: true, on: true, rip: stop.Regs.RIP, first: len(m.Pages), from: from, count: count}
	copy, _, _ := im.Locate(stop.Regs.RIP)
	next := make([]uint64, len(from)) // pages
	for i, a := range from {
		next[i] = layout.PageOf(a.at)
	}
	for len(m.Pages) < p.Pages && len(ops) < layout.MaxDryRunOps-2 {
		soonest, rounds := 0, uint64(math.MaxUint64)
		for i, a := range from {
			if n := max(next[i], a.at) - a.at; n/uint64(a.width) < rounds {
				soonest, rounds = i, n/uint64(a.width)
			}
		}
		page := next[soonest]
		if rounds >= count || p.owns(page, layout.PageSize) || page >= layout.UserEnd {
			break
		}
		next[soonest] += layout.PageSize
		if slices.ContainsFunc(m.Pages, func(q mapper.Page) bool { return q.Addr == page }) {
			continue
		}
		frame := len(m.Pages) % p.Frames
		m.Pages = append(m.Pages, mapper.Page{Addr: page, Frame: frame, Inst: index, Fault: page, Copy: copy})
		ops = append(ops, tracee.MapFrame(page, frame))
	}
	return ops
}

// undo leaves what the block has asked for, for a search that ends for lack of time.
func (w *passage) undo(m *Mapping) {
	if w.on {
		m.Pages = m.Pages[:w.first]
	}
	w.used = false
}

// passed reports whether a fault proves that the block asked for all pages that were mapped ahead: the same
// instruction stands beyond them, by as many rounds as its count has gone down.
func (w *passage) passed(p Plan, m *Mapping, stop tracee.Stop, im harness.Image) bool {
	if !w.on {
		return true
	}
	w.on = false
	index, regs, ok := p.locate(stop, im)
	if !ok || stop.Regs.RIP != w.rip {
		return false
	}
	to, count, ok := repeated(&p.Insts[index], regs, stop.Regs.Flags)
	if !ok || len(to) != len(w.from) {
		return false
	}
	for i, a := range to {
		if a.at-w.from[i].at != (w.count-count)*uint64(a.width) || a.at < w.from[i].at {
			return false
		}
	}
	for _, q := range m.Pages[w.first:] {
		through := false
		for i, a := range to {
			through = through || layout.PageOf(w.from[i].at) <= q.Addr && q.Addr < a.at
		}
		if !through {
			return false
		}
	}
	return true
}

// repeated is where an upward string instruction with a repeat prefix stands, and its count.
func repeated(in *asm.Inst, regs asm.Regs, flags uint64) (at []address, count uint64, ok bool) {
	const directionFlag = 1 << 10 // DF (SDM vol. 1, 3.4.3.2)
	if flags&directionFlag != 0 || len(in.Mem) == 0 {
		return nil, 0, false
	}
	for _, m := range in.Mem {
		if !m.String || m.Repeat == asm.Once || m.AddrSize != 64 {
			return nil, 0, false
		}
		at = append(at, address{m.Addr(&regs), m.Width})
	}
	const rcx = 1
	return at, regs.GPR[rcx], true
}
