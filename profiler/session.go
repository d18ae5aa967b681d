package profiler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/simulated"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// session holds a child, its CPU and its timer. All of it belongs to one goroutine that is locked to its
// thread. ready launches a new child if a block needs one.
type session struct {
	opts    Options
	machine simulated.Machine // usually none
	cpu     host.CPU
	states  []initial.State // for blocks, in this order
	cpus    *cpus
	child   *tracee.Tracee
	spent   time.Duration // CPU time of earlier children
	window  uint64        // alias region that the child needs, see layout.WindowFor; 0: none
	timer   timing.Timer

	kernel       pmu.Kernel
	pmu          pmu.PMU                   // counters of the kernel
	userEvents   []pmu.Event               // events of Options.Events
	checks       map[string][]CounterCheck // by name of the event
	fallbackNote string                    // warning for every result

	launched func() // called after each launch; see killOnDone
}

func newSession(ctx context.Context, opts Options, machine simulated.Machine) (*session, error) {
	s := &session{opts: opts, machine: machine, cpu: host.Detect(opts.CPUs...), states: initial.States(), cpus: &cpus{list: opts.CPUs}}
	if opts.Init != "" {
		named, err := initial.Named(opts.Init)
		if err != nil {
			return nil, err
		}
		s.states = []initial.State{named}
	}
	if opts.NoRescue {
		s.states = s.states[:1]
	}
	if err := s.cpus.pin(); err != nil {
		return nil, err
	}
	if err := s.chooseTimer(); err != nil {
		return nil, err
	}
	if err := s.launchVerified(ctx); err != nil {
		if err = s.fallBack(ctx, err); err != nil {
			s.discard()
			return nil, err
		}
	}
	return s, nil
}

// cpus lists the CPUs in use; thread and child run on one of them. It implements timing.CPUs.
type cpus struct {
	list  []int
	index int
}

func (c *cpus) Current() int { return c.list[c.index] }

func (c *cpus) Next(child *tracee.Tracee) error {
	c.index = (c.index + 1) % len(c.list)
	if err := c.pin(); err != nil {
		return err
	}
	return child.Bind(c.Current())
}

// pin binds the thread to the current CPU; later children inherit that.
func (c *cpus) pin() error { return host.PinThread(c.Current()) }

func (s *session) timingConfig() timing.Config {
	return timing.Config{CPU: s.cpu, Init: s.states[0], CPUs: s.cpus, Record: s.machine.Record}
}

// chooseTimer probes the kernel's counters. The thread must be bound to the CPU to measure on.
func (s *session) chooseTimer() (err error) {
	if s.kernel = s.machine.Kernel; s.kernel == nil {
		s.kernel = pmu.Linux{}
	}
	cpu := pmu.CPU{ID: s.cpu.ID, Number: s.cpus.Current()}
	if s.machine.CPU != nil {
		cpu = *s.machine.CPU
	}
	if s.pmu, err = pmu.Probe(s.kernel, cpu); err != nil {
		return err
	}
	if s.userEvents, err = s.findEvents(s.opts.Events); err != nil {
		return err
	}
	missing := s.missingForPerf()
	switch {
	case s.opts.Clock == PerfClock && missing != nil:
		return missing
	case s.opts.Clock == TSCClock || missing != nil:
		s.timer = timing.NewTSC(s.timingConfig())
		return nil
	}
	s.timer, err = s.newCounters()
	return err
}

func (s *session) newCounters() (*timing.Counters, error) {
	counters, err := timing.NewCounters(s.timingConfig(), s.kernel, s.pmu, slices.Concat(s.pmu.Events, s.userEvents), s.machine.Script)
	if err != nil {
		return nil, &EventError{err}
	}
	return counters, nil
}

// counters returns the timer if it counts cycles; nil for the TSC.
func (s *session) counters() *timing.Counters {
	c, _ := s.timer.(*timing.Counters)
	return c
}

// findEvents finds countable events by their names for users.
func (s *session) findEvents(names []string) (events []pmu.Event, err error) {
	for _, name := range names {
		e, err := s.pmu.Named(s.kernel, name)
		if err != nil {
			return nil, &EventError{err}
		}
		events = append(events, e)
	}
	s.pmu.Try(s.kernel, events)
	for _, e := range events {
		if !e.Available {
			return nil, &verdict.HostError{Missing: fmt.Sprintf("the event %s cannot be counted: %s", e.Name, e.Why),
				Remedy: cmp.Or(e.Remedy, "leave it out of -events")}
		}
	}
	return events, nil
}

// missingForPerf explains why timing by counters is not possible, if so.
func (s *session) missingForPerf() error {
	switch p := s.pmu; {
	case !p.Available:
		return &verdict.HostError{Missing: p.Reason, Remedy: p.Remedy}
	case !p.UserRDPMC:
		return &verdict.HostError{
			Missing: "user mode may not read hardware counters",
			Remedy:  fmt.Sprintf("echo 1 | sudo tee /sys/bus/event_source/devices/%s/rdpmc", p.Device.Name),
		}
	}
	return nil
}

// launch launches a child and prepares its timer. Cancelling ctx ends a calibration of the clock.
func (s *session) launch(ctx context.Context) (err error) {
	var events []tracee.Counter
	if c := s.counters(); c != nil {
		events = c.Events()
	}
	s.child, err = tracee.Launch(s.window, s.states[0].FSBase, s.states[0].GSBase, events...)
	if _, refused := errors.AsType[*tracee.CounterError](err); refused {
		return &verdict.HostError{Missing: "the child may not count what the monitor may", Remedy: "use -clock tsc", Err: err}
	}
	if err != nil {
		return err
	}
	if s.launched != nil {
		s.launched()
	}
	mapping.Ready(s.child, s.states[0])
	return s.timer.Attach(ctx, s.child)
}

// killOnDone kills the child, and each that replaces it, when ctx is cancelled before a call of spare.
func (s *session) killOnDone(ctx context.Context) (spare func()) {
	var stops []func() bool
	s.launched = func() { stops = append(stops, context.AfterFunc(ctx, s.child.Kill)) }
	s.launched()
	return func() {
		s.launched = nil
		for _, stop := range stops {
			stop()
		}
	}
}

// fallBack changes to the TSC if counters are announced but do not work, and the user did not
// choose the clock.
func (s *session) fallBack(ctx context.Context, err error) error {
	if _, host := errors.AsType[*verdict.HostError](err); s.opts.Clock == PerfClock || s.counters() == nil || !host {
		return err
	}
	s.discard()
	s.timer, s.fallbackNote = timing.NewTSC(s.timingConfig()), fmt.Sprintf("timed by the TSC, for the hardware counters failed: %v", err)
	return s.launchVerified(ctx)
}

// launchVerified launches a child and checks the events that it counts.
func (s *session) launchVerified(ctx context.Context) error {
	if err := s.launch(ctx); err != nil {
		return err
	}
	return s.verify(ctx)
}

// ready ensures that there is a live child.
func (s *session) ready() error {
	if s.child != nil && s.child.Alive() && s.child.Window() == s.window {
		return nil
	}
	s.discard()
	if err := s.launch(context.Background()); err != nil { // no calibration to cancel
		return fmt.Errorf("starting a child: %w", err)
	}
	return nil
}

// arena returns a live child with room for images.
func (s *session) arena() (mapping.Arena, error) {
	if err := s.ready(); err != nil {
		return mapping.Arena{}, err
	}
	return mapping.Arena{Child: s.child, ResetImage: s.timer.ResetImage(), Images: s.timer.Images(), Clock: s.timer.Clock()}, nil
}

// discard ends the child; the next block gets a new one.
func (s *session) discard() {
	if s.child != nil {
		s.spent += s.child.CPUTime()
		s.child.Close()
		s.child = nil
	}
}

// mapLimit is the CPU time for all steps before a block is timed, in all initial states. Without it,
// hundreds of long runs, one for each page, could take minutes.
const mapLimit = time.Second

// startBudget returns a function that reports whether several runs of a block, and the work between them, have used up a limit of CPU time. It
// counts the CPU time of the thread and its children, so that a busy machine gets as many runs as an idle one.
func (s *session) startBudget(limit time.Duration) (exhausted func() bool) {
	began, from := time.Now(), s.cpuTime()
	return func() bool {
		return time.Since(began) > limit && s.cpuTime()-from > limit // CPU time is more expensive to read
	}
}

// cpuTime returns the CPU time of all children so far, and of the thread beside them.
func (s *session) cpuTime() time.Duration {
	if s.child == nil {
		return s.spent
	}
	return s.spent + s.child.CPUTime()
}
