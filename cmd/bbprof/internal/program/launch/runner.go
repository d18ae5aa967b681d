package launch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/ptracethread"
)

// Options of a Runner. The zero value means the defaults; Stderr is that of WarmUp.
type Options struct {
	Control
	AnyStatus bool
	Kernel    pmu.Kernel
	Journal   *journal.Journal // asked before a program runs; nil: none
	// CPUID tells whether times come from a CPU; nil is the CPU's.
	CPUID host.CPUID
}

// Runner runs programs, each in a new process on the same CPU.
type Runner struct {
	opts     Options
	counter  *Event // what hardware counts; nil: cycles come from time
	left     *atomic.Int32
	contents *sync.Map // hashes of programs by path and time
}

// Counting returns the runner with an event to count instead of cycles, alone so that it never shares a counter.
func (r *Runner) Counting(e Event) *Runner {
	counting := *r
	counting.counter = &e
	return &counting
}

// NewRunner starts a runner. A *verdict.HostError says that this machine cannot measure.
func NewRunner(opts Options) (*Runner, error) {
	if opts.CPUID == nil {
		opts.CPUID = host.AskCPUID
	}
	if err := host.CanTime(opts.CPUID); err != nil {
		return nil, err
	}
	if opts.Kernel == nil {
		opts.Kernel = pmu.Linux{}
	}
	r := &Runner{opts: opts, left: new(atomic.Int32), contents: new(sync.Map)}
	if pmu.CanCount(opts.Kernel, pmu.ProcessCycles) {
		r.counter = &Event{"core cycles in user mode, counted by the CPU", pmu.ProcessCycles}
	}
	var err error
	ptracethread.Run(func() {
		var cpu int
		cpu, err = pin(opts.CPUs)
		r.opts.CPUs = []int{cpu}
	})
	return r, err
}

// pin binds the calling thread and its children to the first of the CPUs, or by default to the last allowed of the
// fastest kind of core, since the first serve most interrupts.
func pin(cpus []int) (cpu int, err error) {
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

// Left returns how many runs ended with processes still running, which were then killed.
func (r *Runner) Left() int { return int(r.left.Load()) }

func (r *Runner) CPU() int { return r.opts.CPUs[0] }

func (r *Runner) Describe() string {
	if r.counter != nil {
		return r.counter.Name
	}
	return "CPU time in user mode and kernel, converted by the core's clock: a chain of dependent adds, one a cycle, timed before and after each run"
}

// Run runs a command once and returns core cycles, or the event of [Runner.Counting], from the program's entry, after exec and dynamic
// linking, or from exec or the malloc call that the set-up names, to its end. An *Error blames the program: it could not be started,
// crashed, failed or timed out.
func (r *Runner) Run(ctx context.Context, c Command, s Setup) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	key := r.key(c, s)
	if v, ok := r.opts.Journal.Take(key); ok {
		return v.(float64), nil
	}
	cycles, err := r.run(ctx, c, s, nil)
	if err == nil {
		err = r.opts.Journal.Keep(key, cycles)
	}
	return cycles, err
}

// key identifies a program by its content, since a linked one has another path in each start, and how it runs.
func (r *Runner) key(c Command, s Setup) string {
	if r.opts.Journal == nil {
		return ""
	}
	var event Event
	if r.counter != nil {
		event = *r.counter
	}
	return fmt.Sprintf("%s %d %s %q %v %+v %s", r.content(c.Exe.Path), len(c.Name), filepath.Base(c.Name), c.Args, c.CleanEnv, s, event.Name)
}

// content is Content, which it asks again when the file's time changes.
func (r *Runner) content(path string) string {
	now := version(path)
	known, ok := r.contents.Load(now)
	if !ok {
		known = Content(path)
		r.contents.Store(now, known)
	}
	return known.(string)
}

// Content identifies a program by a hash, since one that was built again may have the same path; one that cannot be read, by its time.
func Content(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return version(path)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func version(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	return fmt.Sprint(path, info.Size(), info.ModTime())
}

// WarmUp runs a command once without measuring it, to fill the page cache and show its complaints.
func (r *Runner) WarmUp(ctx context.Context, c Command, s Setup) error {
	_, err := r.run(ctx, c, s, r.opts.Stderr)
	return err
}

func (r *Runner) run(ctx context.Context, c Command, s Setup, stderr io.Writer) (cycles float64, err error) {
	if err := s.Check(); err != nil {
		return 0, err
	}
	var end debuggee.End
	o := r.opts.Control
	o.Stderr = stderr
	err = c.Control(ctx, s, o, func(p *debuggee.Process) (err error) {
		cycles, end, err = r.measure(c, s, p)
		return err
	})
	if end.Left {
		r.left.Add(1)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return 0, c.endless(o.Timeout)
	case err != nil:
		return 0, err
	}
	return cycles, r.endError(c.Name, end)
}

func (c Command) endless(timeout time.Duration) error {
	return Errorf(c.Name, "give it longer with -timeout, or less to do", "it did not end within %v and was killed", cmp.Or(timeout, time.Minute))
}

// measure runs a program that has not executed anything to its end.
func (r *Runner) measure(c Command, s Setup, p *debuggee.Process) (cycles float64, end debuggee.End, err error) {
	if !s.FromExec {
		if early, err := toEntry(p); err != nil || early != nil {
			if early != nil {
				end = *early
			}
			return 0, end, err
		}
	}
	if s.Request.Number > 0 {
		if err := c.toRequest(p, s.Request); err != nil {
			return 0, end, err
		}
	}
	var counting *pmu.Process
	if r.counter != nil { // of the program and all that it starts
		if counting, err = pmu.OpenProcess(r.opts.Kernel, r.counter.attr, p.ID()); err != nil {
			return 0, end, err
		}
		defer counting.Close()
		if err := counting.Start(); err != nil {
			return 0, end, err
		}
	}
	before := hertz()
	start, err := p.CPUTime()
	if err == nil {
		err = p.Detach()
	}
	if err != nil {
		return 0, end, err
	}
	end, total, err := p.Wait()
	if err != nil {
		return 0, end, err
	}
	if counting != nil {
		n, err := counting.Stop()
		return float64(n), end, err
	}
	return (total - start).Seconds() * (before + hertz()) / 2, end, nil
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

func (r *Runner) endError(name string, end debuggee.End) error {
	switch {
	case end.Signal != 0:
		return Errorf(name, "run it by itself first", "it crashed: signal %d, %v", int(end.Signal), end.Signal)
	case end.Status != 0 && !r.opts.AnyStatus:
		return Errorf(name, "-any-status takes it as it is", "it failed with exit status %d", end.Status)
	}
	return nil
}
