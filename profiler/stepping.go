package profiler

import (
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/space"
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
	copies := min(stepCopies, r.factors.Long)
	image, err := unroll.Build(r.long.End(), r.insts, copies, r.frame())
	if err != nil {
		return err
	}
	r.place(image)
	r.plan.Refill(r.child)
	r.tracing.Copies = copies
	r.tracing.Accesses, err = r.step(image)
	return err
}

// step runs an image an instruction at a time and computes each access from the registers.
// Gathers and masked accesses are left out: their registers are not among those.
func (r *run) step(image unroll.Image) ([]asm.Access, error) {
	byOffset := map[int]int{}
	for i := range r.insts {
		byOffset[r.insts[i].Offset] = i
	}
	var all []asm.Access
	stop, err := r.child.Step([]tracee.Op{tracee.Run(r.fresh, 1), tracee.Run(image.At, 1)}, stepLimit, func(at tracee.Regs) {
		copy, offset, ok := image.Locate(at.RIP)
		if !ok {
			return
		}
		if i, ok := byOffset[offset]; ok {
			all = r.stepAccesses(all, copy, i, at)
		}
	})
	if err != nil {
		return nil, err
	}
	if r := mapper.Closed(stop); r != nil {
		return nil, r
	}
	if !stop.Done {
		return nil, fmt.Errorf("single-stepping ended with signal %d, code %d at %#x", stop.Signal, stop.Code, stop.Regs.RIP)
	}
	return all, nil
}

func (r *run) stepAccesses(all []asm.Access, copy, i int, at tracee.Regs) []asm.Access {
	in := &r.insts[i]
	regs := asm.Regs{
		GPR: at.GPR, RIP: space.Home + uint64(in.Offset+len(in.Bytes)),
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
