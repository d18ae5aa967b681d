package profiler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Timing by hardware counters: time's other half. A look has the same windows as on the TSC, one for
// each number of turns, so that both clocks average over the same; but a window is the paper's
// 16 timings of either image, of which enough must be clean and identical, and there is a
// window for each pass, the group of events that the CPU counts at a time.

// pass is a group of events with the clock that reads it.
type pass struct {
	events      pmu.Pass
	clock       clock.Perf
	leader      int    // the monitor's descriptor
	open, close uint64 // entries of the code around the runs of an image
}

const (
	// A look's window has the paper's timings of an image behind these runs, which warm it up, and
	// one whose end is the first reading.
	countedWarm = 3
	countedRuns = countedWarm + 1 + invariants.PaperTimings // at most space.CountRuns
	// countedTries is how often an image gets to meet the paper's rule: what disturbed once
	// need not do so again. Timings that saw a context switch do not count as a try.
	countedTries = 4
	// nonsense is more than any counter counts in a run: the watchdog would end it before.
	nonsense = 1 << 40
)

// counts reports whether cycles are counted rather than calibrated.
func (s *session) counts() bool { return len(s.passes) > 0 }

// timings is what the counters said of the runs of one image.
type timings struct {
	counts   [][]uint64 // by event of the pass, then by run
	switches uint64     // context switches seen
	lost     uint64     // events that were not on one counter all the time
}

// timeCounted looks at the block until the interval is narrow enough.
func (r *run) timeCounted() error {
	r.result.RunsPerSample = 1
	deadline := time.Now().Add(r.opts.Budget)
	r.tallies = map[string]*tally{}
	for n := range slices.Max(checkedLooks) {
		if slices.Contains(checkedLooks, n) && r.narrow() {
			return nil
		}
		if n >= checkedLooks[0] && time.Now().After(deadline) {
			return nil
		}
		if err := r.lookCounted(n, deadline); err != nil {
			return err
		}
	}
	return nil
}

// lookCounted takes the windows of a look, pass by pass.
func (r *run) lookCounted(n int, deadline time.Time) error {
	defer r.read(0) // what is built next reads the first pass
	for i := range r.passes {
		r.read(i)
		r.plan.Refill(r.child)
		if err := r.build(r.images, uint64(n%layouts)*layoutStep); err != nil {
			return err
		}
		if err := r.enabled(i, func() error {
			for turns := range lookWindows {
				if err := r.countWindow(i, turns, deadline); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// read makes pass i what the code around images reads.
func (s *session) read(i int) { s.clock = s.passes[i].clock }

// enabled does something while the events of pass i count, and refuses it if they did not
// count all the time.
func (s *session) enabled(i int, do func() error) error {
	p := s.passes[i]
	if err := s.kernel.Control(p.leader, pmu.Reset); err != nil {
		return fmt.Errorf("resetting counters: %w", err)
	}
	if err := s.kernel.Control(p.leader, pmu.Enable); err != nil {
		return fmt.Errorf("enabling counters: %w", err)
	}
	err := do()
	if off := s.kernel.Control(p.leader, pmu.Disable); err == nil && off != nil {
		err = fmt.Errorf("disabling counters: %w", off)
	}
	if err != nil {
		return err
	}
	_, err = pmu.ReadGroup(s.kernel, p.leader, len(p.events))
	var notRunning *pmu.NotRunningError
	if errors.As(err, &notRunning) {
		return taken(err)
	}
	return err
}

// taken is what a host gets whose counters somebody else took in the middle.
func taken(err error) error {
	return &verdict.HostError{
		Missing: "the events lost their counters to another user of them",
		Remedy:  "end other profilers, sudo sysctl kernel.nmi_watchdog=0, or use -clock tsc", Err: err,
	}
}

// timedCopies is an image by its entry, and how many iterations of the block it is.
type timedCopies struct {
	entry      uint64
	iterations int
}

// countWindow takes the timings of both images with one number of turns.
func (r *run) countWindow(i, turns int, deadline time.Time) error {
	var agreed [2]invariants.Agreement
	var both [2]timings
	for k, image := range []timedCopies{{r.short.At, r.factors.Short}, {r.long.At, r.factors.Long}} {
		var err error
		if agreed[k], both[k], err = r.agree(i, image, turns, deadline); err != nil {
			return err
		}
	}
	r.tallyUp(i, both)
	if i == 0 {
		r.cycles = append(r.cycles, unroll.Throughput(float64(agreed[0].Cycles), float64(agreed[1].Cycles), r.factors))
	}
	return nil
}

// agree times an image until enough timings are clean and identical.
func (r *run) agree(i int, image timedCopies, turns int, deadline time.Time) (a invariants.Agreement, t timings, err error) {
	p := r.passes[i]
	for try := 0; ; {
		if t, err = r.count(p, image, turns); err != nil {
			return a, t, err
		}
		if t.lost > 0 && t.switches == 0 {
			err = taken(fmt.Errorf("%d of %d events", t.lost, len(p.events)))
		} else {
			var rejection *verdict.Rejection
			if a, rejection = invariants.Agree(p.timings(t), r.identical()); rejection == nil {
				r.result.SamplesKept += a.Identical
				r.result.SamplesDropped += invariants.PaperTimings - a.Identical
				return a, t, nil
			}
			err = rejection
		}
		r.result.SamplesDropped += invariants.PaperTimings
		if t.switches > 0 {
			r.result.WindowsSwitched++
		} else {
			try++
		}
		if try == countedTries || time.Now().After(deadline) {
			return a, t, err
		}
	}
}

// identical is how many timings have to be clean and identical.
func (r *run) identical() int {
	if r.opts.Identical > 0 {
		return r.opts.Identical
	}
	return invariants.PaperIdentical
}

// timings judges each run by the events that must not happen. Those that also count other
// things do not, nor do those that a user asked for.
func (p pass) timings(t timings) []invariants.Timing {
	all := make([]invariants.Timing, invariants.PaperTimings)
	for j := range all {
		all[j].Cycles = t.counts[0][j]
		if t.switches > 0 { // which of them saw it is not known
			all[j].Dirty = verdict.ContextSwitch
			continue
		}
		for k, e := range p.events {
			if reason := violates[e.Role]; e.Exact && reason != "" && t.counts[k][j] > 0 && all[j].Dirty == "" {
				all[j].Dirty = reason
			}
		}
	}
	return all
}

// violates is what an event means for the block when it happens. Loads held back by aliasing are
// not among them: what stands around the copies can cause some, and the trace knows better.
var violates = map[pmu.Role]verdict.Reason{
	pmu.L1DReadMiss: verdict.L1DMiss, pmu.L1DWriteMiss: verdict.L1DMiss, pmu.L1IMiss: verdict.L1IMiss,
	pmu.SplitLoad: verdict.Misaligned, pmu.SplitStore: verdict.Misaligned,
}

// count maps the block afresh and runs an image: once to warm up, with all its readings, so
// that their tables are in L1D too, and once for the timings.
func (r *run) count(p pass, image timedCopies, turns int) (timings, error) {
	setup := append(r.mapping.Remap(), tracee.Run(r.fresh, 1), tracee.Put(layout.SlotDispatch, uint64(turns)))
	t, err := r.countRuns(p, image.entry, setup)
	if s := r.opts.simulated; s != nil && err == nil {
		s.block(p.events, image.iterations, &t)
	}
	return t, err
}

// countRuns runs an image in the child between two readings of the kernel's pages.
func (s *session) countRuns(p pass, image uint64, setup []tracee.Op) (t timings, err error) {
	s.child.SetWord(layout.SlotLost, 0)
	stop, err := s.child.Do(append(setup,
		tracee.Run(image, countedRuns),
		tracee.UsageBefore(),
		tracee.Run(p.open, 0), tracee.Run(image, countedRuns), tracee.Run(p.close, 0),
		tracee.UsageAfter()), stayLimit)
	if err != nil {
		return t, err
	}
	if r := mapper.Closed(stop); r != nil {
		return t, r
	}
	if !stop.Done {
		return t, fmt.Errorf("counting stopped: signal %d, code %d, address %#x at %#x, step %d, errno %d", stop.Signal, stop.Code, stop.Addr, stop.Regs.RIP, stop.FailedOp, stop.Errno)
	}
	t.switches, t.lost = s.child.Switches(), s.child.Word(layout.SlotLost)
	for k := range p.events {
		reading := func(left int) uint64 {
			if k == 0 {
				return s.child.Word(layout.Times + 8*uint64(left))
			}
			return s.sampled(layout.CountTable(k) + 8*uint64(left))
		}
		var column []uint64
		for left := invariants.PaperTimings; left > 0; left-- {
			d := p.clock.Difference(reading(left+1), reading(left))
			if t.lost == 0 && t.switches == 0 && (d >= nonsense || k == 0 && d == 0) {
				return t, &verdict.HostError{
					Missing: fmt.Sprintf("the counter of %s reads nonsense: %d in one run", p.events[k].Name, d),
					Remedy:  "use -clock tsc",
				}
			}
			column = append(column, d)
		}
		t.counts = append(t.counts, column)
	}
	return t, nil
}

// sampled reads a word of the area that samples and counts are in.
func (s *session) sampled(addr uint64) uint64 {
	var w uint64
	for i, b := range s.child.Samples()[addr-layout.Samples:][:8] {
		w |= uint64(b) << (8 * i)
	}
	return w
}

// tally adds up what an event counted.
type tally struct {
	event   pmu.Event
	reader  string
	perIter []float64 // per iteration, of each window
	quiet   bool      // zero in as many timings of each image as have to agree
}

// tallyUp adds a window's counts to the tallies.
func (r *run) tallyUp(i int, both [2]timings) {
	for k, e := range r.passes[i].events {
		if k == 0 {
			continue
		}
		t := r.tallies[key(e)]
		if t == nil {
			t = &tally{event: e, reader: byRDPMC, quiet: true}
			r.tallies[key(e)] = t
		}
		var middle [2]float64
		for image := range both {
			column := both[image].counts[k]
			middle[image] = stat.Median(floats(column))
			zero := 0
			for _, n := range column {
				if n == 0 {
					zero++
				}
			}
			t.quiet = t.quiet && zero >= r.identical()
		}
		t.perIter = append(t.perIter, unroll.Throughput(middle[0], middle[1], r.factors))
	}
}

// countThird is timeThird by counters.
func (r *run) countThird(v view) (cycles []float64, err error) {
	deadline := time.Now().Add(r.opts.Budget)
	r.plan.Refill(r.child)
	err = r.enabled(0, func() error {
		for _, t := range v.missing {
			short, _, err := r.agree(0, timedCopies{v.short.At, v.factors.Short}, t, deadline)
			if err != nil {
				return err
			}
			long, _, err := r.agree(0, timedCopies{v.long.At, v.factors.Long}, t, deadline)
			if err != nil {
				return err
			}
			cycles = append(cycles, unroll.Throughput(float64(short.Cycles), float64(long.Cycles), v.factors))
		}
		return nil
	})
	if rejection := (*verdict.Rejection)(nil); errors.As(err, &rejection) {
		err = nil // no quiet moment
	}
	return cycles, err
}

// checkCounter holds the counter of core cycles against chains of adds and multiplies: what it
// counts has to be cycles.
func (s *session) checkCounter() error {
	var add, multiply float64
	for range countedTries {
		var d [2][][]float64
		chains := [2][]clock.Chain{clock.AddChains(), clock.MultiplyChains()}
		err := s.enabled(0, func() error {
			for i := range chains {
				for _, c := range chains[i] {
					e := asm.NewEmitter(s.images)
					entry := c.Emit(e, s.clock.Emit)
					copy(s.child.Code()[s.images-layout.Code:], e.Bytes())
					t, err := s.countRuns(s.passes[0], entry, nil)
					if err != nil {
						return err
					}
					if t.lost > 0 && t.switches == 0 {
						return taken(fmt.Errorf("%d of %d events", t.lost, len(s.passes[0].events)))
					}
					if sim := s.opts.simulated; sim != nil {
						sim.chain(c, &t)
					}
					d[i] = append(d[i], floats(t.counts[0]))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		var ok bool
		if add, multiply, ok = clock.CheckCycles(d[0], d[1]); ok {
			s.rate = clockRate{ticks: 1}
			s.report = ClockReport{Name: s.clock.Name(), Method: s.clock.Describe(), StepTicks: 1, TicksPerCycle: 1, MultiplyCycles: multiply}
			return nil
		}
	}
	return &verdict.HostError{
		Missing: fmt.Sprintf("the counter of core cycles does not count those: it gives %.3f for an add and %.3f for an imul", add, multiply),
		Remedy:  "use -clock tsc",
	}
}
