package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/ptracethread"
)

// Options of a Runner. The zero value means the defaults.
type Options struct {
	// CPUs to run on: the first. Default: the last allowed, since the first serve most interrupts.
	CPUs []int
	// Timeout limits one run, default 1 minute.
	Timeout time.Duration
	// Stdin is each run's standard input; default /dev/null.
	Stdin string
	// Stderr gets up to MaxOutput bytes of standard error from a first run that is not measured; may be nil.
	Stderr io.Writer
	// AnyStatus accepts runs with a non-zero exit status.
	AnyStatus bool
	// Meter counts core cycles; nil is the hardware counter if there is one, else time.
	Meter Meter
	// Kernel provides counters; nil is Linux.
	Kernel pmu.Kernel
	// CPUID tells whether times come from a CPU; nil is the CPU's.
	CPUID host.CPUID
}

// Meter counts a process's core cycles in hardware, or another event.
type Meter interface {
	// Start begins to count a stopped process and all that it starts.
	Start(pid int) (Reading, error)
	// Describe says what is counted.
	Describe() string
}

// Reading is a count in progress. Close it.
type Reading interface {
	Count() (float64, error)
	Close()
}

// Sample is the measurement of one run.
type Sample struct {
	// Cycles are core cycles from the program's entry, after exec and dynamic linking, or from the malloc call that the
	// set-up names, to its end.
	Cycles float64
	// Count is a [Counter]'s event, the only one then counted: Cycles come from time.
	Count float64
	// CPUTime is user and kernel time over the same range.
	CPUTime time.Duration
	// Faults and Switches are page faults and context switches of the whole process, since exec.
	Faults, Switches int
	// Hertz is the core's clock around the run.
	Hertz float64
	// Left means that processes started by the program were still running when it ended; their time does not count.
	Left bool
}

// Runner runs programs one at a time, each in a new process on the same CPU. Its methods may be called from any
// goroutine.
type Runner struct {
	opts   Options
	cpu    int
	left   atomic.Int32
	thread *ptracethread.Thread // bound to the CPU; the programs belong to it
}

// NewRunner starts a runner. A *verdict.HostError says that this machine cannot measure.
func NewRunner(opts Options) (*Runner, error) {
	if opts.CPUID == nil {
		opts.CPUID = host.AskCPUID
	}
	if err := host.CanTime(opts.CPUID); err != nil {
		return nil, err
	}
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	if opts.Kernel == nil {
		opts.Kernel = pmu.Linux{}
	}
	if opts.Meter == nil && pmu.CanCount(opts.Kernel, pmu.ProcessCycles) {
		opts.Meter = processCounter{opts.Kernel, pmu.ProcessCycles, "core cycles in user mode, counted by the CPU"}
	}
	r := &Runner{opts: opts, thread: ptracethread.Start()}
	var err error
	if doErr := r.thread.Do(context.Background(), func() { r.cpu, err = Pin(opts.CPUs) }); err == nil {
		err = doErr
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Pin binds the calling thread and its children to the first of the CPUs, or by default to the last allowed of the
// fastest kind of core, since the first serve most interrupts.
func Pin(cpus []int) (cpu int, err error) {
	if len(cpus) > 0 {
		cpu = cpus[0]
	} else if allowed, err := host.AllowedCPUs(); err != nil {
		return 0, err
	} else {
		fast := host.FastestKind(allowed)
		cpu = fast[len(fast)-1]
	}
	return cpu, host.PinThread(cpu)
}

// Close ends the runner. Later runs return an error.
func (r *Runner) Close() { r.thread.Close() }

// Left returns how many runs ended with processes still running, which were then killed.
func (r *Runner) Left() int { return int(r.left.Load()) }

func (r *Runner) CPU() int { return r.cpu }

// Describe says how cycles are measured.
func (r *Runner) Describe() string {
	if r.opts.Meter != nil {
		return r.opts.Meter.Describe()
	}
	return "CPU time in user mode and kernel, converted by the core's clock: a chain of dependent adds, one a cycle, timed before and after each run"
}

// Run runs a command once and measures it. An *Error blames the program: it could not be started, crashed, failed or
// timed out.
func (r *Runner) Run(ctx context.Context, c Command, s Setup) (Sample, error) {
	return r.do(ctx, c, s, nil, nil)
}

// WarmUp runs a command once without measuring it, to fill the page cache and show its complaints.
func (r *Runner) WarmUp(ctx context.Context, c Command, s Setup) error {
	_, err := r.do(ctx, c, s, r.opts.Stderr, nil)
	return err
}

func (r *Runner) do(ctx context.Context, c Command, s Setup, stderr io.Writer, event Meter) (sample Sample, err error) {
	if err := s.Check(); err != nil {
		return Sample{}, err
	}
	if doErr := r.thread.Do(ctx, func() { sample, err = r.run(ctx, c, s, stderr, event) }); doErr != nil {
		return Sample{}, doErr
	}
	return sample, err
}

// run performs one run on the runner's thread.
func (r *Runner) run(ctx context.Context, c Command, s Setup, stderr io.Writer, event Meter) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	var sample Sample
	var end debuggee.End
	p, done, err := c.Start(ctx, s, Streams{Stdin: r.opts.Stdin, Stderr: stderr})
	if err == nil {
		defer done()
		sample, end, err = r.measure(c, s, p, event)
	}
	if sample.Left = end.Left; end.Left {
		r.left.Add(1)
	}
	switch { // a program killed by ctx may look uncontrollable
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return Sample{}, &Error{Subject: c.Name, Problem: fmt.Sprintf("it did not end within %v and was killed", r.opts.Timeout), Remedy: "give it longer with -timeout, or less to do"}
	case ctx.Err() != nil:
		return Sample{}, ctx.Err()
	case err != nil:
		return Sample{}, c.Blame(err)
	}
	return sample, r.endError(c.Name, end)
}

// measure runs a program that has not executed anything to its end. It counts event, if not nil, instead of cycles.
func (r *Runner) measure(c Command, s Setup, p *debuggee.Process, event Meter) (Sample, debuggee.End, error) {
	fail := func(err error) (Sample, debuggee.End, error) { return Sample{}, debuggee.End{}, err }
	if end, err := toEntry(p); err != nil || end != nil {
		if end != nil {
			return Sample{}, *end, err
		}
		return fail(err)
	}
	if s.Request.Number > 0 {
		if err := c.toRequest(p, s.Request); err != nil {
			return fail(err)
		}
	}
	meter := r.opts.Meter
	if event != nil {
		meter = event
	}
	var reading Reading
	if meter != nil {
		var err error
		if reading, err = meter.Start(p.ID()); err != nil {
			return fail(err)
		}
		defer reading.Close()
	}
	before := hertz()
	start, err := p.CPUTime()
	if err != nil {
		return fail(err)
	}
	if err := p.Detach(); err != nil {
		return fail(err)
	}
	end, total, err := p.Wait()
	if err != nil {
		return fail(err)
	}
	sample := Sample{CPUTime: total.CPUTime - start, Faults: total.Faults, Switches: total.Switches, Hertz: (before + hertz()) / 2}
	sample.Cycles = sample.CPUTime.Seconds() * sample.Hertz
	if reading == nil {
		return sample, end, nil
	}
	counted := &sample.Cycles
	if event != nil {
		counted = &sample.Count
	}
	*counted, err = reading.Count()
	return sample, end, err
}

// toEntry runs the dynamic linker, if any, up to the program's own first instruction.
func toEntry(p *debuggee.Process) (*debuggee.End, error) {
	entry, err := p.Entry()
	if err != nil {
		return nil, err
	}
	if err := p.Break(entry); err != nil {
		return nil, err
	}
	stop, err := p.Run()
	if err != nil || stop.End != nil {
		return stop.End, err
	}
	return nil, p.Unbreak(entry)
}

// endError returns nil if the program ended normally.
func (r *Runner) endError(name string, end debuggee.End) error {
	switch {
	case end.Signal != 0:
		return &Error{Subject: name, Problem: fmt.Sprintf("it crashed: signal %d, %v", int(end.Signal), end.Signal), Remedy: "run it by itself first"}
	case end.Status != 0 && !r.opts.AnyStatus:
		return &Error{Subject: name, Problem: fmt.Sprintf("it failed with exit status %d", end.Status), Remedy: "-any-status takes it as it is"}
	}
	return nil
}

// processCounter counts one event for a process and all that it starts.
type processCounter struct {
	kernel pmu.Kernel
	attr   pmu.Attr
	what   string
}

func (c processCounter) Describe() string { return c.what }

func (c processCounter) Start(pid int) (Reading, error) {
	p, err := pmu.OpenProcess(c.kernel, c.attr, pid)
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		p.Close()
		return nil, err
	}
	return processReading{p}, nil
}

type processReading struct{ *pmu.Process }

func (r processReading) Count() (float64, error) {
	n, err := r.Stop()
	return float64(n), err
}
