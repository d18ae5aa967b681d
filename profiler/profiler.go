// Package profiler measures how many core cycles a basic block takes at steady state, when all its
// accesses hit L1. [Profiler.Profile] turns the block's bytes into a throughput with its interval and
// evidence, or into a rejection with its reason:
//
//	decode → choose copies → prepare (map, trace, check the trace) → time → check linearity → check samples → result
//
// decode finds the instructions and rejects a block that cannot be profiled. chooseCopies chooses the
// numbers of copies in the shorter and in the longer image. prepare maps the pages that the block
// accesses and applies rules to the addresses of all its accesses (packages mapper and invariants).
// time runs both images many times in a child process; the throughput is the difference of their times
// divided by the difference of their numbers of copies (package unroll). The last step checks the samples.
//
// A Profiler has one child process and one goroutine that owns it, locked to its thread and bound,
// with the child, to one CPU. Its methods may be called from any goroutine and take turns: to
// measure on several cores, start a Profiler for each. The child measures block after block and is
// replaced when a block kills it. bbprof measures on Linux on x86-64; elsewhere everything compiles
// and [New] returns a *verdict.HostError.
//
// Three kinds of error never mix. A block that cannot be profiled has a *verdict.Rejection in its Result.
// A host that cannot measure causes a *verdict.HostError from New or Profile: no other block would fare
// better. A failure of bbprof is Result.Failure.
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

// ErrClosed is the error of a Profiler's methods after Close.
var ErrClosed = errors.New("the profiler is closed")

// Block is the machine code of a basic block, which may end with a direct branch, and its set-up. With Options.Inner it may also branch to
// its own later instructions; from a captured state it may be a whole loop.
type Block struct {
	Code  []byte
	Setup Setup
}

// MaxBlock is the longest block in bytes: the smallest pair of unroll factors needs four copies,
// and those of a longer block fit into no L1I.
const MaxBlock = 1 << 15

// MostCycles is more than a block can take: minutes, where the child ends a run within seconds. A larger number in a
// file is a mistake, and its square and cube leave a float64's range.
const MostCycles = 1e12

// Profiler measures blocks one at a time.
type Profiler struct {
	thread  *ptracethread.Thread // owns the child
	session *session             // used only on that thread; nil after Close
	clock   ClockChoice
	noPerf  error
}

// Clock returns the clock in use, PerfClock or TSCClock, and a *verdict.HostError if the perf clock is
// not available.
func (p *Profiler) Clock() (clock ClockChoice, noPerf error) { return p.clock, p.noPerf }

// New starts a profiler: its child is running and its clock is calibrated when New returns. The error is a *verdict.HostError
// if this machine cannot measure, or that of ctx, which can cancel the calibration. Call Close to end the profiler.
func New(ctx context.Context, opts Options) (*Profiler, error) {
	return newProfiler(ctx, opts, simulated.Machine{})
}

func init() { simulated.NewProfiler = newProfiler }

// newProfiler is New on a partly simulated machine.
func newProfiler(ctx context.Context, opts Options, machine simulated.Machine) (*Profiler, error) {
	if machine.CPUID == nil {
		machine.CPUID = host.AskCPUID
	}
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
	if err := host.CanTime(machine.CPUID); err != nil {
		return nil, err
	}
	p := &Profiler{thread: ptracethread.Start()}
	var err error
	p.thread.Do(context.Background(), func() {
		if p.session, err = newSession(ctx, opts, machine); err == nil {
			p.clock, p.noPerf = ClockChoice(p.session.timer.Report().Name), p.session.missingForPerf()
		}
	})
	if err != nil {
		p.thread.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the child after the present block, if any. A second Close does nothing.
func (p *Profiler) Close() {
	p.onThread(context.Background(), func(s *session) {
		s.discard()
		p.session = nil
	})
	p.thread.Close()
}

// Profile measures one block. The Result holds a rejection of the block or a failure with it.
// The error is ctx's, ErrClosed, or a *verdict.HostError if no further block can be measured; any
// other error means that bbprof could not start a child.
func (p *Profiler) Profile(ctx context.Context, b Block) (result Result, err error) {
	if refused := p.onThread(ctx, func(s *session) { result, err = s.serve(ctx, b) }); refused != nil {
		return Result{}, refused
	}
	return result, err
}

// ProfileAll measures the blocks that next returns until it returns none, and passes to done what
// Profile would return. The goroutine that owns the child calls both itself, so that no other thread
// must be woken between two blocks, which would take a CPU from the worker that measures there.
// The error is ErrClosed, or ctx's if it is cancelled while others measure; then neither was called.
func (p *Profiler) ProfileAll(ctx context.Context, next func() (Block, bool), done func(Result, error)) error {
	return p.onThread(ctx, func(s *session) {
		for {
			b, ok := next()
			if !ok {
				return
			}
			done(s.serve(ctx, b))
		}
	})
}

// AllEvents lists the events of the CPU in use, by their names for Options.Events. The error is a *verdict.HostError if
// the kernel offers no hardware counters.
func (p *Profiler) AllEvents(ctx context.Context) (events []string, err error) {
	refused := p.onThread(ctx, func(s *session) {
		if events, err = s.pmu.All(s.kernel); !s.pmu.Available {
			err = &verdict.HostError{Missing: s.pmu.Reason, Remedy: s.pmu.Remedy}
		}
	})
	if refused != nil {
		return nil, refused
	}
	return events, err
}

// EventError reports an event of Options.Events that is unknown or exceeds the room for events.
type EventError struct{ Err error }

func (e *EventError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *EventError) Unwrap() error { return e.Err }

// CanCount returns the error of New with this event in Options.Events: nil, an *EventError if it is
// unknown, or a *verdict.HostError if it cannot be counted.
func (p *Profiler) CanCount(ctx context.Context, name string) (err error) {
	if refused := p.onThread(ctx, func(s *session) { _, err = s.findEvents([]string{name}) }); refused != nil {
		return refused
	}
	return err
}

// onThread calls work on the thread that owns the child, unless ctx is cancelled or the profiler closed before the thread is free.
func (p *Profiler) onThread(ctx context.Context, work func(*session)) error {
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
		result, err = s.profile(b)
		return err
	})
	if err == nil {
		result.Status = OK
		return result, nil
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		result.Status, result.Reason, result.Rejection = Rejected, rejection.Reason, rejection
		ofTrace := rejection.Reason == verdict.AliasFrame || rejection.Reason == verdict.Alias4K
		if result.PaperVerdict == string(OK) && !ofTrace { // the samples reject it
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
	s.discard() // the child's state is unknown: the next block gets a new one
	result.Hex, result.Bytes = hex.EncodeToString(b.Code), len(b.Code)
	result.Status, result.Failure = Failed, err.Error()
	return result, nil
}

// withChild calls do for a block with a child that is ready. If the child dies, it is replaced and the block gets one more try,
// because the block need not be the cause. started reports whether there was a child.
func (s *session) withChild(ctx context.Context, b Block, do func() error) (started bool, err error) {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return started, err
		}
		s.window = s.windowFor(b)
		err = s.ready()
		if started = err == nil; started {
			spare := s.killOnDone(ctx)
			err = do()
			spare()
		}
		late := timeoutOf(err)
		_, host := errors.AsType[*verdict.HostError](err)
		_, dead := errors.AsType[*tracee.DeadError](err)
		switch {
		case err == nil || verdict.ReasonOf(err) != "":
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

// timeoutOf returns the rejection of a block whose runs exceeded their CPU time, or nil if err is another error.
func timeoutOf(err error) *verdict.Rejection {
	dead, ok := errors.AsType[*tracee.DeadError](err)
	if !ok || !dead.Overtime {
		return nil
	}
	return &verdict.Rejection{Reason: verdict.Timeout, Detail: fmt.Sprintf("the block's runs did not end within %v of CPU time", dead.Limit)}
}
