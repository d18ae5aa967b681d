package profiler

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// ClockChoice is which clock to time with.
type ClockChoice string

const (
	AutoClock ClockChoice = "auto" // counted core cycles where the kernel offers them, else the TSC
	PerfClock ClockChoice = "perf" // hardware counters, read with rdpmc
	TSCClock  ClockChoice = "tsc"  // the time-stamp counter, calibrated against chains
)

// Clocks lists what there is, the default first.
func Clocks() []ClockChoice { return []ClockChoice{AutoClock, PerfClock, TSCClock} }

// chooseClock asks the kernel what it counts, and chooses clock and passes. The thread is
// bound to the CPU to measure on.
func (s *session) chooseClock() (err error) {
	if s.kernel = s.opts.kernel; s.kernel == nil {
		s.kernel = pmu.Linux{}
	}
	cpu := pmu.CPU{ID: s.cpu.ID, Number: s.onCPU}
	if s.opts.cpu != nil {
		cpu = *s.opts.cpu
	}
	if s.pmu, err = pmu.Probe(s.kernel, cpu); err != nil {
		return err
	}
	if s.asked, err = s.named(s.opts.Events); err != nil {
		return err
	}
	if s.opts.Clock == TSCClock {
		return nil
	}
	if missing := s.noPerf(); missing != nil {
		if s.opts.Clock == PerfClock {
			return missing
		}
		return nil
	}
	return s.planPasses()
}

// named finds events that can be counted by what users call them.
func (s *session) named(names []string) (events []pmu.Event, err error) {
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
			return nil, &verdict.HostError{Missing: fmt.Sprintf("the event %s cannot be counted: %s", e.Name, e.Why), Remedy: cmp.Or(e.Remedy, "leave it out of -events")}
		}
	}
	return events, nil
}

// EventError is about an event that a user named and nobody knows.
type EventError struct{ Err error }

func (e *EventError) Error() string { return e.Err.Error() }

func (e *EventError) Unwrap() error { return e.Err }

// noPerf says what the perf clock lacks, if anything.
func (s *session) noPerf() error {
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

// planPasses groups the events and places them in the child.
func (s *session) planPasses() error {
	groups := pmu.Passes(s.kernel, s.pmu.Event(pmu.Cycles), append(s.pmu.Events[:len(s.pmu.Events):len(s.pmu.Events)], s.asked...), layout.MaxCounted)
	read, page := harness.CounterRead((*asm.Emitter).Rdpmc), layout.CounterPage
	if s.opts.simulated != nil { // at the log's end, which a short block's trace does not reach
		read, page = (*asm.Emitter).Rdtsc, func(i int) uint64 { return layout.Log + layout.LogSize - uint64(i+1)*layout.PageSize }
	}
	next := 0
	for _, g := range groups {
		p := pass{events: g, clock: clock.Perf{Width: s.pmu.Width}}
		p.clock.Read = read
		for range g {
			p.clock.Pages = append(p.clock.Pages, page(next))
			next++
		}
		s.passes = append(s.passes, p)
	}
	if next > layout.MaxCounters {
		return &EventError{fmt.Errorf("with so many more events the child has to map %d of them, and there is room for %d", next, layout.MaxCounters)}
	}
	return nil
}

// start starts a child, which opens the events of all passes.
func (s *session) start() (err error) {
	if s.opts.simulated != nil {
		return s.startSimulated()
	}
	var counters []tracee.Counter
	for _, p := range s.passes {
		leader := -1
		for _, a := range p.events.Attrs() {
			counters = append(counters, tracee.Counter{Attr: a.Bytes(), Leader: leader})
			if leader < 0 {
				leader = len(counters) - 1
			}
		}
	}
	s.child, err = tracee.Launch(s.inits[0].FSBase, s.inits[0].GSBase, counters...)
	if refused := (*tracee.CounterError)(nil); errors.As(err, &refused) {
		return &verdict.HostError{Missing: "the child may not count what the monitor may", Remedy: "use -clock tsc", Err: err}
	}
	if err != nil {
		return err
	}
	next := 0
	for i := range s.passes {
		s.passes[i].leader = s.child.Counters()[next]
		next += len(s.passes[i].events)
	}
	return nil
}

// startSimulated starts a child whose events are a scripted kernel's: the pages that say
// which counter they are on stand in the log.
func (s *session) startSimulated() (err error) {
	if s.child, err = tracee.Launch(s.inits[0].FSBase, s.inits[0].GSBase); err != nil {
		return err
	}
	for i := range s.passes {
		p := &s.passes[i]
		fds, err := pmu.OpenGroup(s.kernel, p.events.Attrs(), s.child.PID())
		if err != nil {
			return err
		}
		p.leader = fds[0]
		for k, fd := range fds {
			page, err := s.kernel.Map(fd)
			if err != nil {
				return err
			}
			copy(s.child.Log()[p.clock.Pages[k]-layout.Log:], page)
			if err := s.kernel.Unmap(page); err != nil {
				return err
			}
		}
	}
	return nil
}

// fallBack turns to the TSC where counters were promised and do not keep it, if the user left
// the choice to us.
func (s *session) fallBack(err error) error {
	var host *verdict.HostError
	if s.opts.Clock == PerfClock || !s.counts() || !errors.As(err, &host) {
		return err
	}
	s.discard()
	s.passes, s.clock, s.note = nil, nil, fmt.Sprintf("timed by the TSC, for the hardware counters failed: %v", err)
	return s.launch()
}
