// Package timing measures how many core cycles an iteration of a block takes. It times image pairs:
// code that repeats the block a smaller and a larger number of times. Others build the images.
//
// There are two Timers. [TSC] reads the time-stamp counter and calibrates it against chains of known latency that are
// timed beside the block. [Counters] reads hardware counters of core cycles and takes the paper's 16 timings of each
// image. Both take replicates until the interval is narrow enough or the budget is spent.
//
// A replicate times one image pair, at one place and with its pages mapped once, in three windows. Windows differ in
// the dispatch offset, also called rename phase: the number of extra iterations of the loop before the first copy. It
// shifts the copies relative to the rename groups. This changes the cost of an image's start and end and, for blocks
// bound by throughput, the time of every iteration by some percent. Place and dispatch offset form a [Layout];
// replicates go through a fixed design of layouts, and the cycles are the mean over it. The offset never changes
// within a window, because the branch predictor must learn each one again.
//
// A Timer works in a child process that its owner attaches. Timer and child belong to one goroutine
// that is locked to its thread.
package timing

import (
	"context"
	"math"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

type Timer interface {
	// Attach prepares a child for timing, in place of a previous one. The first call also calibrates; ctx ends that.
	Attach(ctx context.Context, child *tracee.Tracee) error
	// Clock emits the reading of the clock that ends an image.
	Clock() harness.Clock
	// ResetImage returns the entry of an image that restores all state that a block can change, and
	// Images the address from which on the child's code region is free for images.
	ResetImage() uint64
	Images() uint64

	// Time takes replicates of a block. After an error, Timed holds the statistics so far.
	Time(b Block, p Plan) (Timed, error)
	// TimeMidpoint times a pair in a window for each dispatch offset; Timed has no windows if all were disturbed.
	TimeMidpoint(b Block, pair Pair, offsets []int, p Plan) (Timed, error)

	// Uses reports the memory of bbprof itself that timing touches.
	Uses(report func(from, bytes uint64))
	// Report describes how readings become cycles.
	Report() Report
}

type Image struct {
	Entry      uint64
	Iterations int
	Varied     int // bound on the iterations that a run lacks, as many in both images of a pair
}

// spread bounds the difference between runs that comes from their numbers of iterations, as a share of their time.
func (im Image) spread() float64 { return float64(im.Varied) / float64(im.Iterations) }

type Pair struct {
	Short, Long Image
	// Own is the largest number of cycles an iteration that the images' own code takes and their difference does not cancel.
	Own float64
}

// PerIteration returns the throughput.
func (p Pair) PerIteration(short, long float64) float64 {
	return unroll.Throughput(short, long, unroll.Factors{Short: p.Short.Iterations, Long: p.Long.Iterations})
}

// cycles returns an iteration's, of images that took so many ticks at rate ticks per cycle: half of Own is left out, and the interval holds
// the other half.
func (p Pair) cycles(short, long, rate float64) float64 {
	return p.PerIteration(short, long)/rate - p.Own/2
}

func (p Pair) iterations() int { return p.Long.Iterations - p.Short.Iterations }

// Block builds the images of a block in the attached child.
type Block interface {
	// Replicates builds a pair at each of these places (see [Layout]) on this pass's pages of code: at least one, and
	// as many as fit. Each image ends with a reading of the clock.
	Replicates(places []int, pass int, read harness.Clock) ([]Pair, error)
	// Midpoint builds an image with an intermediate number of iterations after those, and returns its
	// pair with the shorter one; ok is false if there is no such number or no room.
	Midpoint(read harness.Clock) (pair Pair, ok bool, err error)
	// Refill restores the initial contents of the block's memory.
	Refill()
	// Remap maps the block's pages again, for each replicate onto other frames with the initial contents: the
	// physical page changes how fast some blocks store.
	Remap(replicate int) []tracee.Op
}

type Plan struct {
	Remap      []tracee.Op   // maps the block's pages again
	Warm       int           // untimed runs of an image before each timing
	VectorBits int           // width of the vector units that the block uses
	Budget     time.Duration // per call
	Precision  float64       // half-width of the interval to reach, as a share of the cycles or in cycles
	Identical  int           // of 16 timings by counters; 0: the paper's rule
	Layout     *Layout       // the only layout to time in; nil: the whole design
	Whole      bool          // time every layout of the design, however narrow the interval is after half of them
	OnePlace   bool          // keep the images at their place and vary the dispatch offset only
	// Counted events do not reject the block for the reasons in Tolerate.
	Tolerate []verdict.Reason
	// Enough, if not nil, is called with the interval at each check and ends the timing early.
	Enough func(stat.Estimate) bool
	// Uneven says that iterations differ as their data do: windows count however their branches were predicted.
	Uneven bool
	// RunsPerSample comes from an earlier timing of the block. Time searches for it.
	RunsPerSample int
}

type Timed struct {
	Windows  []Window
	Mixed    int      // windows whose images ran in different states
	Midpoint []Window // up to the midpoint, if timed with the first replicates

	Spent

	Estimate stat.Estimate // cycles, with the interval that holds another run's result
	Design   stat.Design   // per layout
	Speeds   [][]stat.Cell // layouts grouped by speed, the fastest first
	Events   Tallies       // counted beside the cycles
}

// Spent is what a timing took, and what of it was dropped.
type Spent struct {
	WindowsSwitched int `json:"windows_dropped_context_switch"`
	WindowsUnsteady int `json:"windows_dropped_unsteady"`    // because the core was shared
	WindowsDrifted  int `json:"windows_dropped_clock_drift"` // because the core's clock moved
	SamplesKept     int `json:"samples_kept"`
	SamplesDropped  int `json:"samples_dropped"`           // in dropped windows, or next to a disturbed contention probe
	RunsPerSample   int `json:"runs_per_sample,omitempty"` // runs of each image in one timing
	// TimedSeconds is the sum of all kept times of contention probe, chains and block.
	TimedSeconds float64 `json:"timed_seconds,omitzero"`
}

// After adds what an earlier timing of the same block took.
func (t Timed) After(earlier Timed) Timed {
	t.SamplesKept += earlier.SamplesKept
	t.SamplesDropped += earlier.SamplesDropped
	t.WindowsSwitched += earlier.WindowsSwitched
	t.WindowsUnsteady += earlier.WindowsUnsteady
	t.WindowsDrifted += earlier.WindowsDrifted
	t.TimedSeconds += earlier.TimedSeconds
	return t
}

// Report describes how readings become core cycles.
type Report struct {
	Name          string  `json:"name"`
	Method        string  `json:"method"`
	StepTicks     float64 `json:"step_ticks"`
	TicksPerCycle float64 `json:"ticks_per_cycle"`
	// TicksPerSecond is measured by the monitor's clock during calibration; 0 for counted cycles.
	TicksPerSecond float64 `json:"ticks_per_second,omitzero"`
	// MultiplyCycles is the latency of imul by this clock: an integer if adds take a cycle.
	MultiplyCycles float64 `json:"multiply_latency_cycles"`
	// ProbeIdle is the contention probe's time in cycles when no other thread uses the core, 0 if it is not known yet. It is learnt as long as
	// the timer runs: a result whose ProbeIdle is more than 4 % above that of a later one was measured on a shared core.
	ProbeIdle float64 `json:"contention_probe_cycles,omitzero"`
	// IdleConfirmed reports that the start saw a core as idle as the table of cores says.
	IdleConfirmed bool `json:"idle_confirmed,omitzero"`
	// Shared is the share of the start's samples that other work slowed or interrupted.
	Shared float64 `json:"shared,omitzero"`
}

// CPUs are the logical CPUs that may be measured on, one at a time.
type CPUs interface {
	Current() int
	Next(child *tracee.Tracee) error // moves thread and child
}

type Config struct {
	CPU  host.CPU
	Init initial.State // set by the reset image
	CPUs CPUs

	// Record receives all readings; nil: nothing is recorded.
	Record *recording.Recording
}

const (
	Warm             = 2                                      // most untimed runs of an image before a timing
	replicatesAtOnce = passReplicates                         // most replicates in a child run: all that the first check needs
	fewestWindows    = passWindows - passWindows/missingShare // of a result
)

func Offsets() (offsets []int) {
	for n := range DispatchOffsets {
		offsets = append(offsets, n)
	}
	return offsets
}

// MidpointOffsets lists the dispatch offsets at which to time the midpoint.
func (p Plan) MidpointOffsets() []int {
	if p.Layout != nil {
		return []int{p.Layout.Offset()}
	}
	return []int{0, DispatchOffsets / 2}
}

// A block with a wider interval than unstableShare, as a share of the cycles or in cycles, has no one time.
const unstableShare = 0.02

// UnstableLimit returns the largest half-width of a steady block's interval.
func UnstableLimit(e stat.Estimate) float64 { return unstableShare * math.Max(e.Value, 1) }

// Steady reports whether an interval is that of a steady block.
func Steady(e stat.Estimate) bool { return e.Half <= UnstableLimit(e) }

// runLimit guards against a lost child: real lists take a fraction of it.
const runLimit = 5 * time.Second

// code is the start of the child's code region, the same in each child of a timer.
type code struct{ resetImage, images uint64 }

func (c *code) ResetImage() uint64 { return c.resetImage }
func (c *code) Images() uint64     { return c.images }

// emit writes the code to the child: what first appends, then the reset image.
func emit(cfg Config, child *tracee.Tracee, read harness.Clock, first func(e *asm.Emitter)) (c code) {
	e := asm.NewEmitter(layout.Code)
	first(e)
	e.Align(64)
	c.resetImage = e.PC()
	// Not zmm16–31 and the opmasks: the prologue of a block that uses them clears them, and
	// 512-bit operations slow 256-bit ones down for a millisecond afterwards.
	everything := harness.Reset{Vector: true, X87: true, MMX: true, MXCSR: true, Flags: true}
	harness.Prologue(e, cfg.Init, everything, cfg.CPU.Features)
	harness.Epilogue(e, c.resetImage, read)
	c.images = e.PC()
	copy(child.Code(), e.Bytes())
	return c
}
