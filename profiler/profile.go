package profiler

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// run is one block on its way.
type run struct {
	*session
	ctx    context.Context
	block  Block
	opts   Options // the session's, with the block's set-up
	result Result

	insts      []asm.Inst
	reset      harness.Reset
	vectorBits int             // of the widest operation
	inits      []initial.State // to try

	probe   *asm.Probe // made when it is first needed
	noProbe error      // why there is none

	factors  unroll.Factors
	allowed  *allowance // for all that comes before timing
	plan     mapper.Plan
	mapping  mapper.Mapping
	known    []mapper.Page // to begin the next mapping with
	short    unroll.Image
	long     unroll.Image
	dirty    []uint64 // words that a run changes, to put back
	complete bool     // they are all that any number of copies can change
	tracing  invariants.Trace
	findings []invariants.Evidence
	cycles   []float64         // per iteration, of each window
	third    []float64         // the same of a third number of copies, as far as it was timed beside them
	tallies  map[string]*tally // what events counted, by key

	loop  unroll.Loop // of mode loop and both
	loops bool        // the images are those of loop
	// harmless is how many copies run before the trace shows one to alias or to miss.
	harmless int
	crowded  bool // they exceed the share of the op cache that keeps them in it
}

// profile is what happens to a block. A *verdict.Rejection as error says why it has no
// throughput; the result then holds what was found out until there.
func (s *session) profile(ctx context.Context, b Block) (Result, error) {
	if err := b.Setup.Check(); err != nil {
		return Result{}, err
	}
	r := s.newRun(b)
	r.ctx = ctx
	r.result = Result{Hex: hex.EncodeToString(b.Code), Bytes: len(b.Code), Init: r.inits[0], Mode: s.opts.Mode, FrontEnd: r.opts.FrontEnd}
	for _, step := range []func() error{
		r.decode,
		r.refuse,
		r.choose,
		r.prepare,
		r.enterLoop,
		r.time,
		r.linear,
		r.countByRead,
		r.judge,
		r.derive,
		r.compareLoop,
	} {
		if err := step(); err != nil {
			return r.result, err
		}
	}
	return r.result, nil
}

func (r *run) decode() (err error) {
	if len(r.block.Code) == 0 {
		return &verdict.Rejection{Reason: verdict.BadHex, Detail: "the block has no bytes"}
	}
	r.insts, err = asm.Decode(r.block.Code)
	r.result.Instructions = len(r.insts)
	if r.opts.Detail {
		for i := range r.insts {
			in := &r.insts[i]
			r.result.Listing = append(r.result.Listing, ListingLine{in.Offset, hex.EncodeToString(in.Bytes), in.Text()})
		}
		r.result.Host = &HostReport{r.cpu, r.onCPU, r.child.SpeculativeStoreBypass}
	}
	return err
}

func (r *run) refuse() error {
	if rejection := asm.Refuse(r.insts); rejection != nil {
		return rejection
	}
	r.reset = resetFor(r.insts)
	r.vectorBits = asm.StateOf(r.insts).VectorBits
	switch _, net, steady := asm.X87Stack(r.insts); {
	case net != 0:
		return &verdict.Rejection{Reason: verdict.X87Stack, Detail: fmt.Sprintf(
			"each copy leaves the x87 stack %+d deep, so copies in a row do not do what one does", net)}
	case !steady:
		return &verdict.Rejection{Reason: verdict.X87Stack, Detail: "copies in a row read an empty x87 register or push onto a full one, however many are filled before"}
	}
	return nil
}

// resetFor is the least that has to be restored between two runs of these instructions.
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

func (r *run) choose() error {
	frontEnd := r.cpu.FrontEnd
	if r.opts.FrontEnd == Decode {
		frontEnd.OpCache.Lines = math.MaxInt32 // then only L1I sets a limit
	}
	factors, fits, err := unroll.Choose(r.insts, frontEnd)
	if r.opts.Unroll != nil {
		factors, fits, err = *r.opts.Unroll, true, nil
	}
	if err != nil {
		return err
	}
	if !fits {
		r.warn("%d copies exceed the share of the op cache that keeps them in it: the decoders may set the pace", factors.Long)
	}
	r.factors, r.crowded = factors, !fits
	return nil
}

func (r *run) warn(format string, args ...any) {
	r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(format, args...))
}

const (
	// maxPages is how many pages a run may touch at all: the reference harness's limit.
	maxPages = 1024
	// steadyPages is how many a run may touch if fewer copies are to be had: every page
	// takes an entry of the first-level data TLB, which has 64 on most cores (Intel
	// Optimization Manual; 48 on Golden Cove's store side, 72 and more on Zen).
	steadyPages = 32
	runLimit    = 500 * time.Millisecond // of CPU time, for one run
	// mapLimit is CPU time for everything that happens to a block before it is timed, with all initial
	// states: a run can take so long that hundreds of them, a page each, take minutes.
	mapLimit = time.Second
)

// mapPages maps as many copies as the longer image has, on trial. A block that moves on with
// every copy gets no more copies than steadyPages do for, rather than a page for each.
func (r *run) mapPages() error {
	known := r.known
	for {
		if err := r.layOut(); err != nil {
			return err
		}
		_, fewer := r.factors.Smaller()
		fewer = fewer && r.opts.Unroll == nil
		r.plan.Pages = maxPages
		if fewer {
			r.plan.Pages = steadyPages
		}
		err := r.trialOf(r.factors.Long, beginWith(known, r.factors.Long, r.plan))
		r.reportMapping()
		var rejection *verdict.Rejection
		if !errors.As(err, &rejection) || rejection.Reason != verdict.TooManyPages {
			return err
		}
		full := r.mapping.Full
		if r.mapping.Known > 0 && !(fewer && r.asksForAll(full)) {
			known = nil // it may only have them because they were known
			continue
		}
		if !fewer {
			return err
		}
		r.factors = r.factors.AtMost(full)
		known = r.mapping.Pages
	}
}

// beginWith are the pages among the known ones that so many copies ask for, as many as there may be.
func beginWith(known []mapper.Page, copies int, p mapper.Plan) []mapper.Page {
	if p.NoPages {
		return nil
	}
	known = slices.DeleteFunc(slices.Clone(known), func(q mapper.Page) bool { return q.Copy >= copies })
	return known[:min(len(known), p.Pages)]
}

// asksForAll traces so many copies, fewer than there were, on the pages that are mapped, to find out
// whether they ask for all of them.
func (r *run) asksForAll(copies int) bool {
	if copies == 0 || r.trialOf(copies, r.mapping.Pages) != nil {
		return false
	}
	all, warnings := r.factors, r.result.Warnings
	defer func() { r.factors, r.result.Warnings = all, warnings }()
	r.factors.Long = copies
	return r.trace() == nil && r.mapping.Confirm(r.plan, r.tracing.Accesses)
}

// trialOf maps so many copies on trial, beginning with known pages.
func (r *run) trialOf(copies int, known []mapper.Page) error {
	trial, err := r.onTrial(unroll.BuildDryRun(r.insts, copies, r.inPlace()))
	if err != nil {
		return err
	}
	plan := r.plan
	plan.Known = known
	r.mapping, err = mapper.Map(r.child, plan, trial)
	return err
}

func (r *run) reportMapping() {
	r.result.Pages, r.result.Frames = len(r.mapping.Pages), min(r.plan.Frames, len(r.mapping.Pages))
	if r.opts.Detail {
		r.result.Mapping = r.mapping.Pages
	}
}

// onTrial writes an image to where trials run.
func (r *run) onTrial(im unroll.Image, err error) (unroll.Image, error) {
	if err != nil {
		return im, err
	}
	if im.End() > layout.DryRunCode+layout.DryRunCodeSize {
		return im, r.tooLarge()
	}
	r.place(im)
	return im, nil
}

// frame is what stands around the copies of this block.
func (r *run) frame() unroll.Harness {
	f := unroll.Harness{Init: r.plan.Init, Reset: r.reset, Features: r.cpu.Features, Clock: r.clock.Emit, Decoders: r.opts.FrontEnd == Decode}
	if offset := r.block.Setup.CodeOffset; offset != nil {
		f.Offset = *offset % 64 // what is left are whole lines, which image has to find
	}
	return f
}

// inPlace is frame for an image that is laid out in the child, where it is to run, over whatever
// stands there.
func (r *run) inPlace() unroll.Harness {
	f := r.frame()
	f.Memory = r.codeAt
	return f
}

// layOut builds both images for mapping.
func (r *run) layOut() (err error) {
	if bytes := (r.factors.Short + r.factors.Long) * len(r.block.Code); bytes > layout.CodeSize {
		return r.tooLarge()
	}
	if err := r.build(r.images, 0); err != nil {
		return err
	}
	r.dirty = nil
	r.child.SetRestore(nil)
	return nil
}

// build lays the images out, shift bytes behind at if the set-up leaves that open, and places
// them.
func (r *run) build(at, shift uint64) (err error) {
	if r.block.Setup.CodeOffset != nil {
		shift = 0
	}
	r.result.UnrollShort, r.result.UnrollLong = r.factors.Short, r.factors.Long
	if r.short, err = r.image(at+shift, r.factors.Short); err != nil {
		return err
	}
	if r.long, err = r.image(r.short.End(), r.factors.Long); err != nil {
		return err
	}
	if r.long.End() > layout.CodeEnd {
		return r.tooLarge()
	}
	r.place(r.short)
	r.place(r.long)
	return nil
}

func (r *run) tooLarge() error {
	return &verdict.Rejection{
		Reason: verdict.CodeExceedsL1I,
		Detail: fmt.Sprintf("%d and %d copies of %d bytes do not fit the %d KiB there are for code", r.factors.Short, r.factors.Long, len(r.block.Code), layout.CodeSize>>10),
	}
}

// place writes an image to the child, unless it was laid out there.
func (r *run) place(im unroll.Image) {
	if to := r.codeAt(im.At); &to[0] != &im.Code[0] {
		copy(to, im.Code)
	}
}

// codeAt is the child's memory from an address on to the end of the region for code, or of that
// for trials; nil elsewhere.
func (r *run) codeAt(at uint64) []byte {
	switch {
	case at >= layout.Code && at < layout.CodeEnd:
		return r.child.Code()[at-layout.Code:]
	case at >= layout.DryRunCode && at < layout.DryRunCode+layout.DryRunCodeSize:
		return r.child.DryRunCode()[at-layout.DryRunCode:]
	}
	return nil
}

// unstableShare is how wide the interval may be, as a share of the cycles or in cycles, before
// the block is said to have no one speed.
const unstableShare = 0.02

// judge decides whether the samples are those of an undisturbed, steady block.
func (r *run) judge() error {
	r.result.WindowsKept = len(r.cycles)
	if p := r.result.Predicted; p != nil {
		misses := func(im unroll.Image) int {
			return invariants.CodeMisses(im.At, len(im.Code), r.cpu.FrontEnd.L1I)
		}
		p.L1IMisses = float64(misses(r.long)-misses(r.short)) / float64(r.factors.Long-r.factors.Short)
	}
	r.result.Evidence = r.findings
	l1i := invariants.L1I(r.codeBytes(), r.cpu.FrontEnd.L1I)
	switch {
	case l1i.Rejection == nil:
		r.result.Evidence = append(r.result.Evidence, l1i.Evidence)
	case !r.tolerate(l1i.Rejection):
		return l1i.Rejection
	}
	r.result.Evidence = append(r.result.Evidence, invariants.ContextSwitches(r.result.WindowsKept, r.result.WindowsSwitched))
	r.result.Evidence = r.countedEvidence(r.result.Evidence)
	r.reportCounters()
	if e := r.wider(); !steady(e) {
		unstable := &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(
			"%d windows give %.3f ± %.3f cycles, allowed are ± %.3f; their modes: %s",
			len(r.cycles), e.Value, e.Half, unstableLimit(e), modes(r.cycles))}
		if !r.tolerate(unstable) {
			return unstable
		}
	}
	return nil
}

// codeBytes is how much code runs: bbprof's own at the start of the region and both images,
// with the little that lies between them unless the set-up makes that much.
func (r *run) codeBytes() int {
	if r.block.Setup.CodeOffset == nil {
		whole := (r.short.At - r.images) &^ (layout.PageSize - 1) // pages that other images stand on
		return int(r.long.End() - whole - layout.Code)
	}
	return int(r.images-layout.Code) + len(r.short.Code) + len(r.long.Code)
}

// steady reports whether an interval is that of one speed.
func steady(e stat.Estimate) bool { return e.Half <= unstableLimit(e) }

func unstableLimit(e stat.Estimate) float64 { return unstableShare * math.Max(e.Value, 1) }

// modes tells the speeds that windows ran at, and how many at each.
func modes(cycles []float64) string {
	var s []string
	for _, m := range stat.Modes(cycles, modeGap) {
		s = append(s, fmt.Sprintf("%.3f in %d", m.Value, m.N))
	}
	return strings.Join(s, ", ")
}

// modeGap is what separates two modes, as a share of the cycles: more than the clock's steps and
// the ends of the images do in a window.
const modeGap = 0.02

// derive makes the number.
func (r *run) derive() error {
	e := r.estimate()
	r.result.Cycles, r.result.CILow, r.result.CIHigh = e.Value, e.Low(), e.High()
	report := r.report
	report.TicksPerCycle = r.rate.ticks
	r.result.Clock = &report
	if r.note != "" {
		r.warn("%s", r.note)
	}
	return nil
}
