package profiler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// prepare finds an initial state and a number of frames with which the block runs and all its
// accesses are harmless. The paper's state on one frame comes first; what that gives is the
// paper's verdict. What fails for its context rather than for itself is tried again with more
// frames, and then with the other initial states.
func (r *run) prepare() error {
	var first error
	var firstResult Result // what a block that cannot be rescued is reported with
	r.allowed = r.allow(mapLimit)
	for i, init := range r.inits {
		if err := r.ready(); err != nil { // the last state may have cost the child
			return err
		}
		err := r.prepareWith(init, i == 0)
		if err == nil {
			r.result.Rescued = i > 0
			if n := invariants.NewPages(r.tracing); n > 0 {
				r.warn("it walks on: the second half of the copies touches pages that the first did not, %d of them", n)
			}
			return nil
		}
		if first == nil {
			first, firstResult = err, r.result
		}
		var rejection *verdict.Rejection
		if !errors.As(err, &rejection) {
			return err
		}
		if !ofContext[rejection.Reason] || r.allowed.over() {
			break
		}
	}
	r.result = firstResult
	return first
}

// ofContext are the reasons that another initial state may do away with.
var ofContext = map[verdict.Reason]bool{
	verdict.Unmappable: true, verdict.TooManyPages: true, verdict.UnalignedOperand: true, verdict.SIGFPE: true,
	verdict.SIGSEGV: true, verdict.SIGBUS: true, verdict.SIGTRAP: true, verdict.Timeout: true,
	verdict.Misaligned: true, verdict.Alias4K: true, verdict.AliasFrame: true, verdict.L1DMiss: true,
}

// prepareWith is prepare with one initial state.
func (r *run) prepareWith(init initial.State, paper bool) error {
	r.result.Init = init
	r.child.SetWord(layout.SlotMXCSR, uint64(init.MXCSR))
	r.child.SetWord(layout.DryRunMXCSR, uint64(init.MXCSR))
	r.plan = mapper.Plan{
		Insts: r.insts, Init: init, Frames: max(r.opts.Frames, 1), Limit: runLimit, Late: r.allowed.over, Fresh: r.fresh, NoPages: r.block.Setup.NoMapping,
	}
	r.known = r.foreseen()
	err := r.mapAndTrace()
	if paper && r.plan.Frames == 1 {
		r.result.PaperVerdict = "ok" // until the samples say otherwise
		var rejection *verdict.Rejection
		if errors.As(err, &rejection) {
			r.result.PaperVerdict = string(rejection.Reason)
		}
	}
	var rejection *verdict.Rejection
	if r.opts.Frames == AutoFrames && errors.As(err, &rejection) && rejection.Reason == verdict.AliasFrame {
		// A frame for each page ends the sharing, if L1D has a way for each.
		r.plan.Frames = min(len(r.mapping.Pages), maxAutoFrames)
		return r.mapAndTrace()
	}
	return err
}

// foreseen are the pages that the block is likely to ask for, if its trace can tell whether it does.
func (r *run) foreseen() (pages []mapper.Page) {
	if !r.reaches() {
		return nil
	}
	if _, err := r.instrument(); err != nil {
		return nil
	}
	for _, a := range asm.Foresee(r.insts, r.factors.Long, harness.Start(r.plan.Init)) {
		pages = append(pages, mapper.Page{Addr: layout.PageOf(a.Addr), Inst: a.Inst, Fault: a.Addr, Copy: a.Copy})
	}
	return pages
}

// reaches reports whether the block accesses memory at all.
func (r *run) reaches() bool {
	return slices.ContainsFunc(r.insts, func(in asm.Inst) bool { return len(in.Mem) > 0 })
}

// instrument plans the instrumented copy.
func (r *run) instrument() (*asm.Probe, error) {
	if r.probe == nil && r.noProbe == nil {
		r.probe, r.noProbe = harness.NewProbe(r.insts, r.cpu.Features)
	}
	return r.probe, r.noProbe
}

// maxAutoFrames is how many frames a block may get on its own: no L1D has more ways.
const maxAutoFrames = 16

// leastInsts is by how many instructions the images of a block that moves on must differ at
// least: fewer, and what the images' ends cost outweighs what the copies do.
const leastInsts = 256

// mapAndTrace maps and traces the block and judges the trace. A block that moves on comes to
// alias or to crowd the cache by itself after some copies: it gets no more than that.
func (r *run) mapAndTrace() error {
	for {
		r.harmless = 0
		err := r.mapAndTraceAll()
		fewer, ok := r.factors.Within(r.harmless)
		if tooFew := (fewer.Long-fewer.Short)*len(r.insts) < leastInsts; err == nil || !ok || tooFew || r.opts.Unroll != nil {
			return err
		}
		r.factors = fewer
	}
}

func (r *run) mapAndTraceAll() error {
	for _, step := range []func() error{r.mapAndConfirm, r.findStored, r.judgeTrace} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// mapAndConfirm maps the block and traces it. Where mapping began with pages of an attempt before,
// each has to be in the trace as if the block had asked for it, or it begins with less.
func (r *run) mapAndConfirm() error {
	warnings := r.result.Warnings
	for try := 0; ; try++ {
		if err := r.mapPages(); err != nil {
			return err
		}
		began := r.mapping.Known
		err := r.trace()
		if err == nil && (r.mapping.Confirm(r.plan, r.tracing.Accesses) || began == 0) {
			break
		}
		if err != nil && (began == 0 || !r.child.Alive()) {
			return err
		}
		r.known = r.mapping.Pages
		if err != nil || try > 0 {
			r.known = nil
		}
		r.result.Warnings = warnings
	}
	r.known = r.mapping.Pages
	r.reportMapping()
	return nil
}

// maxTraced bounds the copies that are traced: the log and the instrumented code must fit.
func (r *run) maxTraced(probe *asm.Probe) int {
	const perInst = 160 // more than any instruction with its captures takes
	n := int(layout.LogSize) / max(probe.LogSize(), 1)
	return min(r.factors.Long, n, int(layout.CodeEnd-r.long.End()-4096)/(perInst*len(r.insts)))
}

// trace runs the instrumented copy once and reads what it logged.
func (r *run) trace() error {
	r.complete = false
	r.tracing = invariants.Trace{Insts: r.insts, Frame: map[uint64]int{}}
	for _, p := range r.mapping.Pages {
		r.tracing.Frame[p.Addr] = p.Frame
	}
	if !r.reaches() {
		return nil
	}
	probe, err := r.instrument()
	if err != nil {
		return r.traceByStepping(err)
	}
	copies := r.maxTraced(probe)
	if copies < 1 {
		return r.tooLarge()
	}
	image, err := unroll.BuildProbed(r.long.End(), r.insts, copies, r.inPlace(), probe)
	if err != nil {
		return err
	}
	if image.End() > layout.CodeEnd {
		return fmt.Errorf("the instrumented image ends at %#x, beyond the code region", image.End())
	}
	r.place(image)
	r.dirty = r.mapping.Dirty(r.child, r.plan.Init)
	r.plan.Refill(r.child)
	if err := r.plan.RunOnce(r.child, image); err != nil {
		return err
	}
	r.tracing.Copies = r.tracedEnough(probe, copies)
	r.tracing.Accesses = harness.Accesses(probe, r.child.Log(), r.tracing.Copies, r.plan.Init)
	if suppressed := harness.Suppressed(probe, r.child.Log(), r.tracing.Copies, r.plan.Init); len(suppressed) > 0 {
		reached := r.tracing
		reached.Accesses = suppressed
		if f := invariants.Contained(reached); f.Rejection != nil {
			return f.Rejection
		}
		r.dirty = r.mapping.Suppressed(suppressed, r.dirty)
	}
	r.complete = copies == r.factors.Long
	if !r.complete {
		r.warn("only the first %d of %d copies were traced: the log is full", copies, r.factors.Long)
	}
	return nil
}

// tracedEnough is how many copies of the log tell all. From some copy on most blocks access what
// the copy before did. Where that is the first, two copies have met all there is to meet; else as
// many more as fill the store buffer, and as many as came before, and the rules can find nothing
// else in the rest.
func (r *run) tracedEnough(probe *asm.Probe, copies int) int {
	steady := probe.Steady(r.child.Log(), copies)
	if steady == 0 {
		return min(copies, 2)
	}
	stores := 0
	for i := range r.insts {
		for _, m := range r.insts[i].Mem {
			if m.Write {
				stores++
			}
		}
	}
	return min(copies, 2*(steady+1)+r.cpu.Core.StoreBuffer/max(stores, 1)+1)
}

// findStored completes the list of words to put back before each run. What a run changes depends on
// how many copies it has: a later one may put a word back, and a word that is not restored tells a block
// that this is no trial. But the trace of all copies has the stores of any number of them: where those
// reach no word that is not on the list already, it is complete. Else each number of copies is asked;
// to restore words that stores leave as they are would do, and moved the time of one in fifty such
// blocks by 1 to 4 %.
func (r *run) findStored() error {
	if !r.reset.Memory || len(r.mapping.Pages) == 0 {
		return nil
	}
	if r.complete {
		stored := r.mapping.Stored(r.tracing.Accesses, r.dirty)
		if r.complete = len(stored) == len(r.dirty) && len(stored) <= layout.MaxRestore; r.complete {
			r.dirty = stored
			r.child.SetRestore(stored)
			return nil
		}
	}
	return r.findDirty(r.short)
}

// findDirty adds to that list the words that another image leaves changed, unless it is complete.
func (r *run) findDirty(im unroll.Image) error {
	if !r.reset.Memory || len(r.mapping.Pages) == 0 || r.complete && !r.loops {
		return nil
	}
	r.plan.Refill(r.child)
	if err := r.plan.RunOnce(r.child, im); err != nil {
		return err
	}
	dirty := append(r.dirty, r.mapping.Dirty(r.child, r.plan.Init)...)
	slices.Sort(dirty)
	dirty = slices.Compact(dirty)
	if len(dirty) > layout.MaxRestore {
		// 64 KiB, more than any L1D holds, so nobody's miss is lost.
		return &verdict.Rejection{Reason: verdict.L1DMiss, Detail: fmt.Sprintf("a run changes %d words, and no more than %d can be put back before the next", len(dirty), layout.MaxRestore)}
	}
	r.dirty = dirty
	r.child.SetRestore(dirty)
	return nil
}

// judgeTrace holds the rules against the accesses.
func (r *run) judgeTrace() error {
	core := r.cpu.Core
	if f := invariants.Contained(r.tracing); f.Rejection != nil {
		return f.Rejection // it can have written to frames, and to nothing else
	}
	if r.opts.Detail {
		predicted := invariants.Predict(r.tracing, core)
		r.result.Predicted = &predicted
	}
	r.findings = nil
	for _, f := range []invariants.Finding{
		invariants.Residency(r.tracing, core, r.ownLines()),
		invariants.Split(r.tracing),
		invariants.Alias4K(r.tracing, core),
		invariants.AliasFrame(r.tracing, core),
	} {
		if f.Rejection == nil {
			r.findings = append(r.findings, f.Evidence)
			continue
		}
		if r.tolerate(f.Rejection) {
			continue
		}
		if f.Rejection.Reason != verdict.AliasFrame { // more frames end that
			r.harmless = f.Copy
		}
		return f.Rejection
	}
	r.result.SelfForwarding, _ = invariants.SelfForwarding(r.tracing, core)
	return nil
}

// ownLines is how many lines of each L1D set bbprof itself uses while it samples.
func (r *run) ownLines() (own [layout.PageSize / 64]int) {
	use := func(from, bytes uint64) {
		for line := from / 64; line <= (from+bytes-1)/64; line++ {
			own[line%uint64(len(own))]++
		}
	}
	if r.counts() {
		use(layout.SlotCount, 8)
		use(layout.Times, 8*(countedRuns+1))
		events := 0 // passes use the same tables
		for _, p := range r.passes {
			events = max(events, len(p.events))
		}
		use(layout.CountSelect(0), 8*uint64(events))
		use(layout.CountTable(0), layout.CountTable(events)-layout.CountTable(0))
	} else {
		phases := uint64(len(r.chains) + 2)
		use(layout.SlotCount, layout.Phases+phases*layout.PhaseSize-layout.SlotCount)
		use(layout.Times, 8*(maxRuns+imageWarm+2))
		use(layout.Samples, 8*(phases+1)*windowSamples)
	}
	if len(r.dirty) > 0 {
		use(layout.Restore, 8*uint64(len(r.dirty)))
	}
	return own
}
