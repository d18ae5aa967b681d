package timing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// Counters is the Timer that reads hardware counters. A replicate has the same layouts as with the TSC, so that both
// average over the same. But a window consists of the paper's 16 timings of each image, of which enough must be clean
// and identical, and each layout has a window for each pass: a group of events that the CPU counts at the same time.
type Counters struct {
	Config
	code
	child  *tracee.Tracee
	kernel pmu.Kernel
	passes []pass
	report Report  // of the check
	script *Script // in place of a CPU; usually nil
}

type pass struct {
	events      pmu.Pass
	clock       clock.Perf
	leader      int    // file descriptor in the monitor
	open, close uint64 // entries of the code around the runs of an image
}

const (
	// A window has countedWarm runs to warm an image up, one run that ends with the first
	// reading, and then the paper's timings.
	countedWarm = 3
	countedRuns = countedWarm + 1 + PaperTimings // at most layout.CountRuns
	// countedTries limits an image's tries to meet the paper's rule. Timings that saw a context
	// switch do not count as a try.
	countedTries = 4
	// No counter reaches nonsense in a run: the watchdog would end the run before.
	nonsense = 1 << 40
)

// NewCounters returns a Timer that counts core cycles and events, as many at the same time as the CPU
// can. A script that is not nil replaces the CPU. The error is that the child has no room for so many events.
func NewCounters(c Config, kernel pmu.Kernel, p pmu.PMU, events []pmu.Event, script *Script) (*Counters, error) {
	t := &Counters{Config: c, kernel: kernel, script: script}
	read, page := harness.CounterRead((*asm.Emitter).Rdpmc), layout.CounterPage
	if script != nil {
		read, page = (*asm.Emitter).Rdtsc, scriptedPage
	}
	mapped := 0
	for _, g := range pmu.Passes(kernel, p.Event(pmu.Cycles), events, layout.MaxCounted) {
		pass := pass{events: g, clock: clock.Perf{Width: p.Width}}
		pass.clock.Read = read
		for range g {
			pass.clock.Pages = append(pass.clock.Pages, page(mapped))
			mapped++
		}
		t.passes = append(t.passes, pass)
	}
	if mapped > layout.MaxCounters {
		return nil, fmt.Errorf("with so many more events the child has to map %d of them, and there is room for %d", mapped, layout.MaxCounters)
	}
	return t, nil
}

// Events lists the counters that a child must open for this timer.
func (t *Counters) Events() (events []tracee.Counter) {
	if t.script != nil {
		return nil
	}
	for _, p := range t.passes {
		leader := -1
		for _, a := range p.events.Attrs() {
			events = append(events, tracee.Counter{Attr: a.Bytes(), Leader: leader})
			if leader < 0 {
				leader = len(events) - 1
			}
		}
	}
	return events
}

// Attach implements Timer. The child has opened the timer's Events.
func (t *Counters) Attach(_ context.Context, child *tracee.Tracee) error {
	t.child = child
	if t.script != nil {
		if err := t.openScripted(); err != nil {
			return err
		}
	} else {
		next := 0
		for i := range t.passes {
			t.passes[i].leader = child.Counters()[next]
			next += len(t.passes[i].events)
		}
	}
	t.code = emit(t.Config, child, t.Clock(), func(e *asm.Emitter) {
		for i := range t.passes {
			p := &t.passes[i]
			p.open, p.close = p.clock.Open(e, child.Resume()), p.clock.Close(e, child.Resume())
		}
	})
	if t.report.Name == "" {
		return t.check()
	}
	return nil
}

func (t *Counters) Clock() harness.Clock { return t.passes[0].clock.Emit }

func (t *Counters) Report() Report { return t.report }

func (t *Counters) Uses(report func(from, bytes uint64)) {
	report(layout.SlotCount, 8)
	report(layout.Times, 8*(countedRuns+1))
	events := 0 // passes use the same tables
	for _, p := range t.passes {
		events = max(events, len(p.events))
	}
	report(layout.CountSelect(0), 8*uint64(events))
	report(layout.CountTable(0), layout.CountTable(events)-layout.CountTable(0))
}

type counterSeries struct {
	*Counters
	block    Block
	plan     Plan
	deadline time.Time
	timed    Timed
	pair     Pair                    // of the last replicate
	must     func(pmu.Event) float64 // the count per iteration of a stimulus, which nothing rejects; nil for other blocks
}

func (t *Counters) series(b Block, p Plan) *counterSeries {
	return &counterSeries{Counters: t, block: b, plan: p, deadline: time.Now().Add(p.Budget), timed: Timed{Spent: Spent{RunsPerSample: 1}, Events: Tallies{}}}
}

func (t *Counters) Time(b Block, p Plan) (Timed, error) {
	c := t.series(b, p)
	checked, _ := replicates(p.Precision)
	for n := 1; n <= checked[len(checked)-1]; n++ {
		if err := c.replicate(n - 1); err != nil {
			return c.timed, err
		}
		c.timed.derive(c.passes[0].clock, clockRate{ticks: 1}, c.pair, c.plan.Uneven)
		if slices.Contains(checked, n) && c.timed.enough(n, p.Precision) || n >= checked[0] && time.Now().After(c.deadline) {
			break
		}
	}
	return c.timed, nil
}

// stimulusReplicates is small because a stimulus's counts are the same in all replicates.
const stimulusReplicates = 2

// Tally counts all events over a stimulus, a block with known counts per iteration: must. Nothing rejects it.
func (t *Counters) Tally(b Block, p Plan, must func(pmu.Event) float64) (Tallies, error) {
	c := t.series(b, p)
	c.must = must
	for n := range stimulusReplicates {
		if err := c.replicate(n); err != nil {
			return nil, err
		}
	}
	return c.timed.Events, nil
}

func (c *counterSeries) replicate(n int) error {
	for i, p := range c.passes {
		c.block.Refill()
		layouts := c.plan.layouts(n)
		pairs, err := c.block.Replicates([]int{layouts[0].Place()}, n/passReplicates, p.clock.Emit)
		if err != nil {
			return err
		}
		c.pair = pairs[0]
		if err := c.whileEnabled(p, func() error {
			for _, l := range layouts {
				if err := c.window(i, n, l); err != nil {
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

// whileEnabled calls do while the events of a pass count. It fails if they did not count all the time.
func (t *Counters) whileEnabled(p pass, do func() error) error {
	_, err := pmu.Count(t.kernel, p.leader, len(p.events), do)
	if notRunning := (*pmu.NotRunningError)(nil); errors.As(err, &notRunning) {
		return lostCounters(err)
	}
	return err
}

func lostCounters(err error) error {
	return &verdict.HostError{
		Missing: "the events lost their counters to another user of them",
		Remedy:  "end other profilers, sudo sysctl kernel.nmi_watchdog=0, or use -clock tsc", Err: err,
	}
}

// window takes the timings of both images in one layout with pass i.
func (c *counterSeries) window(i, replicate int, l Layout) error {
	p := c.passes[i]
	short, ofShort, err := c.agree(p, c.pair.Short, l.Offset())
	if err != nil {
		return err
	}
	long, ofLong, err := c.agree(p, c.pair.Long, l.Offset())
	if err != nil {
		return err
	}
	c.timed.Events.add(p.events, c.pair, [2]Readings{ofShort, ofLong}, c.identical())
	if i == 0 {
		c.timed.Windows = append(c.timed.Windows, Window{Layout: l, Replicate: replicate, Cycles: c.pair.cycles(float64(short.Cycles), float64(long.Cycles), 1)})
	}
	return nil
}

// agree times an image until enough timings are clean and identical. After many context switches it moves on.
func (c *counterSeries) agree(p pass, im Image, offset int) (a Agreement, r Readings, err error) {
	for try, switched := 0, 0; ; {
		if r, err = c.count(p, im, offset); err != nil {
			return a, r, err
		}
		if c.must != nil && r.Switches == 0 && r.Lost == 0 {
			return a, r, nil
		}
		if r.Lost > 0 && r.Switches == 0 {
			err = lostCounters(fmt.Errorf("%d of %d events", r.Lost, len(p.events)))
		} else {
			var rejection *verdict.Rejection
			if a, rejection = Agree(p.timings(r, c.plan), c.identical()); rejection == nil {
				c.timed.SamplesKept += a.Identical
				c.timed.SamplesDropped += PaperTimings - a.Identical
				return a, r, nil
			}
			err = rejection
		}
		c.timed.SamplesDropped += PaperTimings
		if r.Switches > 0 {
			c.timed.WindowsSwitched++
			if switched++; switched%moveAfter == 0 {
				if err := c.CPUs.Next(c.child); err != nil {
					return a, r, err
				}
			}
		} else {
			try++
		}
		if try == countedTries || time.Now().After(c.deadline) {
			return a, r, err
		}
	}
}

// identical returns how many timings must be clean and identical.
func (c *counterSeries) identical() int { return cmp.Or(c.plan.Identical, PaperIdentical) }

// timings marks the runs with forbidden events: those that count nothing else, and that the user did not ask for.
func (p pass) timings(r Readings, plan Plan) []Timing {
	all := make([]Timing, PaperTimings)
	for j := range all {
		all[j].Cycles = r.Counts[0][j]
		if r.Switches > 0 { // any of the runs
			all[j].Dirty = verdict.ContextSwitch
			continue
		}
		for k, e := range p.events {
			if reason := plan.brokenRule(e); reason != "" && r.Counts[k][j] > 0 && all[j].Dirty == "" {
				all[j].Dirty = reason
			}
		}
	}
	return all
}

// brokenRules maps events to the rule that they break. Loads blocked by aliasing are not among them:
// the code around the copies can cause some, and the trace finds the block's own.
var brokenRules = map[pmu.Role]verdict.Reason{
	pmu.L1DReadMiss: verdict.L1DMiss, pmu.L1DWriteMiss: verdict.L1DMiss, pmu.L1IMiss: verdict.L1IMiss,
	pmu.SplitLoad: verdict.Misaligned, pmu.SplitStore: verdict.Misaligned,
}

// brokenRule returns the rule that an exact event breaks, or "" if it is tolerated.
func (p Plan) brokenRule(e pmu.Event) verdict.Reason {
	reason := brokenRules[e.Role]
	if !e.Exact || slices.Contains(p.Tolerate, reason) {
		return ""
	}
	return reason
}

// count remaps the block and runs an image twice: to warm up, readings included so that their
// tables are in L1D too, and for the timings.
func (c *counterSeries) count(p pass, im Image, offset int) (Readings, error) {
	setup := append(slices.Clone(c.plan.Remap), tracee.Run(c.resetImage, 1), tracee.Put(layout.SlotDispatch, uint64(offset)))
	r, err := c.countRuns(p, im.Entry, setup)
	if c.script != nil && err == nil {
		c.script.block(p.events, im.Iterations, c.must, &r)
	}
	return r, err
}

// countRuns runs an image in the child between two readings of the kernel's pages.
func (t *Counters) countRuns(p pass, entry uint64, setup []tracee.Op) (r Readings, err error) {
	t.child.SetWord(layout.SlotLost, 0)
	if err := t.child.Complete(append(setup,
		tracee.Run(entry, countedRuns),
		tracee.UsageBefore(),
		tracee.Run(p.open, 0), tracee.Run(entry, countedRuns), tracee.Run(p.close, 0),
		tracee.UsageAfter()), runLimit, "counting"); err != nil {
		return r, err
	}
	r.Switches, r.Lost = t.child.Switches(), t.child.Word(layout.SlotLost)
	for k := range p.events {
		reading := func(left int) uint64 {
			if k == 0 {
				return t.child.Word(layout.Times + 8*uint64(left))
			}
			return sampleWord(t.child.Samples(), layout.CountTable(k)+8*uint64(left))
		}
		var column []uint64
		for left := PaperTimings; left > 0; left-- {
			d := p.clock.Difference(reading(left+1), reading(left))
			if r.Lost == 0 && r.Switches == 0 && (d >= nonsense || k == 0 && d == 0) {
				return r, &verdict.HostError{
					Missing: fmt.Sprintf("the counter of %s reads nonsense: %d in one run", p.events[k].Name, d),
					Remedy:  "use -clock tsc",
				}
			}
			column = append(column, d)
		}
		r.Counts = append(r.Counts, column)
	}
	return r, nil
}

func (t *Counters) TimeMidpoint(b Block, pair Pair, offsets []int, p Plan) (Timed, error) {
	c := t.series(b, p)
	c.pair = pair
	b.Refill()
	err := c.whileEnabled(c.passes[0], func() error {
		for _, offset := range offsets {
			if err := c.window(0, 0, LayoutOf(0, offset)); err != nil {
				return err
			}
		}
		return nil
	})
	if rejection := (*verdict.Rejection)(nil); errors.As(err, &rejection) {
		err = nil // disturbed too often
	}
	c.timed.Events = nil // they belong to another number of iterations
	return c.timed, err
}

// check verifies that the counter of core cycles counts those, by chains of adds and multiplies and the TSC.
func (t *Counters) check() error {
	var c clock.Checked
	for try := range countedTries {
		if try > 0 {
			if err := t.moveOn(); err != nil {
				return err
			}
		}
		counted, err := t.timeChains(t.countChain)
		if err != nil {
			return err
		}
		ticks, err := t.timeChains(t.tickChain)
		if err != nil {
			return err
		}
		var ok bool
		if c, ok = clock.CheckCycles(counted, ticks); ok {
			t.report = Report{Name: "perf", Method: fmt.Sprintf("core cycles, counted by the CPU and read with rdpmc; it counts %v", c),
				StepTicks: 1, TicksPerCycle: 1, MultiplyCycles: c.Multiply}
			return nil
		}
	}
	return &verdict.HostError{Missing: fmt.Sprintf("the counter of core cycles does not count those: it gives %v", c), Remedy: "use -clock tsc"}
}

// moveOn moves to the next CPU, or waits without one: a disturbance of some milliseconds outlasts all tries.
func (t *Counters) moveOn() error {
	left := t.CPUs.Current()
	if err := t.CPUs.Next(t.child); err != nil {
		return err
	}
	if t.CPUs.Current() == left {
		time.Sleep(startPause)
	}
	return nil
}

func (t *Counters) timeChains(timed func(clock.Chain) ([]float64, error)) (c clock.Chained, err error) {
	err = t.whileEnabled(t.passes[0], func() error {
		for _, multiply := range []bool{false, true} {
			columns := &c.Adds
			if multiply {
				columns = &c.Multiplies
			}
			for _, chain := range clock.Chains(multiply) {
				column, err := timed(chain)
				if err != nil {
					return err
				}
				*columns = append(*columns, column)
			}
		}
		return nil
	})
	return c, err
}

// placeChain writes a chain to the memory that blocks use later.
func (t *Counters) placeChain(c clock.Chain, read harness.Clock) (entry uint64) {
	e := asm.NewEmitter(t.images)
	entry = c.Emit(e, read)
	copy(t.child.Code()[t.images-layout.Code:], e.Bytes())
	return entry
}

func (t *Counters) countChain(c clock.Chain) ([]float64, error) {
	p := t.passes[0]
	r, err := t.countRuns(p, t.placeChain(c, p.clock.Emit), nil)
	if err != nil {
		return nil, err
	}
	if r.Lost > 0 && r.Switches == 0 {
		return nil, lostCounters(fmt.Errorf("%d of %d events", r.Lost, len(p.events)))
	}
	if t.script != nil {
		t.script.Chain(c, &r)
	}
	return toFloats(r.Counts[0]), nil
}

// tickChain returns the TSC ticks of each run of a chain.
func (t *Counters) tickChain(c clock.Chain) (ticks []float64, err error) {
	entry := t.placeChain(c, clock.TSC{}.Emit)
	if err := t.child.Complete([]tracee.Op{tracee.Run(entry, countedRuns), tracee.Run(entry, countedRuns)}, runLimit, "timing a chain"); err != nil {
		return nil, err
	}
	for left := PaperTimings; left > 0; left-- {
		reading := func(left int) uint64 { return t.child.Word(layout.Times + 8*uint64(left)) }
		ticks = append(ticks, float64(reading(left)-reading(left+1)))
	}
	if t.script != nil {
		r := Readings{Counts: [][]uint64{make([]uint64, PaperTimings)}}
		Chains(1)(c, &r)
		ticks = toFloats(r.Counts[0])
	}
	return ticks, nil
}

func toFloats(counts []uint64) (f []float64) {
	for _, n := range counts {
		f = append(f, float64(n))
	}
	return f
}
