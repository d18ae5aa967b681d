package mapping

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

const (
	// The registers of observedCopies copies show what advances: the first copy may differ from the others.
	// Fewer than fewestCopies show no advance.
	observedCopies, fewestCopies = 6, 3
	// Each way to end the loop is tried with triedIterations first; mostTrials limits the number of ways.
	triedIterations = 16
	mostTrials      = 300
)

// ByOwnBranch maps a block, already mapped as copies in a row, as a loop of copies that the last copy's branch
// closes. It looks for an initial state in which that branch ends the loop after the wanted number of iterations: it
// changes one register or word of memory that the block reads, assuming that values advance as in the first copies.
// offset is where the loop starts in its page; nil is anywhere. asOften and fits are as in AsLoop.
func (m *MappedBlock) ByOwnBranch(copies int, offset *int, fe unroll.FrontEnd, asOften bool, late func() bool) (loop *MappedBlock, fits bool, err error) {
	placed := *m
	m = &placed
	m.Offset, m.task.Offset = offset, offset
	branch, _ := asm.TrailingBranch(m.Insts)
	reject := func(format string, args ...any) error {
		return &verdict.Rejection{Reason: verdict.LoopExit, Inst: branch.Verdict(len(m.Insts) - 1), Detail: fmt.Sprintf(format, args...)}
	}
	if !branch.Conditional() {
		return m, true, reject("nothing ends a loop that %s closes", branch.Mnemonic)
	}
	if asm.StateOf(m.Insts).FlagsLoaded {
		return m, true, reject("the block loads the flags from memory, and may trap where another number of iterations ends")
	}
	setter := m.flagSetter(branch.Condition())
	if branch.Condition().Flags != 0 && setter == nil {
		return m, true, reject("the block does not set the flags that %s tests", branch.Mnemonic)
	}
	m.Plan.Late = late
	seen, err := m.observe(setter)
	if err != nil {
		return m, true, err
	}
	many, fits := unroll.OwnLoops(m.Insts, copies, fe)
	switch f := m.Factors; {
	case asOften && (f.Short == 0 || f.Short%copies != 0 || f.Long%copies != 0):
		return m, fits, reject("-unroll %v with -bodies %d: a loop runs its whole body, at least once; give positive multiples of %[2]d, or -branch not-taken",
			f, copies)
	case asOften:
		many = []unroll.Factors{{Short: f.Short / copies, Long: f.Long / copies}}
	case !m.repeatsAddresses():
		many = unroll.ShortOwnLoops(many, copies, f)
	}
	ends := 0 // after how many iterations of the block a program's state ends the loop, if it does
	if m.Plan.Captured != nil {
		const most = 8192
		asIs := unroll.Exit{Base: m.Plan.Init.GPR[asm.RAX], Mask: ^uint64(0)}
		on, _, err := m.tryExit(unroll.OwnLoop(copies, asIs, unroll.Factors{}), most)
		if err != nil {
			return m, fits, err
		}
		if on.unrun > 0 {
			ends = (most - on.unrun) * copies
		}
		many = slices.DeleteFunc(many, func(f unroll.Factors) bool { return !asOften && (f.Long-f.Short)*copies*len(m.Insts) < leastInsts })
	}
	var last error
	for trial, x := range candidateExits(seen, setter, ends) {
		if trial == mostTrials || late() {
			break
		}
		if _, ok, err := m.tryExit(unroll.OwnLoop(copies, x, unroll.Factors{}), triedIterations); err != nil || !ok {
			if err != nil {
				return m, fits, err
			}
			continue
		}
		for _, iterations := range many {
			l := unroll.OwnLoop(copies, x, iterations)
			if m.task.VaryExit {
				l.Varied = unroll.VariedBy(iterations)
			}
			loop, err := m.mapWithExit(l)
			if err == nil && loop != nil {
				return loop, fits, nil
			}
			if err != nil && (verdict.ReasonOf(err) == "" || !m.Child.Alive()) {
				return m, fits, err
			}
			last = cmp.Or(last, err)
		}
	}
	if last != nil {
		return m, fits, last
	}
	tests := branch.Text()
	if setter != nil {
		tests = setter.Text()
	}
	if ends > 0 {
		return m, fits, reject("in the program's state the loop ends after %d iterations, and too few others can be told apart from it (%s)", ends, tests)
	}
	if m.Factors.Long < fewestCopies {
		return m, fits, reject("fewer than %d copies in a row do not show what advances; -unroll 8,16 has enough", fewestCopies)
	}
	return m, fits, reject(
		"no register and no word of memory was found whose value decides after how many iterations %s ends the loop (%s)", branch.Mnemonic, tests)
}

// flagSetter returns the last instruction that sets flags of a condition, or nil.
func (m *MappedBlock) flagSetter(condition asm.Values) *asm.Inst {
	for i := len(m.Insts) - 2; i >= 0; i-- {
		if _, writes := m.Insts[i].Dataflow(); writes.Flags&condition.Flags != 0 {
			return &m.Insts[i]
		}
	}
	return nil
}

// variable is a register or a word of memory with its values during the first copies.
type variable struct {
	exit   unroll.Exit
	first  uint64   // value before the first copy
	values []uint64 // value at the branch of each copy
	input  bool     // the block depends on its initial value
	tested bool     // an operand of the instruction that sets the branch's flags
}

// step returns the constant by which the variable advances from copy to copy; ok is false if there is none.
func (v *variable) step() (step uint64, ok bool) {
	mask := v.bits(^uint64(0))
	by := func(i int) uint64 { return (v.bits(v.values[i]) - v.bits(v.values[i-1])) & mask }
	step = by(2)
	for i := 3; i < len(v.values); i++ {
		if by(i) != step {
			return 0, false
		}
	}
	if step > mask/2 {
		step |= ^mask // negative
	}
	return step, true
}

// observe single-steps some copies and lists the values of registers and of words of memory with a constant address.
func (m *MappedBlock) observe(setter *asm.Inst) (list []*variable, err error) {
	last := len(m.Insts) - 1
	type operand struct{ inst, mem int }
	words := map[operand]*variable{}
	regs := make([]*variable, 16)
	var live, written asm.Values
	for i := range m.Insts {
		reads, writes := m.Insts[i].Dataflow()
		live, written = live.Or(reads.Without(written)), written.Or(writes)
	}
	tested := m.Insts[last].GPRs()
	if setter != nil {
		tested |= setter.GPRs()
	}
	for r := range regs {
		regs[r] = &variable{exit: unroll.Exit{Reg: asm.Reg(r), Mask: ^uint64(0)}, input: live.GPR>>r&1 != 0, tested: tested>>r&1 != 0}
	}
	copies := min(observedCopies, m.Factors.Long) // no more, because their pages are known
	m.Refill()
	if err := m.Child.Complete(m.Remap(), RunLimit, "mapping a block again"); err != nil { // timing leaves other frames
		return nil, err
	}
	err = m.Step(copies, stepLimit, func(copy, inst int, at tracee.Regs) {
		if copy == 0 && inst == 0 {
			for r := range regs {
				regs[r].first = at.GPR[r]
			}
		}
		in, all := &m.Insts[inst], m.Plan.regs(at.GPR, inst)
		for k, mem := range in.Mem {
			if !mem.Read || mem.Width > 8 || mem.Repeat != asm.Once || unstepped(mem) {
				continue
			}
			addr, o := mem.Addr(&all), operand{inst, k}
			if copy == 0 && addr%8+uint64(mem.Width) <= 8 {
				shift := 8 * (addr % 8)
				v := &variable{input: true, tested: in == setter, exit: unroll.Exit{
					Memory: true, Addr: addr &^ 7, Mask: ^uint64(0) >> (64 - 8*mem.Width) << shift}}
				v.first = m.presentWord(addr)
				words[o] = v
			} else if v := words[o]; v != nil && addr&^7 != v.exit.Addr {
				delete(words, o)
			}
		}
		if inst == last {
			for r := range regs {
				regs[r].values = append(regs[r].values, at.GPR[r])
			}
			for _, v := range words {
				v.values = append(v.values, m.presentWord(v.exit.Addr))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	list = regs
	for i := range m.Insts {
		for k := range m.Insts[i].Mem {
			if v := words[operand{i, k}]; v != nil && !slices.ContainsFunc(list, func(w *variable) bool { return w.exit == v.exit }) {
				list = append(list, v)
			}
		}
	}
	return slices.DeleteFunc(list, func(v *variable) bool { return len(v.values) < max(copies, fewestCopies) }), nil
}

// presentWord returns the present value of the aligned word at an address.
func (m *MappedBlock) presentWord(addr uint64) uint64 {
	frame, ok := frameOf(m.Pages, addr)
	if !ok {
		return 0
	}
	return binary.LittleEndian.Uint64(m.Child.Frame(frame)[addr%layout.PageSize&^7:])
}

// candidateExits lists ways to end a loop after n iterations, the likeliest first. A variable that stays constant gets
// the value that an advancing one then has; an advancing one starts where it then reaches a constant bound.
// Adjustments allow for branches that compare before or after the step, or by order instead of equality. Of a loop that
// ends by itself, advancing variables are first moved towards that end.
func candidateExits(seen []*variable, setter *asm.Inst, ends int) (list []unroll.Exit) {
	bounds := []uint64{0}
	if setter != nil {
		if v, ok := setter.Constant(); ok {
			bounds = append(bounds, uint64(v))
		}
	}
	for _, v := range seen {
		step, ok := v.step()
		if ok && step == 0 && v.tested {
			bounds = append(bounds, v.bits(v.values[1]))
		}
		if ok && step != 0 && v.input && ends > 0 {
			list = append(list, v.exitAt(v.bits(v.first)+uint64(ends)*step, -step))
		}
	}
	// By what the flags' instruction tests: first values that advance as a tested one, in a constant variable.
	var still, moving [2][]unroll.Exit
	for _, v := range seen {
		own, ok := v.step()
		if !v.input || !ok {
			continue
		}
		for _, of := range seen {
			step, ok := of.step()
			if !ok || step == 0 {
				continue
			}
			untested := 1
			if of.tested {
				untested = 0
			}
			// After n iterations of the block its value at the branch is at + n·step.
			at := of.bits(of.values[1]) - 2*step
			for _, adjust := range []uint64{0, step, -step, 1, ^uint64(0)} {
				if own == 0 {
					still[untested] = append(still[untested], v.exitAt(at+adjust, step))
					continue
				}
				for _, bound := range bounds {
					moving[untested] = append(moving[untested], v.exitAt(v.bits(v.first)+bound-at+adjust, -step))
				}
			}
		}
	}
	return slices.Concat(list, still[0], moving[0], still[1], moving[1])
}

// bits extracts the bits that the block reads, as a number.
func (v *variable) bits(value uint64) uint64 { return (value & v.exit.Mask) / v.unit() }

// unit returns the lowest bit that the block reads.
func (v *variable) unit() uint64 { return v.exit.Mask & -v.exit.Mask }

// exitAt returns the exit that sets this variable.
func (v *variable) exitAt(base, step uint64) unroll.Exit {
	x := v.exit
	x.Base, x.Step, x.Rest = base*v.unit(), step*v.unit(), v.first
	return x
}

// errEarly and errGoesOn report that a loop in a dry run does not end after the wanted number of iterations.
var errEarly, errGoesOn = errors.New("the loop ends early"), errors.New("the loop goes on")

// tryExit reports whether a loop ends after this number of iterations, and its pages.
func (m *MappedBlock) tryExit(l unroll.Loop, iterations int) (on Mapping, ok bool, err error) {
	loop, plan := m.asLoop(l, iterations*l.Bodies.Long)
	plan.Pages = steadyPages
	im, err := loop.dryRun(iterations * l.Bodies.Long)
	if err == nil {
		on, err = mapPages(m.Child, plan, im)
	}
	return on, err == nil, m.unlessRuledOut(err)
}

// stateFor returns a state in which the loop ends after n iterations of the block.
func stateFor(s initial.State, x unroll.Exit, n int) initial.State {
	if x.Memory {
		s.Memory = append(initial.Memory{{Address: x.Addr, Value: x.Value(n)}}, s.Memory...)
	} else {
		s.GPR[x.Reg] = x.Value(n)
	}
	return s
}

// mapWithExit maps a loop in the state of its longer image. It returns nil if an image does not end after its number
// of iterations.
func (m *MappedBlock) mapWithExit(l unroll.Loop) (*MappedBlock, error) {
	again := m
	var err error
	if len(m.Pages) > 0 && m.Plan.Captured == nil {
		from := *m
		from.Plan.Init = stateFor(m.Plan.Init, *l.Exit, l.Iterations().Long)
		from.task.startFrom(from.Plan.Init)
		if again, err = from.Again(m.Factors, m.Plan.Late); err != nil {
			return nil, err
		}
	}
	var loop *MappedBlock
	var ok bool
	if l.Iterations().Long > again.Factors.Long && !again.repeatsAddresses() {
		loop, ok, err = again.mapExtrapolated(l)
	} else {
		loop, ok, err = again.mapLoop(l)
	}
	if err != nil || !ok {
		return nil, err
	}
	midpoint, _ := loop.MidpointFactors()
	fewest := l.Turns.Short - max(l.Varied-1, 0)
	for _, iterations := range []int{fewest, l.Turns.Short, midpoint.Long / l.Bodies.Long} {
		on, ok, err := loop.tryExit(l, iterations)
		for _, p := range on.Pages {
			_, known := frameOf(loop.Pages, p.Addr)
			ok = ok && known
		}
		if !ok {
			return nil, err
		}
	}
	// The dry runs left other pages in the child.
	if err := loop.Child.Complete(loop.Remap(), RunLimit, "mapping a loop again"); err != nil {
		return nil, err
	}
	return loop, loop.addDirty(loop.Short)
}

// mapExtrapolated maps a loop with more iterations of the block than were traced, if their accesses follow from the
// trace. The rules apply as to copies in a row.
func (m *MappedBlock) mapExtrapolated(l unroll.Loop) (_ *MappedBlock, ok bool, err error) {
	loop, plan := m.asLoop(l, l.Iterations().Long)
	if loop.Trace, ok = m.Trace.Extended(loop.Factors.Long); !ok || loop.Trace.Pages() > steadyPages {
		return nil, false, nil
	}
	plan.Pages = steadyPages
	for {
		im, err := loop.dryRun(loop.Factors.Long)
		if err != nil {
			return nil, false, err
		}
		loop.Plan = plan
		if loop.Mapping, err = mapPages(m.Child, plan, im); err != nil {
			return nil, false, loop.unlessRuledOut(err)
		}
		loop.Trace.Frame = loop.framesByPage()
		loop.Restore = loop.throughOwnPages(loop.dirty(m.Child, plan))
		if loop.Short, loop.Long, err = loop.pair(m.Images, 0); err != nil {
			return nil, false, err
		}
		loop.Findings, err = m.task.Check(loop)
		if frames := min(len(loop.Pages), maxAutoFrames); verdict.ReasonOf(err) == verdict.AliasFrame && m.task.Frames == AutoFrames && plan.Frames < frames {
			plan.Frames = frames
			continue
		}
		if err == nil {
			err = loop.addDirty(loop.Long)
		}
		return loop, err == nil, loop.unlessRuledOut(err)
	}
}

// unlessRuledOut drops an error of a dry run that only rules out this loop.
func (m *MappedBlock) unlessRuledOut(err error) error {
	if m.Child.Alive() && (err == errEarly || err == errGoesOn || verdict.ReasonOf(err) != "") {
		return nil
	}
	return err
}
