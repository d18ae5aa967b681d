package profiler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// job is a block and its measurement's options.
type job struct {
	Block
	Options // the session's, with the block's set-up
	states  []initial.State
	// ownLoop reports that the block's final branch closes the measured loop.
	ownLoop bool
}

// progress holds the result of each step that a block has completed.
type progress struct {
	branch      BranchReport
	insts       []asm.Inst
	factors     unroll.Factors
	crowded     bool // the copies exceed the share of the op cache that keeps them in it
	block       *mapping.MappedBlock
	measurement measurement
	samples     Result       // its part from checkSamples
	row         *measurement // beside a loop
	untrained   *Untrained   // of a loop that ran as it stands
	warnings    []string     // about the loop, or the row beside it
}

// mapped returns the block as it was measured last, or nil.
func (p progress) mapped() *mapping.MappedBlock { return cmp.Or(p.measurement.block, p.block) }

// profile measures a block. A *verdict.Rejection as error explains why the block has no throughput;
// the Result then holds the results of the steps before.
func (s *session) profile(b Block) (Result, error) {
	if err := b.Setup.Check(); err != nil {
		return Result{}, err
	}
	j := s.job(b)
	if err := j.checkOneImage(); err != nil { // set-up and options are valid only one by one
		return Result{}, err
	}
	host := s.hostReport()
	p, err := s.runSteps(j)
	host.OnCPU = s.cpus.Current() // a busy CPU may have been left
	reportAsWritten(err, b, s.cpu.Disabled)
	return s.result(j, host, p, err == nil), err
}

// reportAsWritten names the instruction of a rejection as the user wrote it. It also names the operating system as the cause
// if that disabled the instruction's extension.
func reportAsWritten(err error, b Block, disabled asm.Features) {
	r, ok := errors.AsType[*verdict.Rejection](err)
	if !ok || r.Inst == nil {
		return
	}
	insts, err := b.asWritten()
	if err != nil || r.Inst.Index >= len(insts) {
		return
	}
	at := r.Inst.Index
	r.Inst = insts[at].Verdict(at)
	if r.Reason != verdict.SIGILL {
		return
	}
	const blame = "the operating system does not enable %s, which this CPU has"
	switch needs := asm.StateOf(insts[at : at+1]); {
	case disabled.AVX && needs.VEX:
		r.Detail = fmt.Sprintf(blame, "AVX")
	case disabled.AVX512 && (needs.EVEX || needs.Opmask):
		r.Detail = fmt.Sprintf(blame, "AVX-512")
	}
}

// runSteps takes a block from its bytes to its measurement.
func (s *session) runSteps(j job) (p progress, err error) {
	if c := j.Setup.Captured; c != nil && c.Header != nil {
		return s.profileRegion(j, c)
	}
	if p, err = s.start(&j); err != nil {
		return p, err
	}
	if p.block, err = s.prepare(j, p.insts, p.factors); err != nil {
		return p, err
	}
	if err = p.block.LeavesEarly(); err != nil {
		return p, err
	}
	if fewer, ok := p.block.Factors.Within(mostFalling); ok && j.Unroll == nil && fallsThrough(p.block) {
		if p.block, err = p.block.Again(fewer, s.startBudget(mapLimit)); err != nil {
			return p, err
		}
	}
	if j.Mode == Unroll && !j.ownLoop {
		p.measurement, err = s.measure(j, p.block, nil, &p.samples)
		return p, err
	}
	copies := p.block
	if err = s.measureLoop(j, &p); err != nil {
		return p, s.orAsRow(j, copies, &p, err)
	}
	if j.Mode == Both || j.Mode == Hot && !j.ownLoop && copies.Forwards.Fed > 0 {
		return p, s.measureRow(j, copies, &p)
	}
	return p, nil
}

// start takes a block to its instructions and numbers of copies.
func (s *session) start(j *job) (p progress, err error) {
	code := j.Code
	if code, p.branch, err = j.trailingBranch(code); err != nil {
		return p, err
	}
	j.ownLoop = p.branch.As == Taken && j.Mode != Both
	j.keepCodeOffset()
	if j.Setup.Captured == nil {
		code = mapper.Place(code, j.Setup.Address)
	}
	asked := j.Mode
	p.insts, err = j.decode(code)
	if asked == Both && j.Mode == Unroll {
		p.warnings = []string{"the loop was not measured: a block with branches within it is measured in a row"}
	}
	if err == nil {
		p.factors, p.crowded, err = j.chooseCopies(p.insts, s.cpu.FrontEnd)
	}
	return p, err
}

// decode decodes a block and rejects one that may not run. A block with branches within it is measured as copies in a row.
func (j *job) decode(code []byte) ([]asm.Inst, error) {
	if len(code) == 0 {
		return nil, &verdict.Rejection{Reason: verdict.BadHex, Detail: "the block has no bytes"}
	}
	insts, err := asm.Decode(code)
	if err != nil {
		return insts, err
	}
	var inner []int
	if j.Options.Inner {
		inner = asm.InnerBranches(insts)
	}
	if rejection := asm.RefuseBut(asm.WithoutBranch(insts), inner); rejection != nil {
		return insts, rejection
	}
	if len(inner) > 0 {
		if rejection := j.besideBranches(insts, inner[0]); rejection != nil {
			return insts, rejection
		}
		j.Mode = Unroll
	}
	switch _, net, steady := asm.X87Stack(insts); {
	case net != 0:
		return insts, &verdict.Rejection{Reason: verdict.X87Stack, Detail: fmt.Sprintf(
			"each copy leaves the x87 stack %+d deep, so copies in a row do not do what one does", net)}
	case !steady:
		return insts, &verdict.Rejection{Reason: verdict.X87Stack,
			Detail: "copies in a row read an empty x87 register or push onto a full one, however many are filled before"}
	}
	return insts, nil
}

// besideBranches rejects what must run in each copy, and a loop of what is measured in a row.
func (j *job) besideBranches(insts []asm.Inst, branch int) *verdict.Rejection {
	why, remedy := "", ""
	state := asm.StateOf(insts)
	masked := func(in asm.Inst) bool { return slices.ContainsFunc(in.Mem, asm.Mem.CanBeSuppressed) }
	switch {
	case j.ownLoop:
		why, remedy = " with a branch to its start", "bbprof capture -loops takes such a loop from a program; -branch drop leaves the last branch out"
	case j.Mode == Loop:
		why, remedy = ", which is measured in a row, not in a loop", "leave out -mode loop"
	case state.X87 || state.MMX:
		why = " with x87 or MMX instructions"
	case slices.ContainsFunc(insts, masked):
		why = " with an access that a mask may suppress"
	default:
		return nil
	}
	return &verdict.Rejection{Reason: verdict.ControlFlow, Inst: insts[branch].Verdict(branch), Remedy: remedy,
		Detail: insts[branch].Mnemonic + " branches within a block" + why}
}

// resetFor returns the state that must be restored between two runs of these instructions.
func resetFor(insts []asm.Inst) harness.Reset {
	s := asm.StateOf(insts)
	reset := harness.Reset{
		Vector: s.Vector,
		High:   s.HighVector || s.Opmask,
		X87:    s.X87 || s.MMX,
		MMX:    s.MMX,
		MXCSR:  s.MXCSRLoaded || s.MXCSRSticky,
		Flags:  s.Direction || s.FlagsLoaded,
	}
	reset.Filled, _, _ = asm.X87Stack(insts)
	for i := range insts {
		for _, m := range insts[i].Mem {
			reset.Memory = reset.Memory || m.Write || m.CanBeSuppressed()
		}
	}
	return reset
}

// chooseCopies returns the user's numbers of copies, or chooses them for the block and the front end.
func (j job) chooseCopies(insts []asm.Inst, frontEnd unroll.FrontEnd) (f unroll.Factors, crowded bool, err error) {
	if j.Unroll != nil {
		return *j.Unroll, false, nil
	}
	if j.Options.FrontEnd == Decode {
		frontEnd.OpCache.Lines = math.MaxInt32 // then only L1I sets a limit
	}
	f, fits, err := unroll.Choose(insts, frontEnd)
	return f, !fits, err
}

// prepare maps and traces the block in a state in which all its accesses are safe.
func (s *session) prepare(j job, insts []asm.Inst, copies unroll.Factors) (*mapping.MappedBlock, error) {
	task := s.task(j, insts, copies)
	task.Harness.Reset.SameCode = j.Setup.SameCode
	if j.Setup.Captured != nil {
		return task.PrepareCaptured(j.Setup.Captured)
	}
	return task.Prepare(j.states)
}

// task describes a block for mapping.
func (s *session) task(j job, insts []asm.Inst, copies unroll.Factors) mapping.Task {
	return mapping.Task{
		Open:    s.arena,
		Program: mapping.Program{Insts: insts, Factors: copies},
		Harness: harness.Harness{Reset: resetFor(insts), Features: s.cpu.Features, Decoders: j.Options.FrontEnd == Decode,
			LeadNops: j.Setup.LeadNops, FallThrough: j.ownLoop},
		Offset:      j.Setup.CodeOffset,
		Fixed:       j.Unroll != nil,
		Frames:      j.Frames,
		NoPages:     j.Setup.NoMapping,
		VaryExit:    s.counters() == nil, // of counted timings most must be equal
		Late:        s.startBudget(mapLimit),
		StoreBuffer: s.cpu.Core.StoreBuffer,
		Move:        s.opts.Init == "" && len(j.states) > 1, // the user named no initial state and allows a rescue
		Check:       func(m *mapping.MappedBlock) (mapping.Findings, error) { return s.checkTrace(j, m) },
	}
}

// checkTrace applies the rules to the accesses.
func (s *session) checkTrace(j job, m *mapping.MappedBlock) (findings mapping.Findings, err error) {
	core := s.cpu.Core
	if f := invariants.Contained(m.Trace); f.Rejection != nil {
		return findings, f.Rejection // so far it has written to frames only
	}
	if j.Detail {
		predicted := invariants.Predict(m.Trace, core)
		findings.Predicted = &predicted
	}
	for _, f := range []invariants.Finding{
		invariants.L1DMiss(m.Trace, core, s.ownLines(m)),
		invariants.DTLBMiss(m.Trace, core),
		invariants.Misaligned(m.Trace),
		invariants.Alias4K(m.Trace, core),
		invariants.AliasFrame(m.Trace, core),
	} {
		if f.Rejection == nil {
			findings.Evidence = append(findings.Evidence, f.Evidence)
			continue
		}
		if j.tolerates(f.Rejection, &findings.Warnings) {
			continue
		}
		if f.Rejection.Reason != verdict.AliasFrame { // more frames help, not fewer copies
			findings.SafeCopies = f.Copy
		}
		return findings, f.Rejection
	}
	findings.Forwards = invariants.Forwarding(m.Trace, core)
	if m.Plan.Captured != nil {
		findings.Forwards.Self = 0 // equal registers are the program's
	} else if n := invariants.NewPages(m.Trace); n > 0 {
		findings.Warnings = append(findings.Warnings, fmt.Sprintf(
			"it touches new pages as it goes on: the second half of the copies uses %d that the first did not", n))
	}
	return findings, nil
}

// ownLines counts the lines of each L1D set that bbprof itself uses while it times a block.
func (s *session) ownLines(m *mapping.MappedBlock) (own [layout.PageSize / 64]int) {
	use := func(from, bytes uint64) {
		for line := from / 64; line <= (from+bytes-1)/64; line++ {
			own[line%uint64(len(own))]++
		}
	}
	s.timer.Uses(use)
	if len(m.Restore) > 0 {
		each := uint64(8)
		if m.Harness.Reset.Values {
			each = 16
		}
		use(layout.Restore, each*uint64(len(m.Restore)))
	}
	at, bytes := harness.DataOf(m.Plan.Init, m.Harness.Reset)
	for _, im := range []harness.Image{m.Short, m.Long} {
		if bytes > 0 {
			use(im.Address+at, bytes)
		}
		if im.Table > 0 {
			use(im.Table, harness.TableBytes)
		}
	}
	return own
}

// tolerates turns a rejection that the options tolerate into a warning.
func (j job) tolerates(err error, warnings *[]string) bool {
	rejection, ok := errors.AsType[*verdict.Rejection](err)
	if !ok || !slices.Contains(j.Options.Tolerate, rejection.Reason) {
		return false
	}
	*warnings = append(*warnings, fmt.Sprintf("tolerated: %v", rejection))
	return true
}

// measurement holds a timed program.
type measurement struct {
	block    *mapping.MappedBlock
	timed    timing.Timed
	warnings []string
}

// measure times a program, checks that time grows linearly with the number of copies, counts events that only the kernel can read, and
// checks the samples, whose results it adds to out. beside is the loop that was measured before: then events are not counted, and a row that
// nobody asked for is timed until it is known to agree with it.
func (s *session) measure(j job, m *mapping.MappedBlock, beside *measurement, out *Result) (r measurement, err error) {
	plan := j.plan(m)
	if beside != nil && j.Mode != Both {
		plan.Enough = beside.agrees
	}
	r.block = m
	if r.timed, err = s.time(m, plan); err != nil {
		return r, err
	}
	if r, err = s.ensureLinear(j, r); err != nil {
		return r, err
	}
	if beside == nil {
		if r.timed.Events, err = s.readEvents(j, r.block, r.timed.Events); err != nil {
			return r, err
		}
	}
	if err := s.checkSamples(j, r.block, r.timed, out); err != nil {
		return r, err
	}
	return r, j.addEnds(&r)
}

// agreeShare is the difference below which a row beside a loop is not timed more precisely.
const agreeShare = 0.03

// agrees reports whether a row's whole interval is close to the cycles of this loop.
func (r *measurement) agrees(row stat.Estimate) bool {
	loop := r.timed.Estimate.Value
	return math.Abs(row.Value-loop)+row.Half <= agreeShare*loop
}

// time times a program until its interval is narrow enough.
func (s *session) time(m *mapping.MappedBlock, p timing.Plan) (timing.Timed, error) {
	t, err := s.timer.Time(timedBlock{m}, p)
	return t, mapping.Unexpected(err)
}

func (j job) plan(m *mapping.MappedBlock) timing.Plan {
	plan := timing.Plan{
		Remap: m.Remap(), Warm: timing.Warm, VectorBits: asm.StateOf(m.Insts).VectorBits,
		Budget: j.Budget, Precision: j.Precision, Identical: j.Identical, Tolerate: j.Options.Tolerate,
		Layout: j.onlyLayout(), OnePlace: j.Setup.CodeOffset != nil,
	}
	if m.Loop != nil && m.Loop.OneCode() {
		plan.Whole = true // a slow place may be in the other half
	}
	if m.Loop != nil && m.Loop.Turns.Short >= unroll.CountedTurns {
		plan.Warm = 1 // a loop of many iterations warms itself up; the one run sets the start time
	}
	if m.Region != nil {
		plan.Warm, plan.OnePlace, plan.Uneven = regionWarm, true, true
	}
	return plan
}

// timedBlock implements timing.Block for a mapped block.
type timedBlock struct{ *mapping.MappedBlock }

func (b timedBlock) Replicates(places []int, pass int, read harness.Clock) (pairs []timing.Pair, err error) {
	var starts []int
	for _, place := range places {
		starts = append(starts, place*timing.PlaceBytes)
	}
	images, err := b.MappedBlock.Replicates(starts, pass, read)
	for _, im := range images {
		pairs = append(pairs, b.pair(im[0], im[1], b.Factors))
	}
	return pairs, err
}

func (b timedBlock) Remap(replicate int) []tracee.Op { return b.MappedBlock.RemapTo(replicate) }

func (b timedBlock) Midpoint(read harness.Clock) (timing.Pair, bool, error) {
	im, ok, err := b.MappedBlock.Midpoint(read)
	factors, _ := b.MidpointFactors()
	return b.pair(b.Short, im, factors), ok, err
}

// midpointAt is Midpoint with the shorter image laid out again at a place, on this pass's pages of code.
func (b timedBlock) midpointAt(place, pass int, read harness.Clock) (timing.Pair, bool, error) {
	if _, err := b.Replicates([]int{place}, pass, read); err != nil {
		return timing.Pair{}, false, err
	}
	// The last replicate left the pages on other frames, but the words that the image changes are read from those of Remap.
	if err := b.Child.Complete(b.MappedBlock.Remap(), mapping.RunLimit, "mapping a block again"); err != nil {
		return timing.Pair{}, false, err
	}
	return b.Midpoint(read)
}

func (b timedBlock) pair(short, long harness.Image, f unroll.Factors) timing.Pair {
	shift := layout.Shift(b.Plan.Window)
	varied, own := 0, 0.0
	if b.Loop != nil {
		varied, own = b.Loop.Varied*b.Loop.Bodies.Long, b.Loop.Own
	}
	return timing.Pair{
		Own:   own,
		Short: timing.Image{Entry: short.Entry + shift, Iterations: f.Short, Varied: varied},
		Long:  timing.Image{Entry: long.Entry + shift, Iterations: f.Long, Varied: varied},
	}
}

// checkSamples checks that the samples are those of an undisturbed, steady block, and adds what they show to r.
func (s *session) checkSamples(j job, m *mapping.MappedBlock, t timing.Timed, r *Result) error {
	r.WindowsKept = len(t.Windows)
	misses := func(im harness.Image) float64 {
		return float64(invariants.CodeMisses(im.Address, len(im.Code), s.cpu.FrontEnd.L1I))
	}
	if m.Predicted != nil {
		predicted := *m.Predicted
		predicted.RunL1IMisses = misses(m.Long)
		predicted.L1IMisses = unroll.Throughput(misses(m.Short), predicted.RunL1IMisses, m.Factors)
		r.Predicted = &predicted
	}
	evidence := slices.Clone(m.Evidence)
	l1i := invariants.L1IMiss(m.CodeBytes(), s.cpu.FrontEnd.L1I)
	switch {
	case l1i.Rejection == nil:
		evidence = append(evidence, l1i.Evidence)
	case !j.tolerates(l1i.Rejection, &r.Warnings):
		r.Evidence = evidence
		return l1i.Rejection
	}
	evidence = append(evidence, invariants.ContextSwitches(r.WindowsKept, t.WindowsSwitched),
		invariants.IdleCore(r.WindowsKept, t.WindowsUnsteady, s.timer.Report().ProbeIdle))
	r.Evidence = s.countedEvidence(evidence, t.Events)
	r.Core, r.Counters = string(s.pmu.Core), s.reportCounters(t.Events)
	r.Speeds = speedsOf(t)
	for _, c := range t.Design.Cells {
		if j.Detail {
			r.LayoutCycles = append(r.LayoutCycles, LayoutCycles{c.Number, c.Mean})
		}
	}
	which, impossible := s.impossible(m, t)
	if r.Impossible = which; impossible != nil && !j.tolerates(impossible, &r.Warnings) {
		return impossible
	}
	if rejection := j.unstable(t, r.Speeds); rejection != nil && !j.tolerates(rejection, &r.Warnings) {
		return rejection
	}
	return nil
}
