package profiler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Options of a Profiler. The zero value is the default.
type Options struct {
	// CPUs to measure on, one at a time: the first, and when that is not left alone, the
	// next. Default: all allowed ones, the last first, since the first serve most interrupts.
	CPUs []int
	// Unroll overrides the choice of unroll factors.
	Unroll *unroll.Factors
	// Budget is the longest time to spend on one timing of a block, default 3 s. Each further one has as much again: a timing with other
	// numbers of copies where the first are nonlinear, that of the loop in mode Both, and by hardware counters each check of a third number of copies. To share one budget would reject blocks, or widen
	// their intervals, for what was spent on something else.
	Budget time.Duration
	// Precision is how narrow the interval is to be: its half-width as a share of the cycles, or
	// in cycles, whichever is larger. Default 0.01. A block that does not reach it within its
	// windows is accepted with the interval that it has, unless it is unstable.
	Precision float64
	// Frames is how many physical pages the block's pages share: AutoFrames is one as long as
	// that is harmless, else one a page; 1 is the paper's.
	Frames int
	// Init names the only initial state to use (initial.States).
	Init string
	// Set is what registers, flags and memory hold instead of what the initial state has for them.
	Set initial.Set
	// Memory is what words of memory hold instead of the word that fills it.
	Memory initial.Memory
	// NoFTZ leaves subnormals alone instead of flushing them to zero, for comparison.
	NoFTZ bool
	// NoRescue keeps to the paper's initial state.
	NoRescue bool
	// Mode is how the block is repeated, default Unroll.
	Mode Mode
	// Branch is what becomes of a direct branch at the block's end; the default is Taken if it leads to the block's own start, else
	// NotTaken.
	Branch Branch
	// Copies is how many copies of the block's body stand before the branch of a loop that is Taken, default 1.
	Copies int
	// FrontEnd is what serves unrolled copies, default OpCache.
	FrontEnd FrontEnd
	// Clock is which clock to time with, default AutoClock.
	Clock ClockChoice
	// Identical is how many of 16 timings by hardware counters have to be clean and identical;
	// default 8, the paper's rule.
	Identical int
	// Events are more events to count, by name or code (pmu.PMU.Named).
	Events []string
	// Tolerate lists reasons of the trace, such as verdict.AliasFrame, and verdict.L1IMiss,
	// verdict.Nonlinear and verdict.Unstable, that end up as a warning instead of a rejection:
	// to measure what the condition costs. Such a number is not ground truth. What hardware counters count of a
	// tolerated condition rejects no block either, and is in Result.Counters.
	Tolerate []verdict.Reason
	// At is the one layout to measure in, 0 to Layouts-1, as Result.Speeds numbers them; nil is all.
	At *int
	// Strict rejects a block whose time depends on the layout, instead of giving the mean.
	Strict bool
	// Detail adds the listing, the mapping steps and the host to each Result.
	Detail bool
}

// WithDefaults puts the default where nothing is set, except for CPUs.
func (o Options) WithDefaults() Options {
	o.Budget = cmp.Or(o.Budget, 3*time.Second)
	o.Precision = cmp.Or(o.Precision, 0.01)
	o.Mode, o.FrontEnd = cmp.Or(o.Mode, Unroll), cmp.Or(o.FrontEnd, OpCache)
	o.Clock = cmp.Or(o.Clock, AutoClock)
	return o
}

// AutoFrames lets each block have as many frames as it needs.
const AutoFrames = 0

// Mode is how a block is repeated.
type Mode string

const (
	Unroll Mode = "unroll" // copies in a row
	Loop   Mode = "loop"   // copies in a counted loop
	Both   Mode = "both"   // first one, then the other
)

// FrontEnd is what serves unrolled copies. A loop runs from the op cache from its second iteration.
type FrontEnd string

const (
	OpCache FrontEnd = "opcache"
	Decode  FrontEnd = "decode" // the legacy decoders
)

// Modes and FrontEnds list what there is, the default first.
func Modes() []Mode         { return []Mode{Unroll, Loop, Both} }
func FrontEnds() []FrontEnd { return []FrontEnd{OpCache, Decode} }

// ClockChoice is which clock to time with.
type ClockChoice string

const (
	AutoClock ClockChoice = "auto" // counted core cycles where the kernel offers them, else the TSC
	PerfClock ClockChoice = "perf" // hardware counters, read with rdpmc
	TSCClock  ClockChoice = "tsc"  // the time-stamp counter, calibrated against chains
)

// Clocks lists what there is, the default first.
func Clocks() []ClockChoice { return []ClockChoice{AutoClock, PerfClock, TSCClock} }

// Check refuses options that contradict each other.
func (o Options) Check() error {
	switch {
	case o.Mode != "" && !slices.Contains(Modes(), o.Mode):
		return fmt.Errorf("no mode is called %q", o.Mode)
	case o.Branch != "" && !slices.Contains(Branches(), o.Branch):
		return fmt.Errorf("no branch is called %q", o.Branch)
	case o.Copies < 0 || o.Copies > MaxBlock:
		return fmt.Errorf("%d copies before a branch: there are 1 to %d", o.Copies, MaxBlock)
	case o.FrontEnd != "" && !slices.Contains(FrontEnds(), o.FrontEnd):
		return fmt.Errorf("no front end is called %q", o.FrontEnd)
	case o.Clock != "" && !slices.Contains(Clocks(), o.Clock):
		return fmt.Errorf("no clock is called %q", o.Clock)
	case o.Identical < 0 || o.Identical > timing.PaperTimings:
		return fmt.Errorf("%d of %d timings cannot be identical", o.Identical, timing.PaperTimings)
	case o.At != nil && (*o.At < 0 || *o.At >= Layouts):
		return fmt.Errorf("there is no layout %d: want 0 to %d", *o.At, Layouts-1)
	case o.Frames < 0 || o.Frames > layout.MaxFrames:
		return fmt.Errorf("%d frames: there are 1 to %d", o.Frames, layout.MaxFrames)
	case o.Unroll != nil && (o.Unroll.Short < 0 || o.Unroll.Short >= o.Unroll.Long):
		return fmt.Errorf("unroll factors %v: the second must exceed the first, and that must not be negative", o.Unroll)
	case o.Mode == Loop && o.FrontEnd == Decode:
		return errors.New("a loop runs from the op cache, not from the decoders")
	}
	return o.checkOneImage()
}

// checkOneImage refuses a loop of 0 iterations, which never ends.
func (o Options) checkOneImage() error {
	if o.Unroll != nil && o.Unroll.Short == 0 && o.Mode != "" && o.Mode != Unroll {
		return fmt.Errorf("unroll factors %v: one image alone is timed in mode %s, not in %s", o.Unroll, Unroll, o.Mode)
	}
	return nil
}
