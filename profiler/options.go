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
	// CPUs to measure on, one at a time: the first, and the next if other work disturbs that.
	// Default: all allowed CPUs, the last first, because the first serve most interrupts.
	CPUs []int
	// Unroll overrides the choice of unroll factors.
	Unroll *unroll.Factors
	// Budget limits the time for one timing of a block, default 3 s. Each further timing has its own: of a loop beside copies in a
	// row, and by hardware counters each check of the midpoint.
	Budget time.Duration
	// Precision is the half-width of the interval to reach, as a share of the cycles or in
	// cycles, whichever is larger. Default 0.01. A block that does not reach it within its
	// windows is accepted with its present interval, unless it is unstable.
	Precision float64
	// Frames is the number of physical pages that the block's pages share. AutoFrames uses one
	// if that is safe, else one per page; the paper uses 1.
	Frames int
	// Init names the only initial state to use (initial.States).
	Init string
	// Set overrides registers, flags and memory of the initial state.
	Set initial.Set
	// Memory overrides words of the initial memory.
	Memory initial.Memory
	// NoFTZ keeps subnormals instead of flushing them to zero, for comparison.
	NoFTZ bool
	// NoRescue uses the paper's initial state only.
	NoRescue bool
	// Mode selects how to repeat the block, default Hot; Unroll if Unroll or FrontEnd ask for copies in a row.
	Mode Mode
	// Branch selects the treatment of a direct branch at the block's end. The default is Taken if it leads to the block's start,
	// else NotTaken.
	Branch Branch
	// Inner measures a block with conditional branches to its own later instructions as copies in a row that all take one path: see
	// Result.Inner. Otherwise such a block is rejected.
	Inner bool
	// Copies is the number of copies of the block's body before the branch of a loop that is Taken, default 1.
	Copies int
	// FrontEnd selects the source of unrolled copies, default OpCache.
	FrontEnd FrontEnd
	// Clock selects the clock, default AutoClock.
	Clock ClockChoice
	// Identical is how many of 16 timings by hardware counters must be clean and identical;
	// default 8, the paper's rule.
	Identical int
	// Events lists additional events to count, by name or code (pmu.PMU.Named).
	Events []string
	// Tolerate lists reasons that cause a warning instead of a rejection, to measure the cost of
	// the condition: reasons of the trace, such as verdict.AliasFrame, and verdict.L1IMiss,
	// verdict.Nonlinear and verdict.Unstable. Such a number is not ground truth. Events counted for a tolerated
	// condition do not reject the block either; they are in Result.Counters.
	Tolerate []verdict.Reason
	// Layout is the only layout to measure in, 0 to Layouts-1, as numbered in Result.Speeds; nil: all.
	Layout *int
	// Strict rejects a block whose time depends on the layout, instead of returning the mean.
	Strict bool
	// Detail adds the listing, the mapping steps and the host to each Result.
	Detail bool
}

// WithDefaults sets the default of each field that is not set, except CPUs.
func (o Options) WithDefaults() Options {
	o.Budget = cmp.Or(o.Budget, 3*time.Second)
	o.Precision = cmp.Or(o.Precision, 0.01)
	o.Mode, o.FrontEnd = cmp.Or(o.Mode, Hot), cmp.Or(o.FrontEnd, OpCache)
	o.Clock = cmp.Or(o.Clock, AutoClock)
	return o
}

// AutoFrames gives each block as many frames as it needs.
const AutoFrames = 0

// Mode selects how to repeat a block.
type Mode string

const (
	// Hot is Loop; Both if the block's stores feed its loads, since a core learns in a loop which store feeds which load; and Unroll if no loop
	// of the block can be laid out.
	Hot    Mode = "hot"
	Unroll Mode = "unroll" // copies in a row
	Loop   Mode = "loop"   // copies in a counted loop
	Both   Mode = "both"   // in a loop and, for comparison, in a row
)

// FrontEnd selects the source of unrolled copies. A loop runs from the op cache from its second turn on.
type FrontEnd string

const (
	OpCache FrontEnd = "opcache"
	Decode  FrontEnd = "decode" // the legacy decoders
	// Unchecked is that of copies in a row in a Result: laid out for the op cache, which many cores leave after some copies.
	Unchecked FrontEnd = "unchecked"
)

// Modes and FrontEnds list all values, the default first.
func Modes() []Mode         { return []Mode{Hot, Unroll, Loop, Both} }
func FrontEnds() []FrontEnd { return []FrontEnd{OpCache, Decode} }

// ClockChoice selects a clock.
type ClockChoice string

const (
	AutoClock ClockChoice = "auto" // counted core cycles if the kernel offers them, else the TSC
	PerfClock ClockChoice = "perf" // hardware counters, read with rdpmc
	TSCClock  ClockChoice = "tsc"  // the time-stamp counter, calibrated against chains
)

// Clocks lists all values, the default first.
func Clocks() []ClockChoice { return []ClockChoice{AutoClock, PerfClock, TSCClock} }

// Check rejects invalid options.
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
	case o.Budget < 0:
		return fmt.Errorf("a budget of %v: it is 0, for the default, or more", o.Budget)
	case !(o.Precision >= 0 && o.Precision < 1): // nor NaN
		return fmt.Errorf("a precision of %g: it is a share below 1, or 0, for the default", o.Precision)
	case o.Layout != nil && (*o.Layout < 0 || *o.Layout >= Layouts):
		return fmt.Errorf("there is no layout %d: want 0 to %d", *o.Layout, Layouts-1)
	case o.Frames < 0 || o.Frames > layout.MaxFrames:
		return fmt.Errorf("%d frames: there are 1 to %d", o.Frames, layout.MaxFrames)
	case o.Unroll != nil && (o.Unroll.Short < 0 || o.Unroll.Short >= o.Unroll.Long):
		return fmt.Errorf("unroll factors %v: the second must exceed the first, and that must not be negative", o.Unroll)
	case o.Mode == Loop && o.FrontEnd == Decode:
		return errors.New("a loop runs from the op cache, not from the decoders")
	}
	return o.checkOneImage()
}

// checkOneImage rejects a loop of 0 iterations, which never ends.
func (o Options) checkOneImage() error {
	if o.Unroll != nil && o.Unroll.Short == 0 && o.Mode != "" && o.Mode != Hot && o.Mode != Unroll {
		return fmt.Errorf("unroll factors %v: one image alone is timed in mode %s, not in %s", o.Unroll, Unroll, o.Mode)
	}
	return nil
}
