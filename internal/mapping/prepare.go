package mapping

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

const (
	// MaxPages limits the pages of a run: the reference harness's limit.
	MaxPages = 1024
	// steadyPages limits the pages of a run whose number of copies can be reduced: stores have 16 entries in the first-level data TLB from Sunny
	// Cove on (Intel Optimization Manual). Of blocks that move on over 24 pages or more, one in twelve differed by 5 % between runs.
	steadyPages = 20
	// RunLimit is the CPU time for one run.
	RunLimit = 500 * time.Millisecond
	// maxAutoFrames limits the frames that AutoFrames gives a block: no L1D has more ways.
	maxAutoFrames = 16
	// leastInsts is the least difference in instructions between the images of a block that moves on: with
	// fewer, the cost of the images' ends outweighs that of the copies.
	leastInsts = 256
)

// AutoFrames gives a block as many frames as it needs.
const AutoFrames = 0

// Task is a block to map, trace and check.
type Task struct {
	// Open returns an arena with a live child, which is a new one if the last attempt killed the child.
	Open    func() (Arena, error)
	Program Program
	Harness harness.Harness // without initial state, clock and memory
	Offset  *int            // of the first copy in its page; nil: anywhere
	// Fixed keeps the numbers of copies; otherwise they may be reduced.
	Fixed   bool
	Frames  int  // AutoFrames or a number
	NoPages bool // see Plan
	// VaryExit varies the iterations of a loop from run to run: see unroll.Loop.
	VaryExit bool
	// Late reports whether all runs together have taken too long.
	Late        func() bool
	StoreBuffer int // entries, which bound the distance from a load to its store
	// Move allows other initial registers if accesses cross lines, lack an alignment or alias.
	Move bool
	// Check applies the rules to the trace. The error names the broken rule; Findings.SafeCopies
	// is then the number of copies before the first that breaks it.
	Check func(*MappedBlock) (Findings, error)
}

// Findings holds the findings of the rules on a trace.
type Findings struct {
	Evidence   []invariants.Evidence
	Predicted  *invariants.Prediction
	Forwards   invariants.Forwards
	Warnings   []string
	SafeCopies int
}

// MappedBlock is a block with its pages, laid out in a child and traced. After an error it holds the results
// so far.
type MappedBlock struct {
	ImageBuilder
	Mapping
	Plan        Plan
	Short, Long harness.Image // latest
	start       int           // of their first copies in a cache line
	area        uint64        // bytes of code per pass, whole pages
	Trace       invariants.Trace
	Restore     []uint64 // words to restore before each run
	Findings
	Ran   []asm.Inst // of a block with branches within it, those that each copy runs; else nil
	Notes []string   // on the trace
	Left  *Left      // if more copies would leave the captured state

	PaperVerdict string // outcome on one frame in the first initial state: "ok" or a reason
	Rescued      bool   // it took another initial state than the first

	task Task
}

// Warnings lists the warnings for the result.
func (m *MappedBlock) Warnings() []string { return slices.Concat(m.Notes, m.Findings.Warnings) }

// Refill restores the initial contents of the frames.
func (m *MappedBlock) Refill() { m.Plan.refill(m.Child, m.Pages, 0) }

// Remap lists the operations that map the pages again, for use before the runs that need them.
func (m *MappedBlock) Remap() []tracee.Op { return m.remap(m.Plan.Window, 0) }

// RemapTo maps the block's pages again, onto other frames for each n while they last, and fills those. It unmaps all pages first: where pages were
// replaced, some blocks had slow states more often, by up to a quarter.
func (m *MappedBlock) RemapTo(n int) []tracee.Op {
	frames := max(m.Plan.Frames, 1)
	first := n % max(layout.MaxFrames/frames, 1) * frames
	m.Plan.refill(m.Child, m.Pages, first)
	return m.remap(m.Plan.Window, first)
}

// MapOnly maps the block in the first state in which it runs, on one frame unless Frames sets more.
// It does not check its accesses.
func (t Task) MapOnly(states []initial.State) (first *MappedBlock, firstErr error) {
	for i, state := range states {
		arena, err := t.Open()
		if err != nil {
			return first, err
		}
		t.startFrom(state)
		m, err := t.mapBlock(arena, t.plan(arena, state, t.Frames))
		if err == nil {
			return m, nil
		}
		if i == 0 {
			first, firstErr = m, err
		}
		if verdict.ReasonOf(err) == "" || !arena.Child.Alive() || t.Late() {
			break
		}
	}
	return first, firstErr
}

// plan returns a plan for the task in a state.
func (t Task) plan(arena Arena, state initial.State, frames int) Plan {
	return Plan{
		Insts: t.Program.Insts, Init: state, Frames: max(frames, 1), NoPages: t.NoPages, Limit: RunLimit, Late: t.Late,
		ResetImage: arena.ResetImage, Window: arena.Child.Window(),
	}
}

// startFrom sets the state before each run.
func (t *Task) startFrom(state initial.State) {
	t.Harness.Init, t.Harness.Reset.Values = state, len(state.Memory) > 0 || state.Elements.Width > 0
}

// contextReasons lists the reasons that another initial state may remove.
var contextReasons = map[verdict.Reason]bool{
	verdict.Unmappable: true, verdict.TooManyPages: true, verdict.UnalignedOperand: true, verdict.SIGFPE: true,
	verdict.SIGSEGV: true, verdict.SIGBUS: true, verdict.SIGTRAP: true, verdict.Timeout: true,
	verdict.Misaligned: true, verdict.Alias4K: true, verdict.AliasFrame: true, verdict.L1DMiss: true, verdict.DTLBMiss: true,
}

// Prepare finds an initial state and a number of frames with which the block runs and all its
// accesses are safe. It first tries the first state on one frame, whose outcome is the paper's
// verdict. If the block fails because of its context, it tries more frames, then the other initial
// states, then those states with registers moved. If none helps, it reports the first attempt.
func (t Task) Prepare(states []initial.State) (m *MappedBlock, err error) {
	first, firstErr := &MappedBlock{}, error(nil)
	var failed []failedState
	for i := 0; ; i++ {
		state, ok := initial.State{}, false
		if i < len(states) {
			state, ok = states[i], true
		}
		for ; !ok && len(failed) > 0; failed = failed[1:] {
			mover := mapper.Mover{Insts: t.Program.Insts, Copies: t.Program.Factors.Long, StoreBuffer: t.StoreBuffer}
			state, ok = mover.Move(failed[0].state, failed[0].reason)
		}
		if !ok {
			break
		}
		arena, err := t.Open() // the last state may have killed the child
		if err != nil {
			return first, err
		}
		m, err := t.prepareIn(state, arena, i == 0 && state.Set == "" && len(state.Memory) == 0)
		if i == 0 {
			first, firstErr = m, err
		}
		m.PaperVerdict, m.Rescued = first.PaperVerdict, err == nil && i > 0
		reason := verdict.ReasonOf(err)
		if err == nil || reason == "" {
			return m, err
		}
		if !contextReasons[reason] || t.Late() {
			break
		}
		if t.Move && i < len(states) && mapper.Movable(reason) && len(failed) < mostMoved {
			failed = append(failed, failedState{state, reason})
		}
		t.Program = m.Program // keep its number of copies
	}
	return first, firstErr
}

// failedState is a state and the reason why it failed.
type failedState struct {
	state  initial.State
	reason verdict.Reason
}

// mostMoved limits the states in which registers are moved: the first helps most of the blocks that can be helped.
const mostMoved = 3

// prepareIn is Prepare with one initial state.
func (t Task) prepareIn(state initial.State, arena Arena, paper bool) (m *MappedBlock, err error) {
	t.startFrom(state)
	Ready(arena.Child, state)
	plan := t.plan(arena, state, t.Frames)
	m, err = t.mapSafely(arena, plan)
	onOneFrame := ""
	if paper && plan.Frames == 1 {
		onOneFrame = paperVerdict(m, verdict.ReasonOf(err))
	}
	m, err = t.withFrameEach(plan, m, err)
	m.PaperVerdict = onOneFrame
	return m, err
}

// paperVerdict returns the paper's outcome for a block that mapping rejected for reason, or accepted if reason is "": ok until the
// samples say otherwise. Pages that share a byte take precedence, by the rule of the paper's authors.
func paperVerdict(m *MappedBlock, reason verdict.Reason) string {
	switch {
	case invariants.MayAlias(m.Trace):
		return string(verdict.AliasFrame)
	case reason == "" || reason == verdict.AliasFrame:
		return "ok"
	}
	return string(reason)
}

// withFrameEach repeats mapSafely with a frame for each page if pages alias on one frame. That ends the sharing if L1D has a way for
// each.
func (t Task) withFrameEach(plan Plan, m *MappedBlock, err error) (*MappedBlock, error) {
	if t.Frames != AutoFrames || verdict.ReasonOf(err) != verdict.AliasFrame {
		return m, err
	}
	plan.Frames = min(len(m.Pages), maxAutoFrames)
	t.Program = m.Program
	return t.mapSafely(m.Arena, plan)
}

// Ready stores the parts of a state that images restore from the child's memory.
func Ready(child *tracee.Tracee, state initial.State) {
	child.SetBases(state.FSBase, state.GSBase)
	for _, slot := range []uint64{layout.SlotMXCSR, layout.DryRunMXCSR} {
		child.SetWord(slot, uint64(state.MXCSR))
	}
	for _, slot := range []uint64{layout.SlotFlags, layout.DryRunFlags} {
		child.SetWord(slot, state.RFlags())
	}
}

// Again prepares a mapped block with other numbers of copies, in the same state and on at least as many
// frames.
func (m *MappedBlock) Again(factors unroll.Factors, late func() bool) (*MappedBlock, error) {
	t := m.task
	t.Late = late
	t.Program.Factors = factors
	plan := m.Plan
	plan.Late = late
	again, err := t.mapSafely(m.Arena, plan)
	again, err = t.withFrameEach(plan, again, err)
	again.PaperVerdict, again.Rescued, again.Left = m.PaperVerdict, m.Rescued, cmp.Or(again.Left, m.Left)
	return again, err
}

// mapSafely maps and traces the block and checks the trace. A block that moves on may alias, fill the cache or leave its captured state
// after some copies: it gets fewer then.
func (t Task) mapSafely(arena Arena, plan Plan) (*MappedBlock, error) {
	var left *Left
	for {
		m, err := t.mapBlock(arena, plan)
		m.Left = left
		if err == nil {
			err = m.trace()
		}
		if err == nil {
			err = m.followPath()
		}
		if plan.Captured != nil {
			if err == nil {
				m.firstTouch()
				err = m.storesReadOnly()
			}
			if leaves, ok := errors.AsType[*Left](err); ok {
				if leaves.Copy == 0 {
					return m, leaves.Why
				}
				left, m.Left = leaves, leaves
				factors, ok := t.Program.Factors.Few(left.Copy)
				if !ok || t.Fixed {
					return m, left.tooEarly()
				}
				t.Program.Factors = factors
				continue
			}
		}
		m.noteMemory()
		if err == nil {
			m.Findings, err = t.Check(m)
		}
		if restored := len(m.Restore); err == nil {
			if err = m.addDirty(m.Short); err == nil && len(m.Restore) > restored { // bbprof itself uses more lines now
				m.Findings, err = t.Check(m)
			}
		}
		fewer, ok := m.Factors.Within(m.SafeCopies)
		if tooFew := (fewer.Long-fewer.Short)*len(t.Program.Insts) < leastInsts; err == nil || !ok || tooFew || t.Fixed {
			return m, err
		}
		t.Program.Factors = fewer
	}
}

// mapBlock maps the copies of the longer image in a dry run. A block that moves on with every copy gets
// only as many copies as fit on steadyPages.
func (t Task) mapBlock(arena Arena, plan Plan) (*MappedBlock, error) {
	for {
		m := &MappedBlock{ImageBuilder: ImageBuilder{arena, t.Program, t.Harness, t.Offset}, Plan: plan, task: t}
		if err := m.layOut(); err != nil {
			return m, err
		}
		_, fewer := t.Program.Factors.Smaller()
		fewer = fewer && !t.Fixed
		m.Plan.Pages = MaxPages
		if fewer {
			m.Plan.Pages = steadyPages
		}
		err := m.mapCopies(t.Program.Factors.Long)
		if verdict.ReasonOf(err) != verdict.TooManyPages || !fewer {
			return m, err
		}
		t.Program.Factors = t.Program.Factors.AtMost(m.Full)
	}
}

func (m *MappedBlock) layOut() (err error) {
	if bytes := (m.Factors.Short + m.Factors.Long) * m.size(); bytes > layout.CodeSize {
		return m.tooLarge()
	}
	if m.Short, m.Long, err = m.pair(m.Images, 0); err != nil {
		return err
	}
	m.Child.SetRestore(nil, nil)
	return nil
}

// mapCopies maps this number of copies in a dry run.
func (m *MappedBlock) mapCopies(copies int) error {
	im, err := m.dryRun(copies)
	if err != nil {
		return err
	}
	m.Mapping, err = mapPages(m.Child, m.Plan, im)
	if err == nil && len(m.Inverted) > 0 { // the images lack these inversions
		m.Harness.Inverted = m.Inverted
		return m.layOut()
	}
	return err
}
