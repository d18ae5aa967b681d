package timing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

const (
	// windowSamples is how often a window times the block's images, in turn. One tells whether the other was interrupted,
	// and some blocks take a speed anew each time that an image begins.
	windowSamples = 2
	// windowPolls are the probe readings that a window's samples stand between; none may
	// find the core busy. Where one does, other work comes and goes faster than the probe
	// sees it: of windows with three or more busy readings two thirds were slow by up to 40 %,
	// of those with none one in a thousand.
	windowPolls = 2
	// A child run waits for an idle core for this many busy readings, some 0.5 ms.
	waitPolls = 1000
	// idleReadings are the idle readings in a row that end a wait after a busy one: who shares the core comes and goes. Eight
	// was chosen, and no measurement compared it with others; where a burst of stores alone was slow two do.
	idleReadings = 8
	// patience is how many child runs without an undisturbed window go ahead of a move to another CPU. It was chosen, and
	// grew from 3 when windows that had waited for an idle core were no longer kept.
	patience = 8
	// driftShare is how far the core's clock may be from known within a child run: more means that it moved. It was chosen; by itself
	// the clock moves by 0.8 % within 2 ms on Zen 5.
	driftShare = 0.01

	// A timing is of timedRuns runs of an image: of fewer, the core of their times does not tell which runs a misprediction
	// slowed. On a clock with coarse steps it is of more, up to maxRuns, until it spans
	// timingSteps steps: then the steps add less to the interval than replicates differ by. It is of fewer where timedRuns would
	// take more than longestTicks, or than timingSteps steps if these are longer.
	timedRuns    = 12
	timingSteps  = 100
	maxRuns      = 64
	longestTicks = 40000
	// shortestRun is a lower bound on the ticks of a run of a longer image, harness included: the shortest of 700 blocks on
	// Granite Rapids took 61 (99 cycles). It bounds the number of runs for which memory is set aside.
	shortestRun  = 60
	searchedRuns = 4 // that say how long one takes: the fastest of the last three
)

// runsOn says how many runs of an image a timing by this clock is of.
func runsOn(c clock.Clock) harness.Runs {
	ticks := int(math.Ceil(timingSteps * c.Step()))
	return harness.Runs{
		Ticks: ticks, Least: timedRuns, Most: min(max(timedRuns, ticks/shortestRun), maxRuns), Longest: max(ticks, longestTicks),
	}
}

// TSC is the Timer that reads the time-stamp counter.
type TSC struct {
	Config
	code
	child      *tracee.Tracee
	run        func(runPlan) (childRun, error) // in the child, or out of a recording
	clock      clock.Clock                     // nil until it is calibrated
	rate       clockRate                       // of late
	probe      harness.Probe
	idle       float64     // the probe's time in cycles on an idle core
	idleStores float64     // the same of its burst of stores; 0 if that does not tell here
	report     Report      // of the calibration
	width      int         // of the vector units that are kept awake, in bits; 0 and 128 are alike
	yielded    time.Time   // when last
	steps      []tracee.Op // of the last child run
}

// NewTSC is a TSC whose clock is calibrated in the first child that is attached.
func NewTSC(c Config) *TSC {
	t := &TSC{Config: c}
	t.run = t.runChild
	return t
}

// NewUncalibrated is a TSC that takes a tick for a cycle and every core for idle: for who times nothing, and for tests that
// do not use its numbers.
func NewUncalibrated(c Config) *TSC {
	t := NewTSC(c)
	t.clock, t.rate, t.probe, t.idle = clock.TSC{StepTicks: 1}, clockRate{ticks: 1}, harness.Probe{Iterations: probeIterations}, anyReading
	t.report.TicksPerSecond = 1e9
	return t
}

// Attach implements Timer.
func (t *TSC) Attach(ctx context.Context, child *tracee.Tracee) error {
	t.child = child
	if t.clock == nil {
		return t.calibrate(ctx)
	}
	t.emit(t.clock) // a replacement: same machine, same clock
	return nil
}

func (t *TSC) emit(c clock.Clock) {
	t.clock, t.code = c, emit(t.Config, t.child, c, t.probe, nil)
}

// Clock implements Timer.
func (t *TSC) Clock() harness.Clock { return t.clock.Emit }

// Report implements Timer.
func (t *TSC) Report() Report {
	r := t.report
	r.TicksPerCycle = t.rate.ticks
	return r
}

// Uses implements Timer.
func (t *TSC) Uses(report func(from, bytes uint64)) {
	rows := rowsOf(len(t.chains), windowSamples)
	report(layout.SlotCount, layout.Phases+uint64(rows.n())*layout.PhaseSize-layout.SlotCount)
	report(layout.Times, 8*uint64(t.most+harness.WarmFor(t.most)+Warm+2))
	report(layout.Samples, uint64(rows.bytes(t.most)))
}

// series is the replicates of a block so far.
type series struct {
	*TSC
	block  Block
	plan   Plan
	timed  Timed
	pairs  []Pair // that are laid out, at these places
	places []int
	pass   int          // that they were laid out for
	owed   []Layout     // of windows that were disturbed
	apart  int          // windows whose timings of an image disagreed, and
	alike  int          // those whose timings did not
	again  [Layouts]int // how often the last window of a layout was dropped because they did
	last   estimate     // of the windows when replicates were last complete
	number int          // of the timing in the recording, if there is one
}

// Time implements Timer.
func (t *TSC) Time(b Block, p Plan) (Timed, error) {
	if err := t.widen(p.VectorBits); err != nil {
		return Timed{}, err
	}
	s := series{TSC: t, block: b, plan: p, number: t.Record.Timing()}
	if err := s.untilNarrow(time.Now().Add(p.Budget)); err != nil {
		return s.timed, err
	}
	if len(s.timed.Windows) < fewest {
		return s.timed, s.timed.disturbed(p.Budget, fewest)
	}
	e := s.last
	if len(e.windows) != len(s.timed.Windows) {
		e = s.sample().estimate()
	}
	s.timed.Estimate, s.timed.Design, s.timed.Speeds = e.Estimate, e.design, e.speeds
	return s.timed, nil
}

// sample is what the interval is made of.
func (s *series) sample() sample {
	return sample{s.timed.Windows, s.clock, s.rate, s.timed.RunsPerSample, s.pairs[0].iterations(), s.plan.Precision}
}

// untilNarrow takes replicates until the interval is narrow enough, more of them are of no use, or the time is up.
func (s *series) untilNarrow(deadline time.Time) error {
	n := 0
	checked, _ := replicates(s.plan.Precision)
	for _, next := range checked {
		for n < next {
			taken, complete, err := s.replicates(n, min(next-n, replicatesAtOnce, s.room()), deadline)
			if err != nil || !complete {
				return err
			}
			n += taken
		}
		if s.last = s.sample().estimate(); s.enough(n) {
			break
		}
	}
	return nil
}

// enough reports whether n replicates are.
func (s *series) enough(n int) bool {
	if s.Record != nil {
		return n >= recordedReplicates
	}
	return s.last.enough(n) || s.plan.Enough != nil && s.plan.Enough(s.last.Estimate)
}

// room is how many replicates fit a child run's list: each maps the block's pages again.
func (s *series) room() int {
	const each = 64 // steps at most of a replicate's windows, and as many of the third number's
	return max(1, (layout.MaxOps-2*each)/(len(s.plan.Remap)+each)-1)
}

// disturbed is the rejection of a block that was not left alone for long enough.
func (t Timed) disturbed(budget time.Duration, least int) error {
	reason, why := verdict.Unstable, "another hardware thread shared the core"
	switch max(t.WindowsSwitched, t.WindowsUnsteady, t.WindowsDrifted) {
	case t.WindowsUnsteady:
	case t.WindowsSwitched:
		reason, why = verdict.ContextSwitch, "the scheduler took the CPU away"
	case t.WindowsDrifted:
		reason, why = verdict.ClockDrift, "the core's clock moved"
	}
	return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(
		"%s: within %v only %d of the %d windows needed were undisturbed, %d saw a context switch, %d no idle core and %d a drift of the core's clock",
		why, budget, len(t.Windows), least, t.WindowsSwitched, t.WindowsUnsteady, t.WindowsDrifted)}
}

// placement is an image pair where it is timed, and the windows that it lacks.
type placement struct {
	Pair
	mapped  bool // its pages are there already
	remap   []tracee.Op
	missing []int // dispatch offsets
	number  int   // of the replicate
	place   int
	windows []Window // that it has
}

// replicates takes the next replicates, most of them or fewer if there is no room, all in one child
// run, and then again those of their windows that were disturbed, until few are left; these come with the next
// replicates at their places. They are not complete if the time was up before. Two windows of a third number of
// iterations come with the first.
func (s *series) replicates(first, most int, deadline time.Time) (taken int, complete bool, err error) {
	var layouts [][]Layout
	var places []int
	for n := range most {
		all := s.plan.layouts(first + n)
		layouts, places = append(layouts, all), append(places, all[0].Place())
	}
	if err := s.layOut(places, first/passReplicates); err != nil {
		return 0, false, err
	}
	var all []placement
	for i, p := range s.pairs {
		all = append(all, s.placement(p, first+i, layouts[i]))
	}
	taken = len(all)
	if first == 0 {
		third, ok, err := s.block.Third(s.Clock())
		if err != nil {
			return 0, false, err
		}
		if ok {
			all = append(all, placement{Pair: third, place: places[taken-1], mapped: true, missing: s.plan.ThirdOffsets()})
		}
	}
	all[0].mapped = first == 0 // by the dry run
	s.block.Refill()
	complete, err = s.takeWindows(all, taken, deadline)
	for _, third := range all[taken:] {
		s.timed.Third = third.windows
	}
	for _, r := range all[:taken] {
		s.timed.Windows = append(s.timed.Windows, r.windows...)
		for _, offset := range r.missing {
			s.owed = append(s.owed, LayoutOf(r.place, offset))
		}
	}
	return taken, complete, err
}

// layOut lays out a pair at each of these places, as far as there is room, unless they stand there.
func (s *series) layOut(places []int, pass int) (err error) {
	if len(s.pairs) > 0 && pass == s.pass && slices.Equal(places, s.places) {
		return nil
	}
	s.places, s.pass = places, pass
	s.pairs, err = s.block.Replicates(places, pass, s.Clock())
	return err
}

// placement is that of a replicate, with what is owed at its place.
func (s *series) placement(p Pair, number int, layouts []Layout) placement {
	at := placement{Pair: p, remap: s.block.Remap(number), number: number, place: layouts[0].Place()}
	for _, l := range layouts {
		at.missing = append(at.missing, l.Offset())
	}
	s.owed = slices.DeleteFunc(s.owed, func(l Layout) bool {
		if l.Place() != at.place {
			return false
		}
		at.missing = append(at.missing, l.Offset())
		return true
	})
	return at
}

// takeWindows times placements until the replicates among them, which come first, lack few windows.
func (s *series) takeWindows(all []placement, replicates int, deadline time.Time) (complete bool, err error) {
	together, busy := math.MaxInt, 0 // windows in a child run
	few := missing(all[:replicates]) / owedShare
	for {
		if time.Now().After(deadline) {
			return false, nil
		}
		plan, of := s.planRun(s.plan, all, together, s.timed.RunsPerSample)
		got, err := s.run(plan)
		if err != nil {
			return false, err
		}
		if got.runs > 0 {
			s.timed.RunsPerSample = got.runs
		}
		s.note(got, of)
		kept, rate := s.keep(got, of)
		for _, w := range kept {
			p := of[w.pair]
			p.windows = append(p.windows, Window{LayoutOf(p.place, w.offset), p.number, w.cycles(p.Pair, rate)})
			if i := slices.Index(p.missing, w.offset); i >= 0 {
				p.missing = slices.Delete(slices.Clone(p.missing), i, i+1)
			}
		}
		all = all[:replicates] // one try is enough for the third number
		if missing(all) <= few {
			return true, nil
		}
		if len(kept) > 0 { // the core was idle
			busy = 0
			continue
		}
		together = (min(together, len(got.windows)) + 1) / 2 // what disturbs is less likely to meet a short child run
		if busy++; busy%patience == 0 {
			if err := s.relocate(); err != nil { // which asks for the rate, in case that is what changed
				return false, err
			}
		}
	}
}

// owedShare is of how many windows one may be owed: a child run for one or two costs as much as six windows.
const owedShare = 6

// missing is how many windows placements lack.
func missing(all []placement) (n int) {
	for _, p := range all {
		n += len(p.missing)
	}
	return n
}

// planRun is a child run of at most so many of the windows that placements lack, and the placement
// of each of its pairs.
func (t *TSC) planRun(p Plan, all []placement, most, runs int) (plan runPlan, of []*placement) {
	plan = runPlan{
		pairs:   make([]pairPlan, 0, len(all)),
		samples: 1, times: windowSamples, wait: waitPolls, polls: windowPolls,
		idle: t.longestIdle(), idleStores: t.longestIdleStores(), vectorBits: p.VectorBits,
	}
	for i := range all {
		at := &all[i]
		offsets := at.missing[:min(most, len(at.missing))]
		if len(offsets) == 0 {
			continue
		}
		pair := pairPlan{
			short:   image{at.Short.Entry, p.Warm + harness.WarmFor(runs), runs},
			long:    image{at.Long.Entry, p.Warm + harness.WarmFor(runs), runs},
			offsets: offsets,
		}
		if !at.mapped {
			pair.setup = at.remap
		}
		pair.setup = append(pair.setup, tracee.Run(t.fresh, 1))
		plan.pairs = append(plan.pairs, pair)
		of = append(of, at)
		at.mapped = false // the next time
		most -= len(offsets)
	}
	return plan, of
}

// keep gives a child run's undisturbed windows, with the clock's rate meanwhile, and notes them and the others.
func (s *series) keep(got childRun, of []*placement) (kept []window, rate float64) {
	t := &s.timed
	for _, w := range got.windows {
		t.SamplesDropped += windowSamples*w.polls - w.samples() // polls that led to no sample
	}
	if got.switches > 0 {
		t.WindowsSwitched += len(got.windows)
		return nil, 0
	}
	rate, drifts := s.learnRate(got)
	switch {
	case math.IsNaN(rate):
		t.WindowsUnsteady += len(got.windows)
		return nil, 0
	case drifts:
		t.WindowsDrifted += len(got.windows)
		return nil, 0
	}
	kept = got.windows[:0]
	for _, w := range got.windows {
		if w = w.uninterrupted(s.interrupt()); !w.complete || w.samples() == 0 {
			t.WindowsUnsteady++
			continue
		}
		if w.moved(s.clock, s.rate.ticks) {
			t.WindowsDrifted++
			continue
		}
		if s.wantsAgain(w, LayoutOf(of[w.pair].place, w.offset)) {
			t.WindowsUnsteady++
			t.SamplesDropped += w.samples()
			continue
		}
		kept = append(kept, w)
		t.SamplesKept += w.samples()
		t.SamplesDropped += windowSamples - w.samples()
		t.Seconds += w.ticks() / s.report.TicksPerSecond
	}
	return kept, rate
}

// mostAgain is how often in a row a layout's window is taken again because its timings disagree: some blocks have a layout in which they always do.
const mostAgain = 3

// wantsAgain reports whether a window of a layout does not count because its timings disagree. Where they do in more than half of the windows, it is the
// block: some take a speed anew each time that an image begins.
func (s *series) wantsAgain(w window, l Layout) bool {
	switch {
	case w.samples() < windowSamples: // one was interrupted, and there is nothing to compare
	case !w.disagrees(s.clock):
		s.alike++
	default:
		if s.apart++; s.apart <= s.alike+passWindows && s.again[l] < mostAgain {
			s.again[l]++
			return true
		}
	}
	s.again[l] = 0
	return false
}

// interrupt is the least that an interrupt lasts, in ticks.
func (t *TSC) interrupt() float64 { return interruptSeconds * t.report.TicksPerSecond }

// learnRate takes in what a child run says of the clock's rate, one reading from each window, and gives the rate during this run; NaN
// if it says nothing. Of few readings the interval is as wide as that of one step among them, which is no drift.
func (t *TSC) learnRate(got childRun) (during float64, drifts bool) {
	run := got.rate(t.clock)
	switch {
	case math.IsNaN(run.Value):
		return math.NaN(), false
	case run.N == 1:
		run.Half = t.clock.RateResolution(1)
		if math.Abs(run.Value-t.rate.ticks) > driftShare*t.rate.ticks+run.Half { // one alone may have met an interrupt
			return run.Value, true
		}
	case run.Half > driftShare*run.Value+2*t.clock.RateResolution(run.N):
		return run.Value, true
	}
	t.rate.add(run, t.clock)
	return t.rate.during(run), false
}

// TimeThird implements Timer.
func (t *TSC) TimeThird(b Block, pair Pair, offsets []int, p Plan) (timed Timed, err error) {
	b.Refill()
	s := series{TSC: t, plan: p, timed: Timed{RunsPerSample: p.RunsPerSample}}
	third := []placement{{Pair: pair, remap: p.Remap, missing: offsets}}
	_, err = s.takeWindows(third, 1, time.Now().Add(p.Budget))
	return Timed{Windows: third[0].windows}, err // what was dropped are not the block's windows
}
