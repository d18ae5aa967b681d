package profiler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// CounterReport is what one event counted.
type CounterReport struct {
	Role  pmu.Role `json:"role"`
	Event string   `json:"event,omitempty"`
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

const (
	byRDPMC = "rdpmc"
	byRead  = "read"
)

const (
	// What the monitor reads has the child's stops in it, some µs of cold caches. Each reading is
	// of so many runs of an image, and there are so many readings of each, of which the median
	// counts.
	readRuns  = 256
	readTimes = 8
	// More of an event than this in a run is the block's doing, less than the other is not.
	readSome = 0.5
	readNone = 0.01
)

// countByRead counts what rdpmc does not: with the TSC as clock all events, otherwise those that the
// kernel counts. The monitor turns a group on, has the child run an image many times, and reads.
func (r *run) countByRead() error {
	var events []pmu.Event
	for _, e := range slices.Concat(r.pmu.Events, r.asked) {
		if e.Available && e.Role != pmu.Cycles && (e.Software() || !r.counts()) {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if r.tallies == nil {
		r.tallies = map[string]*tally{}
	}
	for _, g := range r.readGroups(events) {
		if err := r.readGroup(g); err != nil {
			return err
		}
	}
	return nil
}

// readGroups puts software's events, which need no counter, by themselves.
func (r *run) readGroups(events []pmu.Event) (groups []pmu.Pass) {
	if r.pmu.Available {
		for _, g := range pmu.Passes(r.kernel, r.pmu.Event(pmu.Cycles), events, math.MaxInt) {
			if len(g) > 1 {
				groups = append(groups, g)
			}
		}
	}
	var software pmu.Pass
	for _, e := range events {
		if e.Software() {
			software = append(software, e)
		}
	}
	if len(software) > 0 {
		groups = append(groups, software)
	}
	return groups
}

// readGroup counts one group and adds to the tallies.
func (r *run) readGroup(g pmu.Pass) error {
	fds, err := pmu.OpenGroup(r.kernel, g.Attrs(), r.child.PID())
	if err != nil {
		return fmt.Errorf("opening events for the child: %w", err)
	}
	defer pmu.CloseAll(r.kernel, fds)
	columns := make([][2][]float64, len(g))
	for range readTimes {
		for k, image := range []uint64{r.short.At, r.long.At} {
			c, err := r.readOnce(fds[0], len(g), image)
			if err != nil {
				return err
			}
			for i, n := range c.Values {
				columns[i][k] = append(columns[i][k], float64(n)/readRuns)
			}
		}
	}
	for i, e := range g {
		if e.Role == pmu.Cycles {
			continue
		}
		short, long := stat.Median(columns[i][0]), stat.Median(columns[i][1])
		r.tallies[key(e)] = &tally{
			event: e, reader: byRead, quiet: long-short < readNone && long < readSome,
			perIter: []float64{unroll.Throughput(short, long, r.factors)},
		}
		if reason := violates[e.Role]; reason != "" && e.Exact && long-short >= readSome {
			return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(
				"%s counted %.3g in a run of %d copies and %.3g in one of %d", e.Name, short, r.factors.Short, long, r.factors.Long)}
		}
	}
	return nil
}

// readOnce counts the runs of an image that is mapped and warm. The counts start from where
// they were, so two reads are subtracted.
func (r *run) readOnce(leader, events int, image uint64) (c pmu.Counts, err error) {
	r.plan.Refill(r.child)
	for _, step := range []struct {
		ops   []tracee.Op
		count bool
	}{
		{append(r.mapping.Remap(), tracee.Run(r.fresh, 1), tracee.Run(image, warmRuns)), false},
		{[]tracee.Op{tracee.Run(image, readRuns)}, true},
	} {
		if step.count {
			if err := r.kernel.Control(leader, pmu.Reset); err != nil {
				return c, fmt.Errorf("resetting events: %w", err)
			}
			if err := r.kernel.Control(leader, pmu.Enable); err != nil {
				return c, fmt.Errorf("enabling events: %w", err)
			}
		}
		stop, err := r.child.Do(step.ops, readLimit)
		if err != nil {
			return c, err
		}
		if r := mapper.Closed(stop); r != nil {
			return c, r
		}
		if !stop.Done {
			return c, fmt.Errorf("signal %d, code %d at %#x in a block that ran before", stop.Signal, stop.Code, stop.Regs.RIP)
		}
	}
	if err := r.kernel.Control(leader, pmu.Disable); err != nil {
		return c, fmt.Errorf("disabling events: %w", err)
	}
	return pmu.ReadGroup(r.kernel, leader, events)
}

const readLimit = 5 * time.Second

// reportCounters puts what was counted into the result, and what was not as unchecked.
func (r *run) reportCounters() {
	r.result.Core = string(r.pmu.Core)
	for _, e := range slices.Concat(r.pmu.Events[1:], r.asked) {
		report := CounterReport{Role: e.Role, Event: e.Name, Kind: invariants.Unchecked, Exact: e.Exact, Why: e.Why}
		if t := r.tallyOf(e); t != nil {
			per := stat.Median(t.perIter)
			report.Kind, report.PerIteration, report.Reader = invariants.Counted, &per, t.reader
		} else if report.Why == "" {
			report.Why = "it was not counted"
		}
		r.result.Counters = append(r.result.Counters, report)
	}
}

// tallyOf is what an event, or the one that counts it too, has counted; nil if nothing.
func (r *run) tallyOf(e pmu.Event) *tally {
	if e.Shares != "" {
		e = r.pmu.Event(e.Shares)
	}
	return r.tallies[key(e)]
}

// key names an event's tally.
func key(e pmu.Event) string { return string(e.Role) + " " + e.Name }

// roles are what has to be counted before an invariant is.
var roles = map[verdict.Reason][]pmu.Role{
	verdict.L1DMiss:    {pmu.L1DReadMiss, pmu.L1DWriteMiss},
	verdict.L1IMiss:    {pmu.L1IMiss},
	verdict.Misaligned: {pmu.SplitLoad, pmu.SplitStore},
	verdict.Alias4K:    {pmu.AddressAlias},
}

// countedEvidence makes evidence counted where counters said zero of all that would violate it.
// Otherwise it stays what it was, and says which of them are missing.
func (r *run) countedEvidence(evidence []invariants.Evidence) []invariants.Evidence {
	if !r.pmu.Available { // then nothing is known besides
		return evidence
	}
	out := slices.Clone(evidence)
	for i := range out {
		e := &out[i]
		var zero, open []string
		for _, role := range roles[e.Invariant] {
			event := r.pmu.Event(role)
			switch t := r.tallyOf(event); {
			case t == nil:
				open = append(open, fmt.Sprintf("%s unchecked: %s", role, event.Why))
			case t.quiet:
				zero = append(zero, event.Name)
			default:
				open = append(open, fmt.Sprintf("%s is %.3g per iteration", event.Name, stat.Median(t.perIter)))
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
