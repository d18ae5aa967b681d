// Package timing measures how many core cycles an iteration of a block takes. It is given image
// pairs, the code of the block repeated a shorter and a longer number of times, and does not know
// how they came to be.
//
// There are two Timers. [TSC] reads the time-stamp counter and calibrates it against chains of
// known latency that are timed beside the block. [Counters] reads hardware counters of core
// cycles and takes the paper's 16 timings of each image. Both take replicates until the interval
// is narrow enough or the budget is spent.
//
// A replicate times one image pair, at one place and with its pages mapped once, in three windows.
// Windows differ in the dispatch offset: how many more iterations the loop before the first copy
// makes. That decides where the copies meet the rename groups, and so what the start and the end
// of an image cost and, for blocks bound by throughput, how fast they are by some percent for as
// long as they run. Place and dispatch offset are a [Layout]; replicates go through a fixed design
// of layouts, and the cycles are the mean over it. The offset never changes within a window: the
// branch predictor has to learn each one anew.
//
// A Timer times in a child process that its owner attaches, and belongs, like the child, to one
// goroutine that is locked to its thread.
package timing

import (
	"context"
	"math"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Timer is a way to time blocks.
type Timer interface {
	// Attach readies a child for timing and, the first time, calibrates the clock in it, which the end of ctx ends. The
	// previous child, if there was one, is gone.
	Attach(ctx context.Context, child *tracee.Tracee) error
	// Clock emits a reading of the clock, with which images end.
	Clock() harness.Clock
	// Fresh is the entry of an image that restores all state that a block can change, and Images
	// the address from which on the child's code region is free for images.
	Fresh() uint64
	Images() uint64

	// Time takes replicates of a block. On an error, Timed holds what was counted until there.
	Time(b Block, p Plan) (Timed, error)
	// TimeThird times the one pair in a window for each dispatch offset, as Time does a replicate, as far as the budget lasts. Timed has no
	// windows if none was undisturbed.
	TimeThird(b Block, pair Pair, offsets []int, p Plan) (Timed, error)

	// Uses reports the memory of bbprof's own that timing touches.
	Uses(report func(from, bytes uint64))
	// Report says how readings become cycles.
	Report() Report
}

// Image is code that runs a block a number of times.
type Image struct {
	Entry      uint64
	Iterations int
}

// Pair is a shorter and a longer image of one block.
type Pair struct{ Short, Long Image }

// PerIteration is the throughput.
func (p Pair) PerIteration(short, long float64) float64 {
	return unroll.Throughput(short, long, unroll.Factors{Short: p.Short.Iterations, Long: p.Long.Iterations})
}

func (p Pair) iterations() int { return p.Long.Iterations - p.Short.Iterations }

// Block lays out what is to be timed, in the child that is attached.
type Block interface {
	// Replicates lays out a pair at each of these places (see [Layout]), on pages of code of this pass: one at least, and as many
	// as there is room for. Each image ends with a reading of the clock.
	Replicates(places []int, pass int, read harness.Clock) ([]Pair, error)
	// Third places, after those, an image of a third number of iterations, and gives its pair
	// with the shorter one; ok is false where there is no such number or no room.
	Third(read harness.Clock) (pair Pair, ok bool, err error)
	// Refill makes the block's memory what it is at first.
	Refill()
	// Remap maps the block's pages again, for each replicate onto frames of its own, which hold what they do
	// at first: which physical page it is changes how fast some blocks store.
	Remap(replicate int) []tracee.Op
}

// Plan says how to time a block.
type Plan struct {
	Remap      []tracee.Op   // maps the block's pages again
	Warm       int           // runs of an image before those that are timed at once
	VectorBits int           // width of the vector units that the block uses
	Budget     time.Duration // of each call
	Precision  float64       // half-width of the interval to reach, as a share of the cycles or in cycles
	Identical  int           // of 16 timings by counters; 0 is the paper's rule
	At         *Layout       // the one layout to time in; nil is the whole design
	OnePlace   bool          // the images stand where they stand, and only dispatch offsets differ
	// Tolerate are reasons for which nothing that is counted rejects the block.
	Tolerate []verdict.Reason
	// Enough ends it early: if not nil, it is asked of the interval wherever that might be narrow enough.
	Enough func(stat.Estimate) bool
	// RunsPerSample is what an earlier timing of the block found. Time finds it by itself.
	RunsPerSample int
}

// Timed is what timing came to.
type Timed struct {
	Windows []Window
	Third   []Window // up to a third number of iterations, as far as timed beside them

	RunsPerSample   int // runs of an image in one timing
	SamplesKept     int
	SamplesDropped  int
	WindowsSwitched int // windows dropped for a context switch
	WindowsUnsteady int // because the core was shared
	WindowsDrifted  int // because the core's clock moved
	Seconds         float64

	Estimate stat.Estimate // of the cycles, in which another run's lie
	Design   stat.Design   // of the layouts, each for itself
	Speeds   [][]stat.Cell // these by speed, the fastest first
	Events   Tallies       // that were counted beside the cycles
}

// After adds what an earlier timing of the same block dropped and kept.
func (t Timed) After(earlier Timed) Timed {
	t.SamplesKept += earlier.SamplesKept
	t.SamplesDropped += earlier.SamplesDropped
	t.WindowsSwitched += earlier.WindowsSwitched
	t.WindowsUnsteady += earlier.WindowsUnsteady
	t.WindowsDrifted += earlier.WindowsDrifted
	t.Seconds += earlier.Seconds
	return t
}

// Report says how readings became core cycles.
type Report struct {
	Name, Method   string
	StepTicks      float64
	TicksPerCycle  float64
	TicksPerSecond float64 // by the monitor's clock, while calibrating; 0 of counted cycles
	MultiplyCycles float64 // latency of imul by this clock
	ProbeIdle      float64 // the contention probe's time in cycles on an idle core
	IdleConfirmed  bool    // what is known of the core confirms that it was idle then
	Shared         float64 // share of the start's samples that other work slowed or interrupted
	Doubt          string  // what the start could not tell
}

// CPUs are the logical CPUs that may be measured on, one at a time.
type CPUs interface {
	Current() int
	Next(child *tracee.Tracee) error // moves thread and child
}

// Config is what a Timer needs to know from the start.
type Config struct {
	CPU  host.CPU
	Init initial.State // that the fresh image sets
	CPUs CPUs

	// Record takes in what the core says; nil: nothing is recorded.
	Record *recording.Recording
}

// How often a block is timed.
const (
	// Warm is the most runs of an image before those that are timed at once.
	Warm = 2
	// replicatesAtOnce are the most replicates in one child run: all that the first decision needs.
	replicatesAtOnce = passReplicates
)

// fewest is the number of windows that a result has at least.
const fewest = passWindows - passWindows/owedShare

// Offsets are all dispatch offsets.
func Offsets() (offsets []int) {
	for n := range DispatchOffsets {
		offsets = append(offsets, n)
	}
	return offsets
}

// ThirdOffsets are those of the windows that time a third number of iterations: in one layout, its own.
func (p Plan) ThirdOffsets() []int {
	if p.At != nil {
		return []int{p.At.Offset()}
	}
	return []int{0, DispatchOffsets / 2}
}

// unstableShare is how wide the interval may be, as a share of the cycles or in cycles, before
// the block is said to have no one speed.
const unstableShare = 0.02

// UnstableLimit is the widest half-width of an interval of a block with one speed.
func UnstableLimit(e stat.Estimate) float64 { return unstableShare * math.Max(e.Value, 1) }

// Steady reports whether an interval is that of one speed.
func Steady(e stat.Estimate) bool { return e.Half <= UnstableLimit(e) }

// runLimit guards a lost child: what it is given takes a fraction of that.
const runLimit = 5 * time.Second

// code is what the child's code region begins with, the same in each child of a timer.
type code struct {
	samplers map[int]sampler // by the vector width in bits that they keep awake
	bursts   uint64          // times bursts of stores
	search   uint64          // finds how many runs make a sample,
	most     int             // at most so many
	chains   []image         // of the clock's calibration
	fresh    uint64
	images   uint64
}

// sampler are the entries of the code that waits and of the code that samples.
type sampler struct{ wait, sample uint64 }

func (c *code) Fresh() uint64  { return c.fresh }
func (c *code) Images() uint64 { return c.images }

// emit writes it to the child. more is appended before the chains.
func emit(cfg Config, child *tracee.Tracee, clock clock.Clock, probe harness.Probe, more func(e *asm.Emitter)) code {
	c := code{samplers: map[int]sampler{}}
	e := asm.NewEmitter(layout.Code)
	chains := clock.Chains()
	for _, bits := range cfg.CPU.VectorBits() {
		c.samplers[bits] = sampler{
			wait:   harness.WaitIdle(e, clock.Emit, probe, bits, idleReadings, child.Resume()),
			sample: harness.Sampler(e, clock.Emit, probe, bits, child.Resume()),
		}
	}
	runs := runsOn(clock)
	c.most = runs.Most
	c.bursts = harness.Bursts(e, clock.Emit, child.Resume())
	c.search = harness.ChooseRuns(e, rowsOf(len(chains), windowSamples).images(), searchedRuns, runs, child.Resume())
	if more != nil {
		more(e)
	}
	for _, chain := range chains {
		c.chains = append(c.chains, image{chain.Emit(e, clock.Emit), chainWarm, chain.Runs()})
	}
	e.Align(64)
	c.fresh = e.PC()
	// Not zmm16–31 and the opmasks: no block that uses them can tell, its own prologue clears
	// them, and 512-bit operations slow 256-bit ones down for a millisecond afterwards.
	everything := harness.Reset{Vector: true, X87: true, MMX: true, MXCSR: true, Flags: true}
	harness.Prologue(e, cfg.Init, everything, cfg.CPU.Features)
	harness.Epilogue(e, c.fresh, clock.Emit)
	c.images = e.PC()
	copy(child.Code(), e.Bytes())
	return c
}
