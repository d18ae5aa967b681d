package timing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// Tally holds the counts of one event.
type Tally struct {
	Reader  string    // rdpmc or read
	PerIter []float64 // per iteration, by window
	Zero    bool      // none in as many timings of each image as must agree
}

type Tallies map[string]*Tally

func key(e pmu.Event) string { return string(e.Role) + " " + e.Name }

func (t Tallies) Of(e pmu.Event) *Tally { return t[key(e)] }

func (t Tallies) add(events pmu.Pass, p Pair, both [2]Readings, identical int) {
	for k, e := range events {
		if k == 0 {
			continue
		}
		tally := t.Of(e)
		if tally == nil {
			tally = &Tally{Reader: "rdpmc", Zero: true}
			t[key(e)] = tally
		}
		var middle [2]float64
		for image := range both {
			column := both[image].Counts[k]
			middle[image] = stat.Median(toFloats(column))
			zero := 0
			for _, n := range column {
				if n == 0 {
					zero++
				}
			}
			tally.Zero = tally.Zero && zero >= identical
		}
		tally.PerIter = append(tally.PerIter, p.PerIteration(middle[0], middle[1]))
	}
}

// The monitor's readings include the child's stops, some µs of cold caches. So each covers readRuns runs of an image,
// and the median of readTimes readings counts.
const (
	readRuns  = 256
	readTimes = 8
	readSome  = 0.5  // more events per run are the block's
	readNone  = 0.01 // fewer are none
	readLimit = 5 * time.Second
)

// Reader counts events by reading them from the kernel before and after many runs: those that rdpmc
// cannot read, or all if the TSC is the clock.
type Reader struct {
	Kernel     pmu.Kernel
	PMU        pmu.PMU
	Child      *tracee.Tracee
	ResetImage uint64 // as Timer has it
	Script     *Script
	// Must is set for a stimulus alone: the count of an event per iteration. Nothing rejects such a block.
	Must func(pmu.Event) float64
}

// Count runs a block's image pair many times with each group of events and adds the counts to tallies. It drops
// groups that lost their counters to another user. Counted misses reject the block unless the plan tolerates them.
func (r Reader) Count(b Block, pair Pair, p Plan, events []pmu.Event, tallies Tallies) error {
	for _, g := range r.groups(events) {
		err := r.countGroup(b, pair, p, g, tallies)
		if _, lost := errors.AsType[*pmu.NotRunningError](err); err != nil && !lost {
			return err
		}
	}
	return nil
}

// groups puts software events, which need no counter, into a group of their own.
func (r Reader) groups(events []pmu.Event) (groups []pmu.Pass) {
	if r.PMU.Available {
		for _, g := range pmu.Passes(r.Kernel, r.PMU.Event(pmu.Cycles), events, math.MaxInt) {
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

func (r Reader) countGroup(b Block, pair Pair, p Plan, g pmu.Pass, tallies Tallies) error {
	fds, err := pmu.OpenGroup(r.Kernel, g.Attrs(), r.Child.PID())
	if err != nil {
		return fmt.Errorf("opening events for the child: %w", err)
	}
	defer pmu.CloseAll(r.Kernel, fds)
	columns := make([][2][]float64, len(g))
	for range readTimes {
		for k, image := range []Image{pair.Short, pair.Long} {
			b.Refill()
			c, err := r.read(fds[0], len(g), image.Entry, p)
			if err != nil {
				return err
			}
			for i, n := range c.Values {
				if r.Must != nil && r.Script != nil {
					n = uint64(math.Round(r.Script.countOf(g[i], r.Must(g[i])) * float64(image.Iterations) * readRuns))
				}
				columns[i][k] = append(columns[i][k], float64(n)/readRuns)
			}
		}
	}
	for i, e := range g {
		if e.Role == pmu.Cycles {
			continue
		}
		short, long := stat.Median(columns[i][0]), stat.Median(columns[i][1])
		tallies[key(e)] = &Tally{
			Reader: "read", Zero: long-short < readNone && long < readSome,
			PerIter: []float64{pair.PerIteration(short, long)},
		}
		if reason := p.brokenRule(e); r.Must == nil && reason != "" && long-short >= readSome {
			return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(
				"%s counted %.3g in a run of %d copies and %.3g in one of %d", e.Name, short, pair.Short.Iterations, long, pair.Long.Iterations)}
		}
	}
	return nil
}

// read maps and warms an image, then counts over its runs.
func (r Reader) read(leader, events int, entry uint64, p Plan) (c pmu.Counts, err error) {
	do := func(ops ...tracee.Op) error { return r.Child.Complete(ops, readLimit, "counting events") }
	if err := do(append(slices.Clone(p.Remap), tracee.Run(r.ResetImage, 1), tracee.Run(entry, warmShort))...); err != nil {
		return c, err
	}
	return pmu.Count(r.Kernel, leader, events, func() error { return do(tracee.Run(entry, readRuns)) })
}
