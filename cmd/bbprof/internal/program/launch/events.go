package launch

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/profiler"
)

type Event struct {
	Name string
	attr pmu.Attr
}

const allEvents = "all"

// Events finds events by name. AllEvents omits those that cannot be counted; without hardware counters only software
// events remain, and note says why. A named event that cannot be counted is a *verdict.HostError, an unknown one a
// *profiler.EventError.
func (r *Runner) Events(names []string) (events []Event, note string, err error) {
	ptracethread.Run(func() {
		if _, err = pin(r.opts.CPUs); err == nil { // cores of a hybrid CPU have different counters
			events, note, err = r.events(names)
		}
	})
	return events, note, err
}

func (r *Runner) events(names []string) (events []Event, note string, err error) {
	k := r.opts.Kernel
	p, err := pmu.Probe(k, pmu.CPU{ID: host.Detect(r.CPU()).ID, Number: r.CPU()})
	if err != nil {
		return nil, "", err
	}
	if slices.Contains(names, allEvents) {
		all, err := p.All(k)
		if err != nil {
			return nil, "", err
		}
		if !p.Available {
			all, note = p.Software(), fmt.Sprintf("no CPU event can be counted (%s), so these are the kernel's: they say "+
				"nothing about caches or aliasing, but -trace does", p.Reason)
		}
		for _, name := range all {
			if found, err := p.Named(k, name); err == nil && pmu.CanCount(k, inherited(found.Attr)) {
				events = append(events, Event{name, inherited(found.Attr)})
			}
		}
	}
	for _, name := range names {
		if name == allEvents {
			continue
		}
		found, err := p.Named(k, name)
		if err != nil {
			return nil, "", &profiler.EventError{Err: err}
		}
		counter, err := pmu.OpenProcess(k, inherited(found.Attr), 0)
		if err != nil {
			return nil, "", fmt.Errorf("event %q: %w", name, err)
		}
		counter.Close()
		events = append(events, Event{name, inherited(found.Attr)})
	}
	return events, note, nil
}

func inherited(a pmu.Attr) pmu.Attr {
	a.Inherit = true
	return a
}
