package profiler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// CounterReport is what one event counted.
type CounterReport struct {
	Role  string `json:"role"` // what it tells of, such as "l1d_read_miss"; "asked" for an event of Options.Events
	Event string `json:"event,omitempty"`
	// Kind is invariants.Counted or invariants.Unchecked; Why says why it was not counted.
	Kind invariants.Kind `json:"kind"`
	Why  string          `json:"why,omitempty"`
	// PerIteration is how many there are to one iteration of the block; nil if that was not
	// counted, which is not zero.
	PerIteration *float64 `json:"per_iteration,omitempty"`
	// Exact says that the event counts nothing but what the role names.
	Exact bool `json:"exact"`
	// Reader is rdpmc in the child, or read by the monitor around many runs.
	Reader string `json:"reader,omitempty"`
}

// readEvents adds to tallies what only the kernel can read: with the TSC as clock all events,
// otherwise those of software. The images stand where they were timed last.
func (s *session) readEvents(j job, m *mapper.Mapped, tallies timing.Tallies) (timing.Tallies, error) {
	var events []pmu.Event
	for _, e := range slices.Concat(s.pmu.Events, s.asked) {
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
	reader := timing.Reader{Kernel: s.kernel, PMU: s.pmu, Child: s.child, Fresh: s.timer.Fresh()}
	err := reader.Count(timedBlock{m}, timedBlock{m}.pair(m.Short, m.Long, m.Factors), j.plan(m), events, tallies)
	return tallies, mapper.Unexpected(err)
}

// reportCounters tells what was counted, and what was not as unchecked.
func (s *session) reportCounters(tallies timing.Tallies) (reports []CounterReport) {
	for _, e := range slices.Concat(s.pmu.Events[1:], s.asked) {
		report := CounterReport{Role: string(e.Role), Event: e.Name, Kind: invariants.Unchecked, Exact: e.Exact, Why: e.Why}
		if t := s.tallyOf(tallies, e); t != nil {
			per := stat.Median(t.PerIter)
			report.Kind, report.PerIteration, report.Reader = invariants.Counted, &per, t.Reader
		} else if report.Why == "" {
			report.Why = "it was not counted"
		}
		reports = append(reports, report)
	}
	return reports
}

// tallyOf is what an event, or the one that counts it too, has counted; nil if nothing.
func (s *session) tallyOf(tallies timing.Tallies, e pmu.Event) *timing.Tally {
	if e.Shares != "" {
		e = s.pmu.Event(e.Shares)
	}
	return tallies.Of(e)
}

// roles are what has to be counted before an invariant is.
var roles = map[verdict.Reason][]pmu.Role{
	verdict.L1DMiss:    {pmu.L1DReadMiss, pmu.L1DWriteMiss},
	verdict.L1IMiss:    {pmu.L1IMiss},
	verdict.Misaligned: {pmu.SplitLoad, pmu.SplitStore},
	verdict.Alias4K:    {pmu.AddressAlias},
}

// countedEvidence makes evidence counted where counters said zero of all that would violate it.
// Otherwise it is unchanged, and says which of them are missing.
func (s *session) countedEvidence(evidence []invariants.Evidence, tallies timing.Tallies) []invariants.Evidence {
	if !s.pmu.Available { // then nothing is known besides
		return evidence
	}
	out := slices.Clone(evidence)
	for i := range out {
		e := &out[i]
		var zero, open []string
		for _, role := range roles[e.Invariant] {
			event := s.pmu.Event(role)
			switch t := s.tallyOf(tallies, event); {
			case t == nil:
				open = append(open, fmt.Sprintf("%s unchecked: %s", role, event.Why))
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
