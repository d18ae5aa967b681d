package profiler

import (
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
)

const (
	stepLimit  = 5 * time.Second
	stepCopies = 16 // a step costs as much as a hundred runs
)

// traceByStepping is trace for a block that cannot be instrumented; why says what stands in
// the way.
func (r *run) traceByStepping(why error) error {
	r.warn("traced by single steps (%v), %d copies only", why, min(stepCopies, r.factors.Long))
	for i := range r.insts {
		if slices.ContainsFunc(r.insts[i].Mem, unstepped) {
			r.warn("the trace lacks what %s accesses: single steps do not see vector and mask registers", r.insts[i].Text())
		}
	}
	r.dirty = r.mapping.Dirty(r.child, r.plan.Init)
	r.tracing.Copies = min(stepCopies, r.factors.Long)
	all, err := r.step(r.tracing.Copies)
	r.tracing.Accesses = all
	return err
}

// step computes each access of so many copies from the registers before it. Gathers and masked
// accesses are left out: their registers are not among those.
func (r *run) step(copies int) (all []asm.Access, err error) {
	err = r.stepThrough(copies, stepLimit, func(copy, inst int, at tracee.Regs) {
		all = r.stepAccesses(all, copy, inst, at)
	})
	return all, err
}

// stepThrough runs copies on trial, an instruction at a time, and shows each with the registers
// before it.
func (r *run) stepThrough(copies int, limit time.Duration, visit func(copy, inst int, at tracee.Regs)) error {
	image, err := r.onTrial(unroll.BuildDryRun(r.insts, copies, r.inPlace()))
	if err != nil {
		return err
	}
	byOffset := map[int]int{}
	for i := range r.insts {
		byOffset[r.insts[i].Offset] = i
	}
	r.plan.Refill(r.child)
	pushed := false // flags, by the instruction before
	stop, err := r.child.Step(nil, image.At, image.End(), limit, func(at tracee.Regs) {
		if pushed {
			r.hideStep(at.GPR[asm.RSP])
		}
		pushed = false
		if copy, offset, ok := image.Locate(at.RIP); ok {
			inst := byOffset[offset]
			pushed = r.insts[inst].Mnemonic == "pushf"
			visit(copy, inst, at)
		}
	})
	if err != nil {
		return err
	}
	if rejection := mapper.Closed(stop); rejection != nil {
		return rejection
	}
	if !stop.Done {
		return fmt.Errorf("single-stepping ended with signal %d, code %d at %#x", stop.Signal, stop.Code, stop.Regs.RIP)
	}
	return nil
}

// hideStep clears the trap flag in the flags that were just pushed: it is that of the stepping
// (Linux leaves it there), and a block could do something else for it.
func (r *run) hideStep(rsp uint64) {
	at := rsp + 1 // bits 8 to 15
	for _, p := range r.mapping.Pages {
		if p.Addr == at&^(layout.PageSize-1) {
			r.child.Frame(p.Frame)[at%layout.PageSize] &^= 1
		}
	}
}

func (r *run) stepAccesses(all []asm.Access, copy, i int, at tracee.Regs) []asm.Access {
	in := &r.insts[i]
	regs := asm.Regs{
		GPR: at.GPR, RIP: layout.Home + uint64(in.Offset+len(in.Bytes)),
		FSBase: r.plan.Init.FSBase, GSBase: r.plan.Init.GSBase,
	}
	for k, m := range in.Mem {
		count := at.GPR[asm.RCX]
		if m.AddrSize == 32 {
			count = uint64(uint32(count))
		}
		if unstepped(m) || m.Repeat != asm.Once && count == 0 {
			continue // a rep instruction steps once a round, and once to find rcx 0
		}
		all = append(all, asm.Access{Copy: copy, Inst: i, Mem: k, Addr: m.Addr(&regs), Width: m.Width, Elem: m.Width, Read: m.Read, Write: m.Write})
	}
	return all
}

// unstepped reports whether an access depends on registers that single steps do not see.
func unstepped(m asm.Mem) bool { return m.Elements > 0 || m.Mask != asm.NoRegister }
