package profiler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/verdict"
)

// CounterReport holds the counts of one event.
type CounterReport struct {
	Role  string `json:"role"` // what it indicates, such as "l1d_read_miss"; "asked" for an event of Options.Events
	Event string `json:"event,omitempty"`
	// Kind is invariants.Counted or invariants.Unchecked. Why explains why the event was not counted or its count
	// is not trusted.
	Kind invariants.Kind `json:"kind"`
	Why  string          `json:"why,omitempty"`
	// Checks holds the counts over blocks with known counts when the Profiler started; with Options.Detail.
	Checks []CounterCheck `json:"checks,omitempty"`
	// PerIteration is the number per iteration of the block; nil if it was not counted, which
	// is not zero.
	PerIteration *float64 `json:"per_iteration,omitempty"`
	// Exact reports that the event counts nothing but its role.
	Exact bool `json:"exact"`
	// Reader is rdpmc in the child, or read if the monitor read the counter before and after many runs.
	Reader string `json:"reader,omitempty"`
}

// countersTaken explains why an available event was not counted.
const countersTaken = "somebody else had the counters"

// readEvents adds the events that only the kernel can read to tallies: all events with the TSC as
// clock, otherwise software events. It uses the images that were timed last.
func (s *session) readEvents(j job, m *mapping.MappedBlock, tallies timing.Tallies) (timing.Tallies, error) {
	var events []pmu.Event
	for _, e := range slices.Concat(s.pmu.Events, s.userEvents) {
		if e.Available && e.Role != pmu.Cycles && (e.Software() || s.counters() == nil) {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return tallies, nil
	}
	if tallies == nil {
		tallies = timing.Tallies{}
	}
	err := s.reader().Count(timedBlock{m}, timedBlock{m}.pair(m.Short, m.Long, m.Factors), j.plan(m), events, tallies)
	return tallies, mapping.Unexpected(err)
}

func (s *session) reader() timing.Reader {
	return timing.Reader{Kernel: s.kernel, PMU: s.pmu, Child: s.child, ResetImage: s.timer.ResetImage(), Script: s.machine.Script}
}

// verify counts all events of the CPU over stimuli. It disables events of roles that count wrongly; events that the
// user asked for stay enabled, as unchecked.
func (s *session) verify(ctx context.Context) error {
	var events []*pmu.Event
	for _, list := range [][]pmu.Event{s.pmu.Events, s.userEvents} {
		for i := range list {
			if e := &list[i]; e.Available && e.Role != pmu.Cycles && e.Shares == "" && !e.Software() {
				events = append(events, e)
			}
		}
	}
	if len(events) == 0 {
		return nil
	}
	s.checks = map[string][]CounterCheck{}
	for _, x := range stimuli(s.cpu) {
		tallies, err := s.countStimulus(x, events)
		rejection, rejected := errors.AsType[*verdict.Rejection](err)
		if err != nil && !rejected {
			return fmt.Errorf("checking the counters by %s: %w", x.name, err)
		}
		for _, e := range events {
			must, known := x.counts(*e, s.pmu.Events)
			if applies := must > 0 || len(x.expected) == 0; !known || !applies {
				continue
			}
			c := CounterCheck{Block: x.name, Must: must}
			if t := tallies.Of(*e); rejected {
				c.Failed = rejection.Error()
			} else if t == nil || len(t.PerIter) == 0 {
				c.Failed = "nothing counted it for context switches, or somebody else had the counters"
			} else {
				c.Counted = stat.Median(t.PerIter)
			}
			s.checks[e.Name] = append(s.checks[e.Name], c)
		}
	}
	return s.applyChecks(ctx, events)
}

// countStimulus counts events over a stimulus.
func (s *session) countStimulus(x stimulus, events []*pmu.Event) (timing.Tallies, error) {
	j, insts, err := x.block(s)
	if err != nil {
		return nil, err
	}
	m, err := s.prepare(j, insts, *x.setup.Unroll)
	if err != nil {
		return nil, err
	}
	must := func(e pmu.Event) float64 {
		n, _ := x.counts(e, s.pmu.Events)
		return n
	}
	if c := s.counters(); c != nil {
		return c.Tally(timedBlock{m}, j.plan(m), must)
	}
	reader, tallies := s.reader(), timing.Tallies{}
	reader.Must = must
	var counted []pmu.Event
	for _, e := range events {
		counted = append(counted, *e)
	}
	return tallies, reader.Count(timedBlock{m}, timedBlock{m}.pair(m.Short, m.Long, m.Factors), j.plan(m), counted, tallies)
}

// applyChecks disables events that failed their checks. A child opens its events when it starts, so fewer events require a new child.
func (s *session) applyChecks(ctx context.Context, events []*pmu.Event) error {
	fewer := false
	for _, e := range events {
		checks := s.checks[e.Name]
		why := doubt(*e, checks)
		if len(checks) == 0 {
			why = "no block is known that tells what it must count"
		}
		switch {
		case why != "" && e.Role == pmu.Asked:
			e.Doubt = why
		case why != "":
			e.Available, e.Why, fewer = false, why, true
		}
	}
	for i, e := range s.pmu.Events {
		if e.Shares != "" {
			other := s.pmu.Event(e.Shares)
			s.pmu.Events[i].Available, s.pmu.Events[i].Why = other.Available, other.Why
		}
	}
	if !fewer || s.counters() == nil {
		return nil
	}
	s.discard()
	var err error
	if s.timer, err = s.newCounters(); err != nil {
		return err
	}
	return s.launch(ctx)
}

// reportCounters reports all events, those without a count as unchecked.
func (s *session) reportCounters(tallies timing.Tallies) (reports []CounterReport) {
	for _, e := range slices.Concat(s.pmu.Events[1:], s.userEvents) {
		report := CounterReport{Role: string(e.Role), Event: e.Name, Kind: invariants.Unchecked, Exact: e.Exact, Why: e.Why}
		if t := s.tallyOf(tallies, e); t != nil {
			per := stat.Median(t.PerIter)
			report.PerIteration, report.Reader = &per, t.Reader
			if report.Why = e.Doubt; e.Doubt == "" {
				report.Kind = invariants.Counted
			}
		} else if report.Why == "" {
			report.Why = countersTaken
		}
		if s.opts.Detail {
			report.Checks = s.checks[e.Name]
		}
		reports = append(reports, report)
	}
	return reports
}

// tallyOf returns the counts of an event, or of the event that counts it too; nil if there are none.
func (s *session) tallyOf(tallies timing.Tallies, e pmu.Event) *timing.Tally {
	if e.Shares != "" {
		e = s.pmu.Event(e.Shares)
	}
	return tallies.Of(e)
}

// requiredRoles lists the events that must be zero before an invariant is counted evidence.
var requiredRoles = map[verdict.Reason][]pmu.Role{
	verdict.L1DMiss:    {pmu.L1DReadMiss, pmu.L1DWriteMiss},
	verdict.L1IMiss:    {pmu.L1IMiss},
	verdict.Misaligned: {pmu.SplitLoad, pmu.SplitStore},
	verdict.Alias4K:    {pmu.AddressAlias},
}

// countedEvidence upgrades evidence to counted if the counters of all its violations are zero.
// Otherwise it only adds which of them are missing.
func (s *session) countedEvidence(evidence []invariants.Evidence, tallies timing.Tallies) []invariants.Evidence {
	if !s.pmu.Available {
		return evidence
	}
	out := slices.Clone(evidence)
	for i := range out {
		e := &out[i]
		var zero, open []string
		for _, role := range requiredRoles[e.Invariant] {
			event := s.pmu.Event(role)
			switch t := s.tallyOf(tallies, event); {
			case t == nil:
				open = append(open, fmt.Sprintf("%s unchecked: %s", role, cmp.Or(event.Why, countersTaken)))
			case t.Zero:
				zero = append(zero, event.Name)
			default:
				open = append(open, fmt.Sprintf("%s is %.3g per iteration", event.Name, stat.Median(t.PerIter)))
			}
		}
		if len(zero) > 0 {
			e.Detail += "; counted: 0 of " + strings.Join(zero, ", ")
		}
		if len(open) > 0 {
			e.Detail += "; " + strings.Join(open, "; ")
		}
		if len(zero) > 0 && len(open) == 0 {
			e.Kind = invariants.Counted
		}
	}
	return out
}
