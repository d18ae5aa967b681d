package mapping

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// maxTraced returns how many copies can be traced: the log and the instrumented code must fit.
func (m *MappedBlock) maxTraced(probe *asm.Probe) int {
	const perInst = 160 // bytes, more than any instruction with its captures
	n := int(layout.LogSize) / max(probe.LogSize(), 1)
	// The shorter image has the same code around its copies, apart from padding.
	around := max(len(m.Short.Code)-m.Factors.Short*m.size()+maxPadding, layout.PageSize)
	return min(m.Factors.Long, n, (int(layout.CodeEnd-m.Long.End())-around)/(perInst*len(m.Insts)))
}

// trace runs the instrumented copy once and reads what it logged.
func (m *MappedBlock) trace() error {
	m.Notes = nil
	m.Trace = invariants.Trace{Insts: m.Insts, Frame: m.framesByPage()}
	if !slices.ContainsFunc(m.Insts, func(in asm.Inst) bool { return len(in.Mem) > 0 }) {
		return nil
	}
	if len(asm.InnerBranches(m.Insts)) > 0 {
		return m.traceByStepping(errors.New("it has branches within it"))
	}
	probe, err := asm.NewProbe(m.Insts, m.Harness.Features, layout.SlotScratch)
	if err != nil {
		return m.traceByStepping(err)
	}
	copies := m.maxTraced(probe)
	if copies < 1 {
		return m.tooLarge()
	}
	image, err := harness.BuildProbed(m.Long.End(), m.Insts, copies, m.harness(), probe)
	if err != nil {
		return err
	}
	if image.End() > layout.CodeEnd {
		return fmt.Errorf("the instrumented image ends at %#x, beyond the code region", image.End())
	}
	m.put(image)
	m.Restore = m.dirty(m.Child, m.Plan)
	m.Refill()
	if err := m.Plan.RunOnce(m.Child, image); err != nil {
		return err
	}
	m.Trace.Copies = m.tracedEnough(probe, copies)
	start := m.Plan.Init.StartAt(m.Plan.home())
	m.Trace.Accesses = probe.Accesses(m.Child.Log(), m.Trace.Copies, &start.Regs)
	if suppressed := probe.Suppressed(m.Child.Log(), m.Trace.Copies, &start.Regs); len(suppressed) > 0 {
		reached := m.Trace
		reached.Accesses = suppressed
		if f := invariants.Contained(reached); f.Rejection != nil {
			return f.Rejection
		}
		// Restore the suppressed words before each run, so that their pages are present and dirty. Otherwise each suppressed
		// access would cost a microcode assist, because no access ever makes the page so.
		m.Restore = m.touchedWords(suppressed, m.Restore)
	}
	m.Restore = m.throughOwnPages(m.Restore)
	if copies != m.Factors.Long {
		m.note("only the first %d of %d copies were traced: the log is full", copies, m.Factors.Long)
	}
	return nil
}

func (m *MappedBlock) note(format string, args ...any) {
	m.Notes = append(m.Notes, fmt.Sprintf(format, args...))
}

// tracedEnough returns how many copies of the log suffice for the rules. From some copy on, most blocks
// repeat the accesses of the copy before. If that is the first, two copies suffice.
func (m *MappedBlock) tracedEnough(probe *asm.Probe, copies int) int {
	steady := probe.Steady(m.Child.Log(), copies)
	if steady == 0 {
		return min(copies, 2)
	}
	return mapper.EnoughCopies(m.Insts, copies, steady, m.task.StoreBuffer)
}

const (
	stepLimit  = 5 * time.Second
	stepCopies = 16 // a step costs as much as a hundred runs
)

// traceByStepping is trace for a block that cannot be instrumented, for the reason why.
func (m *MappedBlock) traceByStepping(why error) error {
	m.note("traced by single steps (%v), %d copies only", why, min(stepCopies, m.Factors.Long))
	for _, in := range m.Insts {
		if slices.ContainsFunc(in.Mem, unstepped) {
			m.note("the trace lacks what %s accesses: single steps do not see vector and mask registers", in.Text())
		}
	}
	m.Restore = m.dirty(m.Child, m.Plan)
	m.Trace.Copies = min(stepCopies, m.Factors.Long)
	var err error
	m.Trace.Accesses, err = m.Stepped(m.Trace.Copies, stepLimit)
	m.Restore = m.throughOwnPages(m.Restore)
	return err
}

// followPath steps through all copies of a block with branches within it: they have to take one path.
func (m *MappedBlock) followPath() error {
	if len(asm.InnerBranches(m.Insts)) == 0 {
		return nil
	}
	ran := make([][]bool, m.Factors.Long) // by copy and instruction
	for k := range ran {
		ran[k] = make([]bool, len(m.Insts))
	}
	if err := m.Step(m.Factors.Long, stepLimit, func(copy, inst int, _ tracee.Regs) { ran[copy][inst] = true }); err != nil {
		return m.Plan.timeout(err)
	}
	for i := range m.Insts {
		if k := slices.IndexFunc(ran, func(copy []bool) bool { return copy[i] != ran[0][i] }); k >= 0 {
			return &verdict.Rejection{Reason: verdict.ControlFlow, Inst: m.Insts[i].Verdict(i), Detail: fmt.Sprintf(
				"copy %d takes another path than those before it: this instruction runs in only one of them", k+1)}
		}
	}
	for i := range m.Insts {
		if ran[0][i] {
			m.Ran = append(m.Ran, m.Insts[i])
		}
	}
	return nil
}

// Stepped computes each access of some copies from the general registers before it. It skips gathers
// and masked accesses, which depend on other registers.
func (m *MappedBlock) Stepped(copies int, limit time.Duration) (all []asm.Access, err error) {
	err = m.Step(copies, limit, func(copy, inst int, at tracee.Regs) { all = m.stepAccesses(all, copy, inst, at) })
	return all, err
}

// Step single-steps copies in a dry run and calls visit before each instruction with the
// registers.
func (m *MappedBlock) Step(copies int, limit time.Duration, visit func(copy, inst int, at tracee.Regs)) error {
	image, err := m.dryRun(copies)
	if err != nil {
		return err
	}
	return m.stepThrough(image, limit, visit)
}

func (m *MappedBlock) stepThrough(image harness.Image, limit time.Duration, visit func(copy, inst int, at tracee.Regs)) error {
	byOffset := map[int]int{}
	for i, in := range m.Insts {
		byOffset[in.Offset] = i
	}
	m.Refill()
	pushed := false // flags, by the instruction before
	shift := m.Plan.shift()
	stop, err := m.Child.Step(nil, image.Address+shift, image.End()+shift, limit, func(at tracee.Regs) {
		at.RIP -= shift
		if pushed {
			m.hideStep(at.GPR[asm.RSP])
		}
		pushed = false
		copy, offset, ok := image.Locate(at.RIP)
		if inst, starts := byOffset[offset]; ok && starts { // not the second half of a branch that is two
			pushed = m.Insts[inst].Mnemonic == "pushf"
			visit(copy, inst, at)
		}
	})
	if err != nil {
		return err
	}
	return Unexpected(stop.Completed("single-stepping"))
}

// hideStep clears the trap flag of single-stepping in the flags that were just pushed (Linux
// leaves it there), because a block could act on it.
func (m *MappedBlock) hideStep(rsp uint64) {
	at := rsp + 1 // bits 8 to 15
	for _, p := range m.Pages {
		if p.Addr == layout.PageOf(at) {
			m.Child.Frame(p.Frame)[at%layout.PageSize] &^= 1
		}
	}
}

func (m *MappedBlock) stepAccesses(all []asm.Access, copy, i int, at tracee.Regs) []asm.Access {
	regs := m.Plan.regs(at.GPR, i)
	for k, mem := range m.Insts[i].Mem {
		count := at.GPR[asm.RCX]
		if mem.AddrSize == 32 {
			count = uint64(uint32(count))
		}
		if unstepped(mem) || mem.Repeat != asm.Once && count == 0 {
			continue // a rep instruction steps once per iteration, and once with rcx = 0
		}
		all = append(all, asm.Access{Copy: copy, Inst: i, Mem: k, Addr: mem.Addr(&regs), Width: mem.Width, Elem: mem.Width, Read: mem.Read, Write: mem.Write})
	}
	return all
}

// unstepped reports whether an access depends on registers that single steps do not see.
func unstepped(m asm.Mem) bool { return m.Elements > 0 || m.Mask != asm.NoRegister }
