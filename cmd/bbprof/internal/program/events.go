package program

import (
	"context"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/pmu"
)

type Event struct {
	Name string
	attr pmu.Attr
}

const AllEvents = "all"

type UnknownEventError struct{ Err error }

func (e *UnknownEventError) Error() string { return e.Err.Error() }

func (e *UnknownEventError) Unwrap() error { return e.Err }

// Events finds events by name. AllEvents omits those that cannot be counted; without hardware counters only software
// events remain, and note says why. A named event that cannot be counted is a *verdict.HostError.
func (r *Runner) Events(ctx context.Context, names []string) (events []Event, note string, err error) {
	if doErr := r.thread.Do(ctx, func() { events, note, err = r.events(names) }); doErr != nil {
		return nil, "", doErr
	}
	return events, note, err
}

func (r *Runner) events(names []string) (events []Event, note string, err error) {
	k := r.opts.Kernel
	p, err := pmu.Probe(k, pmu.CPU{ID: host.Detect(r.cpu).ID, Number: r.cpu})
	if err != nil {
		return nil, "", err
	}
	if slices.Contains(names, AllEvents) {
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
		if name == AllEvents {
			continue
		}
		found, err := p.Named(k, name)
		if err != nil {
			return nil, "", &UnknownEventError{err}
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
