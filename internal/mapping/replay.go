package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// Left reports that a copy leaves the captured state, because it needs a page that was not captured: no other is mapped. Earlier copies stay
// within it.
type Left struct {
	Copy int // from 0
	Why  *verdict.Rejection
}

func (l *Left) Error() string {
	return fmt.Sprintf("copy %d leaves the captured state: %v", l.Copy+1, l.Why)
}

func (l *Left) Unwrap() error { return l.Why }

// PrepareCaptured maps and traces the block in a captured state, with as many copies as stay within it. The arena
// needs a child with the alias region for the block's address, if it needs one.
func (t Task) PrepareCaptured(c *initial.Captured) (*MappedBlock, error) {
	t, arena, plan, err := t.from(c)
	if err != nil {
		return &MappedBlock{Plan: plan}, err
	}
	return t.mapSafely(arena, plan)
}

// from opens an arena, and prepares harness and child for a captured state.
func (t Task) from(c *initial.Captured) (_ Task, arena Arena, plan Plan, err error) {
	if arena, err = t.Open(); err != nil {
		return t, arena, plan, err
	}
	state := c.Start()
	t.Harness.Init = state
	Ready(arena.Child, state)
	t.Harness.Replayed, t.Harness.Address, t.Harness.Shift = true, c.Address, layout.Shift(arena.Child.Window())
	t.Harness.Reset.Values = true
	plan = t.plan(arena, state, len(c.Pages))
	plan.Captured = c
	return t, arena, plan, plan.checkPages()
}

// LeavesEarly rejects a block with too few copies within the captured state, unless the user chose their number: the first copies start on an
// empty core, and 40 % of times from so few were off by more than 5 %.
func (m *MappedBlock) LeavesEarly() error {
	if m.Left == nil || m.task.Fixed || (m.Factors.Long-m.Factors.Short)*len(m.Insts) >= leastInsts {
		return nil
	}
	return m.Left.tooEarly()
}

func (l *Left) tooEarly() error {
	return &verdict.Rejection{Reason: verdict.LeavesState, Inst: l.Why.Inst, Address: l.Why.Address, Detail: fmt.Sprintf(
		"copy %d leaves the captured state, too early to tell what one of many copies takes: %s: %s", l.Copy+1, l.Why.Reason, l.Why.Detail)}
}

// checkPages rejects captured pages that cannot be mapped.
func (p Plan) checkPages() error {
	pages := p.Captured.Pages
	if len(pages) > layout.MaxFrames {
		return &verdict.Rejection{Reason: verdict.TooManyPages, Detail: fmt.Sprintf(
			"one execution touches %d pages, and there are frames for %d", len(pages), layout.MaxFrames)}
	}
	for _, page := range pages {
		if why := p.unmappable(page.Address); why != "" {
			addr := page.Address
			return &verdict.Rejection{Reason: verdict.Unmappable, Detail: "captured page: " + why, Address: &addr}
		}
	}
	return nil
}

// leaves explains a stop for a page beyond the captured ones, or for the rejection err.
func (p Plan) leaves(stop tracee.Stop, im harness.Image, page mapper.Page, err error) error {
	copy, _, _ := im.Locate(stop.Regs.RIP)
	why, rejected := errors.AsType[*verdict.Rejection](err)
	switch {
	case err == nil:
		why = p.reject(verdict.Unmappable, page.Inst, &page.Fault, "%#x is on none of the %d pages that were captured", page.Fault,
			len(p.Captured.Pages))
	case !rejected:
		return err
	}
	return &Left{copy, why}
}

// capturedPages lists the captured pages, each on a frame of its own; none without a captured state.
func (p Plan) capturedPages() (pages []mapper.Page) {
	if p.Captured == nil {
		return nil
	}
	for i, page := range p.Captured.Pages {
		pages = append(pages, mapper.Page{Addr: page.Address, Frame: i, Fault: page.Address})
	}
	return pages
}

// captured returns the captured page of an address, or nil.
func (p Plan) captured(addr uint64) *initial.Page {
	pages := p.Captured.Pages
	i, ok := slices.BinarySearchFunc(pages, layout.PageOf(addr), func(p initial.Page, at uint64) int { return cmp.Compare(p.Address, at) })
	if !ok {
		return nil
	}
	return &pages[i]
}

// storesReadOnly finds the first copy that stores to a page that the program could not write to. Frames
// are writable, so only the trace shows this.
func (m *MappedBlock) storesReadOnly() error {
	for _, a := range m.Trace.Accesses {
		if !a.Write {
			continue
		}
		for _, addr := range []uint64{a.Addr, a.Addr + uint64(max(a.Width, 1)) - 1} {
			if page := m.Plan.captured(addr); page != nil && !page.Writable {
				return &Left{a.Copy, m.Plan.reject(verdict.SIGSEGV, a.Inst, &addr, "%#x is on a page that the program cannot write to", addr)}
			}
		}
	}
	return nil
}

// firstTouch records the first instruction that touches each captured page.
func (m *MappedBlock) firstTouch() {
	for i := range m.Pages {
		p := &m.Pages[i]
		first := slices.IndexFunc(m.Trace.Accesses, func(a asm.Access) bool {
			return layout.PageOf(a.Addr) <= p.Addr && p.Addr < a.Addr+uint64(max(a.Width, 1))
		})
		if first >= 0 {
			a := m.Trace.Accesses[first]
			p.Inst, p.Fault, p.Copy = a.Inst, max(a.Addr, p.Addr), a.Copy
		}
	}
}

// Once executes the block once from a captured state, in a dry run, and returns the state afterwards. offsets are
// where XSAVE puts its components.
func (t Task) Once(c *initial.Captured, offsets [32]int) (after *initial.Captured, err error) {
	t, arena, plan, err := t.from(c)
	if err != nil {
		return nil, err
	}
	im, err := ImageBuilder{arena, t.Program, t.Harness, t.Offset}.dryRun(1)
	if err != nil {
		return nil, err
	}
	m, err := mapPages(arena.Child, plan, im)
	if left := (*Left)(nil); errors.As(err, &left) {
		err = left.Why
	}
	if err != nil {
		return nil, err
	}
	after = &initial.Captured{State: c.State, Address: c.Address}
	after.GPR, after.Flags = m.end.GPR, m.end.Flags
	for i, page := range c.Pages {
		copy(page.Data[:], arena.Child.Frame(i))
		after.Pages = append(after.Pages, page)
	}
	return after, arena.readVectors(after, offsets)
}

// readVectors takes over what the stopped child has in its other registers.
func (a Arena) readVectors(c *initial.Captured, offsets [32]int) error {
	area, err := a.Child.XSave()
	if err == nil && !c.SetXSave(area, offsets) {
		err = errors.New("the kernel gives no extended state of the child")
	}
	return err
}
