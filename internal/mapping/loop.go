package mapping

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// AsLoop maps a block, already mapped as copies in a row, as a loop, and checks that the findings for
// the copies hold for it. A block whose addresses repeat in the trace, and which needs no other page
// as a loop, gets many iterations. Any other block, and every block if asOften, runs as often as the
// copies do, because those were mapped, traced and checked.
// width is the core's, as unroll.ChooseLoop takes it. fits is false if one copy exceeds the share of the op cache that keeps a loop in it.
func (m *MappedBlock) AsLoop(fe unroll.FrontEnd, width int, asOften bool, late func() bool) (loop *MappedBlock, fits bool, err error) {
	m.Plan.Late = late
	many, fits := unroll.ChooseLoop(m.Insts, fe, width, m.Forwards.Fed > 0)
	same := false
	if !asOften && m.repeatsAddresses() {
		loop, same, err = m.mapLoop(many)
	}
	if err == nil && !same {
		loop, same, err = m.mapLoop(unroll.ChooseShortLoop(m.Insts, m.Factors))
		if err == nil && !same {
			err = &verdict.Rejection{Reason: verdict.Nonlinear, Detail: fmt.Sprintf(
				"%d iterations in a loop do not run on the pages of as many copies: the block depends on flags, which the "+
					"loop's counting sets", m.Factors.Long)}
		}
	}
	if err == nil {
		err = loop.addDirty(loop.Short)
	}
	return loop, fits, err
}

// asLoop returns the block as a loop, not yet laid out, and the plan for a dry run of so many iterations.
func (m *MappedBlock) asLoop(l unroll.Loop, iterations int) (*MappedBlock, Plan) {
	loop, plan := *m, m.Plan
	loop.Program = Program{Insts: m.Insts, Factors: l.Iterations(), Loop: &l}
	if l.Exit != nil {
		plan.Init = stateFor(plan.Init, *l.Exit, iterations)
	}
	if l.Counter.Memory || l.Exit != nil {
		plan.Ahead = tracee.OpenCounter(m.Child.Window())
	}
	return &loop, plan
}

// mapLoop lays out a loop, runs its longer image in an empty address space and reports whether it
// ends and needs exactly the pages of the copies.
func (m *MappedBlock) mapLoop(l unroll.Loop) (loop *MappedBlock, same bool, err error) {
	loop, plan := m.asLoop(l, l.Iterations().Long)
	if n := len(loop.Harness.Inverted); n > 0 { // each iteration has the branches of the last copies
		loop.Harness.Inverted = []int{0}[:n%2]
	}
	if loop.Short, loop.Long, err = loop.pair(m.Images, 0); err != nil {
		return loop, false, err
	}
	im, err := loop.dryRun(loop.Factors.Long)
	if err != nil {
		return loop, false, err
	}
	got, err := mapPages(m.Child, plan, im)
	if err != nil {
		return loop, false, m.unlessRuledOut(err)
	}
	if len(got.Inverted) > 0 || !maps.Equal(got.framesByPage(), m.framesByPage()) {
		return loop, false, nil
	}
	loop.Restore = append(slices.Clone(m.Restore), m.throughOwnPages(m.dirty(m.Child, m.Plan))...)
	return loop, true, nil
}

// repeatsAddresses reports whether in the trace each copy of the second half has the accesses of the
// copy before it. In the first half a block may settle.
func (m *MappedBlock) repeatsAddresses() bool { return len(m.Pages) == 0 || m.Trace.Repeats() }
