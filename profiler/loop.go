package profiler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Mode is how a block is repeated.
type Mode string

const (
	Unroll Mode = "unroll" // copies in a row
	Loop   Mode = "loop"   // copies in a counted loop
	Both   Mode = "both"   // first one, then the other
)

// FrontEnd is what serves unrolled copies. A loop runs from the op cache from its second turn.
type FrontEnd string

const (
	OpCache FrontEnd = "opcache"
	Decode  FrontEnd = "decode" // the legacy decoders
)

// Modes and FrontEnds list what there is, the default first.
func Modes() []Mode         { return []Mode{Unroll, Loop, Both} }
func FrontEnds() []FrontEnd { return []FrontEnd{OpCache, Decode} }

// Check refuses options that contradict each other.
func (o Options) Check() error {
	switch {
	case o.Mode != "" && !slices.Contains(Modes(), o.Mode):
		return fmt.Errorf("no mode is called %q", o.Mode)
	case o.FrontEnd != "" && !slices.Contains(FrontEnds(), o.FrontEnd):
		return fmt.Errorf("no front end is called %q", o.FrontEnd)
	case o.Clock != "" && !slices.Contains(Clocks(), o.Clock):
		return fmt.Errorf("no clock is called %q", o.Clock)
	case o.Identical < 0 || o.Identical > invariants.PaperTimings:
		return fmt.Errorf("%d of %d timings cannot be identical", o.Identical, invariants.PaperTimings)
	case o.Mode == Loop && o.FrontEnd == Decode:
		return errors.New("a loop runs from the op cache, not from the decoders")
	}
	return nil
}

// image lays out so many iterations of the block, behind at.
func (r *run) image(at uint64, iterations int) (unroll.Image, error) {
	image, err := r.imageAt(at, iterations)
	if offset := r.block.Setup.CodeOffset; offset != nil && err == nil {
		// The first copy is as far from the image's start wherever that is.
		return r.imageAt(image.At+(uint64(*offset)-image.First)%layout.PageSize, iterations)
	}
	return image, err
}

func (r *run) imageAt(at uint64, iterations int) (unroll.Image, error) {
	if r.loops {
		return unroll.BuildLoop(at, r.insts, r.loop.Copies, iterations/r.loop.Copies, r.loop.Counter, r.inPlace())
	}
	return unroll.Build(at, r.insts, iterations, r.inPlace())
}

// enterLoop makes the loop what is timed.
func (r *run) enterLoop() error {
	if r.opts.Mode != Loop {
		return nil
	}
	return r.becomeLoop()
}

// becomeLoop chooses the loop, turns a prepared run of unrolled copies into a run of it and
// makes sure that what was found out about the copies is true of it. Many turns are for a
// block whose addresses the trace shows to stay where they are, and which then asks for no
// page but those of the copies. Any other gets a loop of as many iterations as there are
// copies: those were mapped, traced and judged.
func (r *run) becomeLoop() error {
	copies, stays := r.factors, r.stays()
	r.loops = true
	r.plan.Late = r.allow(mapLimit).over
	var fits bool
	if r.loop, fits = unroll.ChooseLoop(r.insts, r.cpu.FrontEnd); !fits {
		r.crowded = true
		r.warn("a copy exceeds the share of the op cache that keeps a loop in it: the decoders may set its pace")
	}
	same, err := false, error(nil)
	if stays {
		same, err = r.mapLoop()
	}
	if err == nil && !same {
		r.loop = unroll.ChooseShortLoop(r.insts, copies)
		if same, err = r.mapLoop(); err == nil && !same {
			err = &verdict.Rejection{Reason: verdict.Nonlinear, Detail: fmt.Sprintf(
				"%d iterations in a loop do not run on the pages of as many copies: the block goes by flags, which the loop's counting sets", copies.Long)}
		}
	}
	if err != nil {
		return err
	}
	r.result.Loop = &LoopReport{r.loop.Copies, r.loop.Turns.Short, r.loop.Turns.Long, r.loop.Counter.String()}
	return r.findDirty(r.short)
}

// mapLoop lays the loop out, runs its longer image from an empty address space and reports
// whether it ends and asks for the pages of the copies.
func (r *run) mapLoop() (same bool, err error) {
	r.factors = r.loop.Iterations()
	if err := r.build(r.images, 0); err != nil {
		return false, err
	}
	trial, err := r.onTrial(unroll.BuildLoopDryRun(r.insts, r.loop.Copies, r.factors.Long/r.loop.Copies, r.loop.Counter, r.inPlace()))
	if err != nil {
		return false, err
	}
	plan := r.plan
	if r.loop.Counter.Memory {
		plan.Ahead = []tracee.Op{tracee.OpenCounter()}
	}
	got, err := mapper.Map(r.child, plan, trial)
	var rejection *verdict.Rejection
	if errors.As(err, &rejection) && r.child.Alive() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !slices.Equal(frames(got), frames(r.mapping)) {
		return false, nil
	}
	r.dirty = append(slices.Clone(r.dirty), r.mapping.Dirty(r.child, r.plan.Init)...)
	return true, nil
}

// frames are the pages of a mapping, each with its frame, in the order of their addresses.
func frames(m mapper.Mapping) []mapper.Page {
	var pages []mapper.Page
	for _, p := range m.Pages {
		pages = append(pages, mapper.Page{Addr: p.Addr, Frame: p.Frame})
	}
	slices.SortFunc(pages, func(a, b mapper.Page) int { return cmp.Compare(a.Addr, b.Addr) })
	return pages
}

// stays reports whether the trace shows each copy of the second half to access what the
// copy before it does. In the first half a block may settle.
func (r *run) stays() bool {
	if len(r.mapping.Pages) == 0 {
		return true
	}
	copies := make([][]asm.Access, r.tracing.Copies)
	for _, a := range r.tracing.Accesses {
		at := a.Copy
		a.Copy = 0
		copies[at] = append(copies[at], a)
	}
	if len(copies) < 2 || len(copies[0]) == 0 {
		return false
	}
	second := copies[(len(copies)-1)/2:]
	for _, c := range second[1:] {
		if !slices.Equal(c, second[0]) {
			return false
		}
	}
	return true
}

// compareLoop times the loop beside the unrolled copies.
func (r *run) compareLoop() error {
	if r.opts.Mode != Both {
		return nil
	}
	loop := *r
	loop.cycles, loop.result = nil, Result{}
	for _, step := range []func() error{loop.becomeLoop, loop.time, loop.linear, loop.judge, loop.derive} {
		err := step()
		if rejection := (*verdict.Rejection)(nil); errors.As(err, &rejection) {
			r.warn("the loop was not measured: %s: %s", rejection.Reason, rejection.Detail)
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.result.Loop = loop.result.Loop
	r.result.LoopCycles, r.result.LoopCILow, r.result.LoopCIHigh = loop.result.Cycles, loop.result.CILow, loop.result.CIHigh
	r.result.Warnings = append(r.result.Warnings, loop.result.Warnings...)
	r.result.Disagreement = disagreement(comparison{
		unrolled: r.result.Cycles, loop: r.result.LoopCycles,
		copies: loop.loop.Copies, insts: len(r.insts), bytes: len(r.block.Code), inMemory: loop.loop.Counter.Memory,
		decoders: r.opts.FrontEnd == Decode,
		crowded:  loop.crowded,
	})
	return nil
}

// warmBefore is how many runs precede those that are timed at once. A loop of many turns warms
// itself up and needs no more than the one from whose end time counts.
func (r *run) warmBefore() int {
	if r.loops && r.loop.Turns.Short >= unroll.ManyTurns {
		return 1
	}
	return imageWarm
}

// comparison is what the likely cause of a disagreement is read from.
type comparison struct {
	unrolled, loop float64 // cycles per iteration
	copies, insts  int     // a turn, an iteration
	bytes          int     // an iteration
	inMemory       bool    // the loop's counter
	decoders       bool    // served the unrolled copies, on purpose
	crowded        bool    // copies or a turn exceed the share of the op cache
}

const (
	disagreementShare = 0.05
	// What legacy decoders fetch in a cycle, from Nehalem to Skylake and on Zen (Fog,
	// microarchitecture.pdf); copies within so much of that speed are likely held by it.
	fetchBytes = 16
	fetchShare = 0.03
	// A taken branch ends the fetch of its cycle and the rename group that it is in, and the
	// counter's operation takes a slot: up to so many cycles a turn are the loop's own.
	loopOwnCycles = 2.5
	// The same with a counter in memory, whose store each turn's load waits for.
	loopOwnMemoryCycles = 6
)

// disagreement says by how much the two differ, if by more than 5 %, and the likely cause.
func disagreement(c comparison) string {
	if math.Abs(c.loop-c.unrolled) <= disagreementShare*math.Min(c.loop, c.unrolled) {
		return ""
	}
	perTurn := (c.loop - c.unrolled) * float64(c.copies)
	own := loopOwnCycles
	if c.inMemory {
		own = loopOwnMemoryCycles
	}
	cause := "a dependency carried from copy to copy (through flags, the loop's own counting replaces it once a turn) or ports bound otherwise"
	switch {
	case c.decoders && perTurn < 0:
		cause = "the decoders, which serve the unrolled copies alone"
	case perTurn < 0 && math.Abs(c.unrolled-float64(c.bytes)/fetchBytes) <= fetchShare*c.unrolled:
		cause = "the decoders: the unrolled copies take the time in which those fetch them, 16 bytes a cycle"
	case c.crowded:
		cause = "the decoders, which serve what does not fit the op cache"
	case perTurn > 0 && perTurn <= own:
		cause = fmt.Sprintf("loop overhead, %.1f cycles a turn of %d instructions", perTurn, c.copies*c.insts)
	}
	than := fmt.Sprintf("%.1f %% slower", 100*(c.loop/c.unrolled-1))
	if c.loop < c.unrolled {
		than = fmt.Sprintf("%.1f %% faster", 100*(c.unrolled/c.loop-1))
	}
	return fmt.Sprintf("the loop is %s than the unrolled copies; likely cause: %s", than, cause)
}
