package profiler

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// job is a block and how it is to be measured.
type job struct {
	Block
	Options // the session's, with the block's set-up
	states  []initial.State
	// vectorBits is the width of the widest operation, once the block is decoded.
	vectorBits int
	// ownLoop says that the branch at the block's end closes the loop that is measured.
	ownLoop bool
}

// reached is what each step of a block came to, as far as it got.
type reached struct {
	branch   BranchReport
	decoded  decoded
	repeated repeated
	mapped   *mapping.Mapped
	measured measured
	loop     *looped  // beside it, in mode both
	warnings []string // on the loop
}

// profile is what happens to a block: each step makes a value of those before. A *verdict.Rejection
// as error says why the block has no throughput; the result then holds what was found out until there.
func (s *session) profile(b Block) (Result, error) {
	if err := b.Setup.Check(); err != nil {
		return Result{}, err
	}
	j := s.job(b)
	if err := j.checkOneImage(); err != nil { // of set-up and options together
		return Result{}, err
	}
	here := s.hostReport()
	r, err := s.steps(j)
	here.OnCPU = s.cpus.Current() // it moves where the CPU is busy
	asWritten(err, j.Code, s.cpu.Disabled)
	result := s.result(j, here, r, err == nil)
	return result, err
}

// asWritten names the instruction of a rejection as the user wrote it, and what does not run it where that is not the CPU:
// the operating system, which disabled some extensions.
func asWritten(err error, code []byte, disabled asm.Features) {
	r, ok := errors.AsType[*verdict.Rejection](err)
	if !ok || r.Inst == nil {
		return
	}
	insts, err := asm.Decode(code)
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

func (s *session) steps(j job) (r reached, err error) {
	code := j.Code
	if code, r.branch, err = j.ended(code); err != nil {
		return r, err
	}
	j.ownLoop = r.branch.As == Taken && j.Mode != Both
	j.atItsPlace()
	if j.Setup.Captured == nil {
		code = mapper.Place(code, j.Setup.At)
	}
	if r.decoded, err = decode(code); err != nil {
		return r, err
	}
	if r.repeated, err = j.repeat(r.decoded, s.cpu.FrontEnd); err != nil {
		return r, err
	}
	if r.mapped, err = s.prepare(j, r.decoded, r.repeated); err != nil {
		return r, err
	}
	if err = r.mapped.LeavesEarly(); err != nil {
		return r, err
	}
	j.vectorBits = r.decoded.vectorBits
	if j.ownLoop {
		loop, err := s.asOwnLoop(j, r.mapped)
		if r.mapped, r.warnings = loop.mapped, loop.warnings; err != nil {
			return r, err
		}
	} else if j.Mode == Loop {
		loop, err := s.asLoop(r.mapped, j.Options.Unroll != nil)
		if r.mapped, r.warnings = loop.mapped, loop.warnings; err != nil {
			return r, err
		}
	}
	if r.measured, err = s.measure(j, r.mapped, true); err != nil {
		return r, err
	}
	if j.Mode == Both {
		r.loop, r.warnings, err = s.measureLoop(j, r.measured.mapped, r.branch.As == Taken)
	}
	return r, err
}

// decoded is a block that may run.
type decoded struct {
	insts      []asm.Inst
	reset      harness.Reset // the least that has to be restored between two runs
	vectorBits int           // of the widest operation
}

func decode(code []byte) (d decoded, err error) {
	if len(code) == 0 {
		return d, &verdict.Rejection{Reason: verdict.BadHex, Detail: "the block has no bytes"}
	}
	if d.insts, err = asm.Decode(code); err != nil {
		return d, err
	}
	running := d.insts
	if _, ok := asm.TrailingBranch(d.insts); ok {
		running = running[:len(running)-1]
	}
	if rejection := asm.Refuse(running); rejection != nil {
		return d, rejection
	}
	state := asm.StateOf(d.insts)
	d.reset, d.vectorBits = resetFor(d.insts, state), state.VectorBits
	switch _, net, steady := asm.X87Stack(d.insts); {
	case net != 0:
		return d, &verdict.Rejection{Reason: verdict.X87Stack, Detail: fmt.Sprintf(
			"each copy leaves the x87 stack %+d deep, so copies in a row do not do what one does", net)}
	case !steady:
		return d, &verdict.Rejection{Reason: verdict.X87Stack, Detail: "copies in a row read an empty x87 register or push onto a full one, however many are filled before"}
	}
	return d, nil
}

// resetFor is the least that has to be restored between two runs of these instructions.
func resetFor(insts []asm.Inst, s asm.State) harness.Reset {
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

// repeated is how often a block is repeated in its two images.
type repeated struct {
	factors unroll.Factors
	crowded bool // the copies exceed the share of the op cache that keeps them in it
}

func (j job) repeat(d decoded, frontEnd unroll.FrontEnd) (repeated, error) {
	if j.Unroll != nil {
		return repeated{factors: *j.Unroll}, nil
	}
	if j.Options.FrontEnd == Decode {
		frontEnd.OpCache.Lines = math.MaxInt32 // then only L1I sets a limit
	}
	factors, fits, err := unroll.Choose(d.insts, frontEnd)
	return repeated{factors, !fits}, err
}

// prepare maps the block and traces it, in a state in which all its accesses are harmless.
func (s *session) prepare(j job, d decoded, r repeated) (*mapping.Mapped, error) {
	task := s.task(j, d, r)
	if j.Setup.Captured != nil {
		return task.Replayed(j.Setup.Captured)
	}
	return task.Prepare(j.states)
}

// task is what mapping has to know of a block.
func (s *session) task(j job, d decoded, r repeated) mapping.Task {
	return mapping.Task{
		Open:        s.open,
		Program:     mapping.Program{Insts: d.insts, Factors: r.factors},
		Harness:     harness.Harness{Reset: d.reset, Features: s.cpu.Features, Decoders: j.Options.FrontEnd == Decode, LeadNops: j.Setup.LeadNops, FallThrough: j.ownLoop},
		Offset:      j.Setup.CodeOffset,
		Fixed:       j.Unroll != nil,
		Frames:      j.Frames,
		NoPages:     j.Setup.NoMapping,
		Late:        s.allow(mapLimit).over,
		StoreBuffer: s.cpu.Core.StoreBuffer,
		Move:        s.choosesState(j),
		Judge:       func(m *mapping.Mapped) (mapping.Judged, error) { return s.judgeTrace(j, m) },
	}
}

// choosesState reports whether bbprof may choose a block's initial state: the user named none, and allows a rescue.
func (s *session) choosesState(j job) bool { return s.opts.Init == "" && len(j.states) > 1 }

// judgeTrace applies the rules to the accesses.
func (s *session) judgeTrace(j job, m *mapping.Mapped) (judged mapping.Judged, err error) {
	core := s.cpu.Core
	if f := invariants.Contained(m.Trace); f.Rejection != nil {
		return judged, f.Rejection // it can have written to frames, and to nothing else
	}
	if j.Detail {
		predicted := invariants.Predict(m.Trace, core)
		judged.Predicted = &predicted
	}
	for _, f := range []invariants.Finding{
		invariants.L1DMiss(m.Trace, core, s.ownLines(m)),
		invariants.Misaligned(m.Trace),
		invariants.Alias4K(m.Trace, core),
		invariants.AliasFrame(m.Trace, core),
	} {
		if f.Rejection == nil {
			judged.Evidence = append(judged.Evidence, f.Evidence)
			continue
		}
		if j.tolerates(f.Rejection, &judged.Warnings) {
			continue
		}
		if f.Rejection.Reason != verdict.AliasFrame { // more frames end that
			judged.Harmless = f.Copy
		}
		return judged, f.Rejection
	}
	if m.Plan.Replay == nil { // else equal registers are the program's
		judged.SelfForwarding, _ = invariants.SelfForwarding(m.Trace, core)
		judged.Carried = invariants.Carried(m.Trace, core)
		if n := invariants.NewPages(m.Trace); n > 0 {
			judged.Warnings = append(judged.Warnings, fmt.Sprintf("it touches new pages as it goes on: the second half of the copies uses %d that the first did not", n))
		}
	}
	return judged, nil
}

// ownLines is how many lines of each L1D set bbprof itself uses while it times a block.
func (s *session) ownLines(m *mapping.Mapped) (own [layout.PageSize / 64]int) {
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
	if at, bytes := harness.DataOf(m.Plan.Init, m.Harness.Reset); bytes > 0 {
		use(m.Short.At+at, bytes)
		use(m.Long.At+at, bytes)
	}
	return own
}

// tolerates makes a warning of a rejection that the options tolerate.
func (j job) tolerates(err error, warnings *[]string) bool {
	rejection, ok := errors.AsType[*verdict.Rejection](err)
	if !ok || !slices.Contains(j.Options.Tolerate, rejection.Reason) {
		return false
	}
	*warnings = append(*warnings, fmt.Sprintf("tolerated: %v", rejection))
	return true
}

// measured is a program that was timed, and what its samples say.
type measured struct {
	mapped   *mapping.Mapped
	timed    timing.Timed
	judged   judged
	pastLead bool // with copies that use up the front end's lead
	warnings []string
}

// measure times a program, checks that its time grows in line with its length and that its front end keeps up, counts events that
// only the kernel can read, if it is to, and judges the samples.
func (s *session) measure(j job, m *mapping.Mapped, events bool) (r measured, err error) {
	ahead := s.leadOf(j, m)
	plan := j.plan(m)
	plan.Enough = ahead.hides
	r.mapped = m
	if r.timed, err = s.time(m, plan); err != nil {
		return r, err
	}
	if ahead.hides != nil && ahead.hides(r.timed.Estimate) {
		if r, err = s.pastLead(j, r, ahead.copies); err != nil {
			return r, err
		}
	}
	if !r.pastLead {
		if r, err = s.linear(j, r); err != nil {
			return r, err
		}
	}
	if events {
		if r.timed.Events, err = s.readEvents(j, r.mapped, r.timed.Events); err != nil {
			return r, err
		}
	}
	r.judged, err = s.judge(j, r.mapped, r.timed)
	return r, err
}

// time takes as many replicates as the interval needs.
func (s *session) time(m *mapping.Mapped, p timing.Plan) (timing.Timed, error) {
	t, err := s.timer.Time(timedBlock{m}, p)
	return t, mapping.Unexpected(err)
}

// plan says how to time a mapped block.
func (j job) plan(m *mapping.Mapped) timing.Plan {
	p := timing.Plan{
		Remap: m.Remap(), Warm: timing.Warm, VectorBits: j.vectorBits,
		Budget: j.Budget, Precision: j.Precision, Identical: j.Identical, Tolerate: j.Options.Tolerate,
		At: j.at(), OnePlace: j.Setup.CodeOffset != nil,
	}
	if m.Loop != nil && m.Loop.LoopIterations.Short >= unroll.ManyIterations {
		p.Warm = 1 // a loop of many iterations warms itself up and needs no more than the run from whose end time counts
	}
	return p
}

// timedBlock is a mapped block as timing.Block.
type timedBlock struct{ *mapping.Mapped }

// Replicates implements timing.Block.
func (b timedBlock) Replicates(places []int, pass int, read harness.Clock) (pairs []timing.Pair, err error) {
	var starts []int
	for _, place := range places {
		starts = append(starts, place*timing.PlaceBytes)
	}
	images, err := b.Mapped.Replicates(starts, pass, read)
	for _, im := range images {
		pairs = append(pairs, b.pair(im[0], im[1], b.Factors))
	}
	return pairs, err
}

// Remap implements timing.Block.
func (b timedBlock) Remap(replicate int) []tracee.Op { return b.Mapped.RemapTo(replicate) }

// Third implements timing.Block.
func (b timedBlock) Third(read harness.Clock) (timing.Pair, bool, error) {
	im, ok, err := b.Mapped.Third(read)
	factors, _ := b.ThirdFactors()
	return b.pair(b.Short, im, factors), ok, err
}

// thirdAt is Third with the shorter image laid out anew at a place, on pages of code of this pass.
func (b timedBlock) thirdAt(place, pass int, read harness.Clock) (timing.Pair, bool, error) {
	if _, err := b.Replicates([]int{place}, pass, read); err != nil {
		return timing.Pair{}, false, err
	}
	// The last replicate left the pages on frames of its own, and what the image changes is read from those of Remap.
	if err := b.Child.Complete(b.Mapped.Remap(), mapping.RunLimit, "mapping a block again"); err != nil {
		return timing.Pair{}, false, err
	}
	return b.Third(read)
}

func (b timedBlock) pair(short, long harness.Image, f unroll.Factors) timing.Pair {
	shift := layout.Shift(b.Plan.Window)
	return timing.Pair{
		Short: timing.Image{Entry: short.At + shift, Iterations: f.Short},
		Long:  timing.Image{Entry: long.At + shift, Iterations: f.Long},
	}
}

// judged is what the samples of a program say.
type judged struct {
	evidence []invariants.Evidence
	counters []CounterReport
	core     string
	// expected in an iteration, and in a run of the longer image
	l1iMisses, runL1IMisses float64
	windows                 int
	speeds                  []Speed
	layouts                 []LayoutCycles
	impossible              Impossible
	warnings                []string
}

// judge decides whether the samples are those of an undisturbed, steady block.
func (s *session) judge(j job, m *mapping.Mapped, t timing.Timed) (r judged, err error) {
	r.windows = len(t.Windows)
	misses := func(im harness.Image) float64 {
		return float64(invariants.CodeMisses(im.At, len(im.Code), s.cpu.FrontEnd.L1I))
	}
	r.runL1IMisses = misses(m.Long)
	r.l1iMisses = unroll.Throughput(misses(m.Short), r.runL1IMisses, m.Factors)
	r.evidence = slices.Clone(m.Evidence)
	l1i := invariants.L1IMiss(m.CodeBytes(), s.cpu.FrontEnd.L1I)
	switch {
	case l1i.Rejection == nil:
		r.evidence = append(r.evidence, l1i.Evidence)
	case !j.tolerates(l1i.Rejection, &r.warnings):
		return r, l1i.Rejection
	}
	r.evidence = append(r.evidence, invariants.ContextSwitches(r.windows, t.WindowsSwitched))
	r.evidence = s.countedEvidence(r.evidence, t.Events)
	r.core, r.counters = string(s.pmu.Core), s.reportCounters(t.Events)
	if which, why := s.impossible(m, t); which != "" {
		r.impossible, r.warnings = which, append(r.warnings, why)
	}
	r.speeds = speedsOf(t)
	for _, c := range t.Design.Cells {
		if j.Detail {
			r.layouts = append(r.layouts, LayoutCycles{c.Number, c.Mean})
		}
	}
	if rejection := j.unsteady(t, r.speeds); rejection != nil && !j.tolerates(rejection, &r.warnings) {
		return r, rejection
	}
	return r, nil
}
