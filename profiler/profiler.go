// Package profiler measures how many core cycles a basic block takes at steady state, when all its
// accesses hit L1. [Profiler.Profile] takes the block's bytes to a throughput with its interval and
// its evidence, or to a rejection with its reason:
//
//	decode → repeat → prepare (map, trace, judge the trace) → time → check linearity → judge → result
//
// decode finds the instructions and refuses what cannot be profiled. repeat chooses how many copies
// stand in the shorter and in the longer image. prepare gives the block the pages that it asks for
// and holds rules against the addresses of all its accesses (packages mapper and invariants). time
// runs both images many times in a child process; the throughput is the difference of their times
// divided by the difference of their copies (package unroll). The samples are judged last.
//
// A Profiler has one child process and one goroutine that owns it, locked to its thread and bound,
// with the child, to one CPU. Its methods may be called from any goroutine and take turns: to
// measure on several cores, start a Profiler for each. The child serves block after block and is
// replaced when a block ends it. bbprof measures on Linux on x86-64; elsewhere everything compiles
// and [New] returns a *verdict.HostError.
//
// Three kinds of failure never mix. What is wrong with a block is a *verdict.Rejection in its Result.
// What is wrong with the host is a *verdict.HostError, as the error of New or Profile: no other block
// would fare better. What went wrong in bbprof is Result.Failure.
package profiler

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// ErrClosed is what the methods of a Profiler return after Close.
var ErrClosed = errors.New("the profiler is closed")

// Block is machine code without control flow.
type Block struct {
	Code  []byte
	Setup Setup
}

// MaxBlock is the longest block in bytes: no L1I there is holds the four copies of a longer
// one that the smallest pair of unroll factors needs.
const MaxBlock = 1 << 15

// Profiler measures blocks one at a time.
type Profiler struct {
	Executor
	clock  ClockChoice
	noPerf error
}

// Executor executes blocks from captured states, one at a time, and times nothing. Its methods may be called from any
// goroutine, also at once: each waits until those before it are done.
type Executor struct {
	thread  *ptracethread.Thread // owns the child
	session *session             // used on that thread alone; nil after Close
}

// Clock is which clock times, PerfClock or TSCClock, and what the perf clock lacks if it cannot
// be had: nil, or a *verdict.HostError.
func (p *Profiler) Clock() (clock ClockChoice, noPerf error) { return p.clock, p.noPerf }

// New starts a profiler: its child is running and its clock is calibrated when New returns.
// The error is a *verdict.HostError if this machine cannot measure, or that of ctx, whose end ends the calibration. Close ends what New starts.
func New(ctx context.Context, opts Options) (*Profiler, error) {
	return newProfiler(ctx, opts, simulated.Machine{})
}

// NewExecutor starts an executor. Without a clock it waits for no idle core, and it works on an emulated machine.
// Of the options, those that say how to measure have no effect. Close ends what it starts.
func NewExecutor(opts Options) (*Executor, error) {
	p, err := startWith(opts, func(o Options) (*session, error) {
		s := untimed(o)
		if err := s.cpus.pin(); err != nil {
			return nil, err
		}
		if err := s.launch(context.Background()); err != nil { // it calibrates nothing
			s.discard()
			return nil, err
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return &p.Executor, nil
}

func init() { simulated.NewProfiler = newProfiler }

// newProfiler is New on a machine of which something is simulated.
func newProfiler(ctx context.Context, opts Options, machine simulated.Machine) (*Profiler, error) {
	if machine.CPUID == nil {
		machine.CPUID = host.AskCPUID
	}
	return startWith(opts, func(o Options) (*session, error) {
		if err := host.CanTime(machine.CPUID); err != nil {
			return nil, err
		}
		return newSession(ctx, o, machine)
	})
}

// startWith starts a profiler whose session open opens, on the thread that owns it.
func startWith(opts Options, open func(Options) (*session, error)) (*Profiler, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	opts = opts.WithDefaults()
	if len(opts.CPUs) == 0 {
		cpus, err := host.AllowedCPUs()
		if err != nil {
			return nil, err
		}
		opts.CPUs = host.FastestKind(cpus)
		slices.Reverse(opts.CPUs)
	}
	if err := host.CheckKinds(opts.CPUs); err != nil {
		return nil, err
	}
	p := &Profiler{Executor: Executor{thread: ptracethread.Start()}}
	var err error
	p.thread.Do(context.Background(), func() {
		if p.session, err = open(opts); err == nil {
			p.clock, p.noPerf = ClockChoice(p.session.timer.Report().Name), p.session.noPerf()
		}
	})
	if err != nil {
		p.thread.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the child, after the block that is being measured if there is one. A second Close does
// nothing.
func (p *Executor) Close() {
	p.do(context.Background(), func(s *session) {
		s.discard()
		p.session = nil
	})
	p.thread.Close()
}

// Profile measures one block. Whatever is wrong with the block, or went wrong with it, is in
// the Result. The error is ctx's, ErrClosed, or a *verdict.HostError when no further block can be
// measured; any other says why bbprof could not start a child.
func (p *Profiler) Profile(ctx context.Context, b Block) (result Result, err error) {
	if refused := p.do(ctx, func(s *session) { result, err = s.serve(ctx, b) }); refused != nil {
		return Result{}, refused
	}
	return result, err
}

// ProfileAll measures the blocks that next gives until it gives none, and hands to done what
// Profile would return. The goroutine that owns the child calls both itself: between two
// blocks no other thread has to be woken, which would take a CPU from the worker that measures there.
// The error is ErrClosed, or ctx's where it ends while others measure; then it has called neither.
func (p *Profiler) ProfileAll(ctx context.Context, next func() (Block, bool), done func(Result, error)) error {
	return p.do(ctx, func(s *session) {
		for {
			b, ok := next()
			if !ok {
				return
			}
			done(s.serve(ctx, b))
		}
	})
}

// Event is an event that the CPU can count: its vendor's name, and the name to ask for it by in
// Options.Events.
type Event struct{ Name, By string }

// AllEvents are the events of the CPU that is measured on. The error is a *verdict.HostError where
// the kernel offers no hardware counters.
func (p *Profiler) AllEvents(ctx context.Context) (events []Event, err error) {
	refused := p.do(ctx, func(s *session) {
		all, failed := s.pmu.All(s.kernel)
		for _, e := range all {
			events = append(events, Event(e))
		}
		if err = failed; !s.pmu.Available {
			err = &verdict.HostError{Missing: s.pmu.Reason, Remedy: s.pmu.Remedy}
		}
	})
	if refused != nil {
		return nil, refused
	}
	return events, err
}

// EventError is about an event of Options.Events that is unknown, or that there is no room for.
type EventError struct{ Err error }

func (e *EventError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with it.
func (e *EventError) Unwrap() error { return e.Err }

// CanCount tells of an event what New would with it among Options.Events: nil, an *EventError if
// it is unknown, or a *verdict.HostError if it cannot be counted.
func (p *Profiler) CanCount(ctx context.Context, name string) (err error) {
	if refused := p.do(ctx, func(s *session) { _, err = s.named([]string{name}) }); refused != nil {
		return refused
	}
	return err
}

// do has the thread that owns the child work, unless ctx ends or the profiler is closed before it is free.
func (p *Executor) do(ctx context.Context, work func(*session)) error {
	closed := false
	err := p.thread.Do(ctx, func() {
		if closed = p.session == nil; !closed {
			work(p.session)
		}
	})
	if closed || errors.Is(err, ptracethread.ErrClosed) {
		return ErrClosed
	}
	return err
}

// serve is Profile on the goroutine that owns the child.
func (s *session) serve(ctx context.Context, b Block) (result Result, err error) {
	started, err := s.withChild(ctx, b, func() (err error) {
		before := s.spent()
		result, err = s.profile(b)
		spent := s.spent()
		result.Stops, result.SystemCalls = spent.Stops-before.Stops, spent.Calls-before.Calls
		return err
	})
	if err == nil {
		result.Status = OK
		return result, nil
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		result.Status, result.Reason, result.Rejection = Rejected, rejection.Reason, rejection
		ofTrace := rejection.Reason == verdict.AliasFrame || rejection.Reason == verdict.Alias4K
		if result.PaperVerdict == string(OK) && !ofTrace { // the samples said otherwise
			result.PaperVerdict = string(rejection.Reason)
		}
		return result, nil
	}
	hostError, ok := errors.AsType[*verdict.HostError](err)
	switch {
	case ok:
		return Result{}, hostError
	case ctx.Err() != nil || !started:
		return Result{}, err
	}
	s.discard() // whatever state the child is in, the next block gets a new one
	result.Hex, result.Bytes = hex.EncodeToString(b.Code), len(b.Code)
	result.Status, result.Failure = Failed, err.Error()
	return result, nil
}

// withChild has something done to a block with a child that is ready for it. A child that dies is replaced, and the block gets
// one more try: the first death may have been another's doing. started is whether there was a child.
func (s *session) withChild(ctx context.Context, b Block, do func() error) (started bool, err error) {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return started, err
		}
		s.window = s.windowFor(b)
		err = s.ready()
		if started = err == nil; started {
			spare := s.killedBy(ctx)
			err = do()
			spare()
		}
		late := overtime(err)
		_, rejected := errors.AsType[*verdict.Rejection](err)
		_, host := errors.AsType[*verdict.HostError](err)
		_, dead := errors.AsType[*tracee.DeadError](err)
		switch {
		case err == nil || rejected:
			return started, err
		case ctx.Err() != nil:
			return started, ctx.Err()
		case !host && late != nil:
			s.discard()
			return started, late
		case host || !dead || try > 0:
			return started || dead, err
		}
	}
}

// overtime is the rejection of a block whose runs the child was killed for; nil if err is something else.
func overtime(err error) *verdict.Rejection {
	dead, ok := errors.AsType[*tracee.DeadError](err)
	if !ok || !dead.Overtime {
		return nil
	}
	return &verdict.Rejection{Reason: verdict.Timeout, Detail: fmt.Sprintf("the block's runs did not end within %v of CPU time", dead.Limit)}
}
