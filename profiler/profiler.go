// Package profiler measures blocks. [Profiler.Profile] is the whole path of one block, from
// bytes to a throughput with its evidence or a rejection with its reason:
//
//	decode → refuse → choose factors → map → time → judge → derive
//
// A Profiler has one child process and one goroutine that owns it, locked to its thread and
// bound, with the child, to one CPU. Profile hands its block to that goroutine. The child
// serves block after block and is replaced when a block takes it down.
package profiler

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/tracee"
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
	// Budget is the longest time to spend on the timing of one block, default 3 s.
	Budget time.Duration
	// Precision is how narrow the interval is to be: its half-width as a share of the cycles, or
	// in cycles, whichever is larger. Default 0.005. A block that does not reach it within its
	// windows is accepted with the interval that it has, unless it is unstable.
	Precision float64
	// Frames is how many physical pages the block's pages share: AutoFrames is one as long as
	// that is harmless, else one a page; 1 is the paper's.
	Frames int
	// Init names the only initial state to use (initial.States).
	Init string
	// NoFTZ leaves subnormals alone instead of flushing them to zero, for comparison.
	NoFTZ bool
	// NoRescue keeps to the paper's initial state.
	NoRescue bool
	// Mode is how the block is repeated, default Unroll.
	Mode Mode
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
	// to measure what the condition costs. Such a number is not ground truth.
	Tolerate []verdict.Reason
	// Detail adds the listing, the mapping steps and the host to each Result.
	Detail bool

	// What stands in for a PMU in tests: a kernel by script, on a CPU of its choice.
	kernel    pmu.Kernel
	cpu       *pmu.CPU
	simulated *simulation
}

// simulation is what counters would have counted of what the child ran.
type simulation struct {
	block func(events pmu.Pass, iterations int, t *timings)
	chain func(c clock.Chain, t *timings)
}

// WithDefaults puts the default where nothing is set, except for CPUs.
func (o Options) WithDefaults() Options {
	o.Budget = cmp.Or(o.Budget, 3*time.Second)
	o.Precision = cmp.Or(o.Precision, 0.005)
	o.Mode, o.FrontEnd = cmp.Or(o.Mode, Unroll), cmp.Or(o.FrontEnd, OpCache)
	o.Clock = cmp.Or(o.Clock, AutoClock)
	return o
}

// AutoFrames lets each block have as many frames as it needs.
const AutoFrames = 0

// Block is machine code without control flow.
type Block struct {
	Code  []byte
	Setup Setup
}

// MaxBlock is the longest block in bytes: no L1I there is holds the four copies of a longer
// one that the smallest pair of unroll factors needs.
const MaxBlock = 1 << 15

// Profiler measures blocks one at a time. Its methods may be called from any goroutine.
type Profiler struct {
	requests chan request
	ended    chan struct{}
	clock    ClockChoice
	noPerf   error
}

// Clock is which clock times, PerfClock or TSCClock, and what the perf clock lacks if it cannot
// be had: nil, or a *verdict.HostError.
func (p *Profiler) Clock() (clock ClockChoice, noPerf error) { return p.clock, p.noPerf }

// request is work for the goroutine that owns the child.
type request struct {
	work func(*session)
	done chan struct{}
}

// New starts a profiler: its child is running and its clock is calibrated when New returns.
// The error is a *verdict.HostError if this machine cannot measure.
func New(opts Options) (*Profiler, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	opts = opts.WithDefaults()
	if len(opts.CPUs) == 0 {
		cpus, err := host.AllowedCPUs()
		if err != nil {
			return nil, err
		}
		slices.Reverse(cpus)
		opts.CPUs = cpus
	}
	p := &Profiler{requests: make(chan request), ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// Never unlocked: the thread is bound to a CPU and the child is bound to the thread,
		// so it must end with this goroutine.
		runtime.LockOSThread()
		s, err := newSession(opts)
		if err == nil {
			p.clock, p.noPerf = ClockChoice(s.clock.Name()), s.noPerf()
		}
		started <- err
		if err != nil {
			return
		}
		defer s.close()
		for r := range p.requests {
			r.work(s)
			close(r.done)
		}
	}()
	if err := <-started; err != nil {
		<-p.ended
		return nil, err
	}
	return p, nil
}

// Close ends the child. No Profile may be under way or follow.
func (p *Profiler) Close() {
	close(p.requests)
	<-p.ended
}

// Profile measures one block. Whatever is wrong with the block, or went wrong with it, is in
// the Result. The error is ctx's, or a *verdict.HostError when no further block can be measured.
func (p *Profiler) Profile(ctx context.Context, b Block) (result Result, err error) {
	if !p.do(ctx, func(s *session) { result, err = s.serve(ctx, b) }) {
		return Result{}, ctx.Err()
	}
	return result, err
}

// ProfileAll measures the blocks that next gives until it gives none, and hands to done what
// Profile would return. The goroutine that owns the child calls both itself: between two
// blocks no other thread has to be woken, which would take a CPU from whoever measures there.
func (p *Profiler) ProfileAll(ctx context.Context, next func() (Block, bool), done func(Result, error)) {
	p.do(ctx, func(s *session) {
		for {
			b, ok := next()
			if !ok {
				return
			}
			done(s.serve(ctx, b))
		}
	})
}

// AllEvents are the events of the CPU that is measured on (pmu.PMU.All). The error is a
// *verdict.HostError where the kernel offers no hardware counters.
func (p *Profiler) AllEvents(ctx context.Context) (all []pmu.Selected, err error) {
	if !p.do(ctx, func(s *session) {
		if all, err = s.pmu.All(s.kernel); !s.pmu.Available {
			err = &verdict.HostError{Missing: s.pmu.Reason, Remedy: s.pmu.Remedy}
		}
	}) {
		return nil, ctx.Err()
	}
	return all, err
}

// CanCount tells of an event what New would with it among Options.Events: nil, an *EventError if
// nobody knows it, or a *verdict.HostError if it cannot be counted.
func (p *Profiler) CanCount(ctx context.Context, name string) (err error) {
	if !p.do(ctx, func(s *session) { _, err = s.named([]string{name}) }) {
		return ctx.Err()
	}
	return err
}

// do has the goroutine that owns the child work, unless ctx ends before it is free.
func (p *Profiler) do(ctx context.Context, work func(*session)) bool {
	r := request{work, make(chan struct{})}
	select {
	case p.requests <- r:
		<-r.done
		return true
	case <-ctx.Done():
		return false
	}
}

// serve is Profile on the goroutine that owns the child. A child that dies is replaced, and
// the block gets one more try: the first death may have been another's doing.
func (s *session) serve(ctx context.Context, b Block) (Result, error) {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		var (
			rejection *verdict.Rejection
			hostError *verdict.HostError
			dead      *tracee.DeadError
			result    Result
		)
		err := s.ready()
		if err != nil && !errors.As(err, &dead) {
			return Result{}, err
		}
		if err == nil {
			kill := context.AfterFunc(ctx, s.child.Kill)
			before := s.spent()
			result, err = s.profile(ctx, b)
			spent := s.spent()
			result.Stops, result.SystemCalls = spent.Stops-before.Stops, spent.Calls-before.Calls
			kill()
		}
		switch {
		case err == nil:
			result.Status = OK
			return result, nil
		case errors.As(err, &rejection):
			result.Status, result.Reason, result.Rejection = Rejected, rejection.Reason, rejection
			if result.PaperVerdict == string(OK) { // of the trace; the samples said otherwise
				result.PaperVerdict = string(rejection.Reason)
			}
			return result, nil
		case ctx.Err() != nil:
			return Result{}, ctx.Err()
		case errors.As(err, &hostError):
			return Result{}, hostError
		case errors.As(err, &dead) && dead.Overtime:
			s.discard()
			result.Status, result.Reason = Rejected, verdict.Timeout
			result.Rejection = &verdict.Rejection{Reason: verdict.Timeout, Detail: fmt.Sprintf("the block's runs did not end within %v of CPU time", dead.Limit)}
			return result, nil
		case errors.As(err, &dead) && try == 0:
			continue
		}
		s.discard() // whatever state the child is in, the next block gets a new one
		result.Hex, result.Bytes = hex.EncodeToString(b.Code), len(b.Code)
		result.Status, result.Failure = Failed, err.Error()
		return result, nil
	}
}

// ready makes sure that there is a live, calibrated child.
func (s *session) ready() error {
	if s.child != nil && s.child.Alive() {
		return nil
	}
	s.discard()
	if err := s.launch(); err != nil {
		return fmt.Errorf("starting a child: %w", err)
	}
	return nil
}
