package timing

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// docs/constants.md says why each constant of this package has its value, and where that was measured.
const (
	windowSamples = 2    // timings of each image in a window, as in windowRows
	windowPolls   = 2    // probe readings around a window's samples, none of which may find the core busy
	waitPolls     = 1000 // busy readings for which a child run waits for an idle core
	idleReadings  = 8    // idle readings in a row that end a wait after a busy one, because a neighbour comes and goes
	moveAfter     = 8    // child runs without an undisturbed window before a move to another CPU
	giveUpAfter   = 24   // child runs without an idle core, some 25 ms, before the block is left for another time
	driftShare    = 0.01 // largest deviation of the core's clock within a child run; beyond it, the clock moved

	// A timing has timedRuns runs of an image. A coarse clock gets more, up to maxRuns, until a timing spans
	// timingSteps steps. A slow block gets fewer if timedRuns would take more than longestTicks and more than
	// timingSteps steps.
	timedRuns    = 12
	timingSteps  = 100
	maxRuns      = 64
	longestTicks = 40000
	shortestRun  = 60 // lower bound on the ticks of a run of a longer image with its harness, used to reserve memory
	searchedRuns = 4  // estimate the time of a run: the fastest of the last three
)

// runBounds returns the bounds on the number of runs per timing with this clock.
func runBounds(c clock.Clock) harness.Runs {
	ticks := int(math.Ceil(timingSteps * c.Step()))
	return harness.Runs{
		Ticks: ticks, Least: timedRuns, Most: min(max(timedRuns, ticks/shortestRun), maxRuns), Longest: max(ticks, longestTicks),
	}
}

type TSC struct {
	Config
	code
	child      *tracee.Tracee
	samplers   map[int]sampler                 // by the vector width in bits that they keep awake
	bursts     uint64                          // entry of the code that times bursts of stores
	untrain    uint64                          // entry of the code after which the branch predictor knows no other code
	search     uint64                          // entry of the code that finds the number of runs per timing,
	mostRuns   int                             // up to this
	chains     []image                         // of adds
	multiplies []image                         // and the same of multiplies
	run        func(runPlan) (childRun, error) // in the child, or from a recording
	clock      clock.TSC                       // zero until calibrated
	rate       clockRate                       // recent
	probe      harness.Probe
	start      start       // with the tries so far
	idle       float64     // cycles of the probe on an idle core; 0: not known yet
	kept       []float64   // recent readings of the probe beside windows that were kept, in cycles
	idleStores float64     // the same for a burst of stores; 0: no indicator on this core
	report     Report      // of the calibration
	width      int         // bits of the vector units kept awake; 0 is 128
	yielded    time.Time   // last yield
	steps      []tracee.Op // of the last child run
}

// NewTSC returns a TSC that calibrates its clock in the first attached child.
func NewTSC(c Config) *TSC {
	t := &TSC{Config: c}
	t.run = t.runChild
	return t
}

// NewUncalibrated returns a TSC that equates ticks with cycles and takes every core for idle: for callers that do not
// time, and for tests that ignore the numbers.
func NewUncalibrated(c Config) *TSC {
	t := NewTSC(c)
	t.clock, t.rate, t.probe, t.idle = clock.TSC{StepTicks: 1}, clockRate{ticks: 1}, harness.Probe{Iterations: probeIterations}, anyReading
	t.report.TicksPerSecond = 1e9
	return t
}

func (t *TSC) Attach(ctx context.Context, child *tracee.Tracee) error {
	t.child = child
	if t.clock == (clock.TSC{}) {
		return t.calibrate(ctx)
	}
	t.emit(t.clock) // a replacement: same machine, same clock
	return nil
}

// sampler holds the entries of the code that waits for an idle core and of the code that samples.
type sampler struct{ wait, sample uint64 }

func (t *TSC) emit(c clock.TSC) {
	runs := runBounds(c)
	t.clock, t.samplers, t.chains, t.mostRuns = c, map[int]sampler{}, nil, runs.Most
	t.code = emit(t.Config, t.child, c.Emit, func(e *asm.Emitter) {
		for _, bits := range t.CPU.VectorBits() {
			t.samplers[bits] = sampler{
				wait:   harness.WaitIdle(e, c.Emit, t.probe, bits, idleReadings, t.child.Resume()),
				sample: harness.Sampler(e, c.Emit, t.probe, bits, t.child.Resume()),
			}
		}
		t.bursts = harness.Bursts(e, c.Emit, t.child.Resume())
		t.untrain = harness.Untrain(e, t.child.Resume())
		t.search = harness.ChooseRuns(e, windowRows.images(), searchedRuns, runs, t.child.Resume())
		t.chains, t.multiplies = emitChains(e, c, false), emitChains(e, c, true)
	})
}

func emitChains(e *asm.Emitter, c clock.TSC, multiply bool) (images []image) {
	for _, chain := range clock.Chains(multiply) {
		images = append(images, image{chain.Emit(e, c.Emit), chainWarm, 1, 0})
	}
	return images
}

func (t *TSC) Clock() harness.Clock { return t.clock.Emit }

func (t *TSC) Report() Report {
	r := t.report
	r.TicksPerCycle = t.rate.ticks
	return r
}

func (t *TSC) Uses(report func(from, bytes uint64)) {
	report(layout.SlotCount, layout.Phases+uint64(len(windowRows))*layout.PhaseSize-layout.SlotCount)
	report(layout.Times, 8*uint64(t.mostRuns+harness.WarmFor(t.mostRuns)+Warm+2))
	report(layout.Samples, uint64(windowRows.bytes(t.mostRuns)))
}

type series struct {
	*TSC
	block    Block
	plan     Plan
	timed    Timed
	pairs    []Pair       // of the last replicates
	missing  []Layout     // layouts of disturbed windows, to repeat
	disagree int          // windows whose timings of an image disagree
	agree    int          // windows whose timings agree
	retries  [Layouts]int // windows dropped in a row because their timings disagree
	number   int          // of the timing in the recording, if there is one
}

func (t *TSC) Time(b Block, p Plan) (Timed, error) {
	if err := t.widen(p.VectorBits); err != nil {
		return Timed{}, err
	}
	if err := t.learnIdle(); err != nil {
		return Timed{}, err
	}
	s := series{TSC: t, block: b, plan: p, number: t.Record.Timing()}
	if err := s.takeReplicates(time.Now().Add(p.Budget)); err != nil {
		return s.timed, err
	}
	if len(s.timed.Windows) < fewestWindows {
		about, err := s.approximate()
		return s.timed, cmp.Or(err, s.timed.disturbed(about))
	}
	return s.timed, nil
}

// approximate times the block once whatever else runs on the core; 0 if even that fails.
func (s *series) approximate() (cycles float64, err error) {
	plan, placements := s.planRun(s.plan, []placement{{Pair: s.pairs[0], remap: s.block.Remap(0), missing: oneWindow}}, 1, s.timed.RunsPerSample)
	plan.idle, plan.wait = anyReading, 0
	got, err := s.run(plan)
	if err != nil || !got.windows[0].complete {
		return 0, err
	}
	return got.windows[0].cycles(placements[0].Pair, got.rate(s.clock).Value), nil
}

// takeReplicates takes replicates until the interval is narrow enough, more would not help, or the time is up.
func (s *series) takeReplicates(deadline time.Time) error {
	n := 0
	checked, _ := replicates(s.plan.Precision)
	if s.plan.Whole {
		checked = checked[1:]
	}
	for _, next := range checked {
		for n < next {
			taken, complete, err := s.replicates(n, min(next-n, replicatesAtOnce, s.replicatesThatFit()), deadline)
			if err != nil {
				return err
			}
			if n += taken; !complete {
				s.derive()
				return nil
			}
		}
		if s.derive(); s.enough(n) {
			break
		}
	}
	return nil
}

func (s *series) derive() { s.timed.derive(s.clock, s.rate, s.pairs[0], s.plan.Uneven) }

func (s *series) enough(n int) bool {
	if s.Record != nil {
		return n >= recordedReplicates
	}
	return s.timed.enough(n, s.plan.Precision) || s.plan.Enough != nil && s.plan.Enough(s.timed.Estimate)
}

// replicatesThatFit returns how many replicates fit into a child run's list: each maps the block's pages again.
func (s *series) replicatesThatFit() int {
	const each = 64 // most steps of a replicate's windows, or of the midpoint's
	return max(1, (layout.MaxOps-2*each)/(len(s.plan.Remap)+each)-1)
}

// disturbed returns the rejection of a block with too few undisturbed windows, which takes about so many cycles.
func (t Timed) disturbed(about float64) error {
	reason, why := verdict.BusyCore, "another hardware thread shared the core"
	switch max(t.WindowsSwitched, t.WindowsUnsteady, t.WindowsDrifted) {
	case t.WindowsUnsteady:
	case t.WindowsSwitched:
		reason, why = verdict.ContextSwitch, "the scheduler took the CPU away"
	case t.WindowsDrifted:
		reason, why = verdict.ClockDrift, "the core's clock moved"
	}
	kept, lost := len(t.Windows), t.WindowsSwitched+t.WindowsUnsteady+t.WindowsDrifted
	if kept+lost == 0 {
		return &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf("no window fit into the budget, and %d are needed", fewestWindows)}
	}
	detail := fmt.Sprintf("%s: of %d windows %d were undisturbed, and %d are needed; %d saw no idle core, %d a context switch and %d a drift of the core's clock",
		why, kept+lost, kept, fewestWindows, t.WindowsUnsteady, t.WindowsSwitched, t.WindowsDrifted)
	if about > 0 {
		detail += fmt.Sprintf("; about %.3f cycles beside other work", about)
	}
	return &verdict.Rejection{Reason: reason, Detail: detail}
}

// placement is an image pair at its place, with the windows that it has and lacks.
type placement struct {
	Pair
	mapped  bool // its pages are mapped already
	remap   []tracee.Op
	missing []int // dispatch offsets
	number  int   // of the replicate
	place   int
	windows []Window
}

// replicates takes the next replicates, up to most, in one child run. It repeats disturbed windows until
// few are missing, which the next replicates at their places make up for. complete is false if the time is up
// before. The first call also takes the windows of the midpoint.
func (s *series) replicates(first, most int, deadline time.Time) (taken int, complete bool, err error) {
	var layouts [][]Layout
	var places []int
	for n := range most {
		all := s.plan.layouts(first + n)
		layouts, places = append(layouts, all), append(places, all[0].Place())
	}
	if s.pairs, err = s.block.Replicates(places, first/passReplicates, s.Clock()); err != nil {
		return 0, false, err
	}
	var all []placement
	for i, p := range s.pairs {
		all = append(all, s.placement(p, first+i, layouts[i]))
	}
	taken = len(all)
	if first == 0 {
		midpoint, ok, err := s.block.Midpoint(s.Clock())
		if err != nil {
			return 0, false, err
		}
		if ok {
			all = append(all, placement{Pair: midpoint, place: places[taken-1], mapped: true, missing: s.plan.MidpointOffsets()})
		}
	}
	all[0].mapped = first == 0 // by the dry run
	s.block.Refill()
	complete, err = s.takeWindows(all, taken, deadline)
	for _, midpoint := range all[taken:] {
		s.timed.Midpoint = midpoint.windows
	}
	for _, r := range all[:taken] {
		s.timed.Windows = append(s.timed.Windows, r.windows...)
		for _, offset := range r.missing {
			s.missing = append(s.missing, LayoutOf(r.place, offset))
		}
	}
	return taken, complete, err
}

// placement returns the placement of a replicate, which lacks its own windows and those missing at its place.
func (s *series) placement(p Pair, number int, layouts []Layout) placement {
	at := placement{Pair: p, remap: s.block.Remap(number), number: number, place: layouts[0].Place()}
	for _, l := range layouts {
		at.missing = append(at.missing, l.Offset())
	}
	s.missing = slices.DeleteFunc(s.missing, func(l Layout) bool {
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
	mostWindows, busy, shared := math.MaxInt, 0, 0 // windows per child run; child runs in a row without a good window, and without an idle core
	few := countMissing(all[:replicates]) / missingShare
	for {
		if time.Now().After(deadline) {
			return false, nil
		}
		plan, placements := s.planRun(s.plan, all, mostWindows, s.timed.RunsPerSample)
		got, err := s.run(plan)
		if err != nil {
			return false, err
		}
		if got.runs > 0 {
			s.timed.RunsPerSample = got.runs
		}
		s.record(got, placements)
		unsteady := s.timed.WindowsUnsteady
		kept, rate := s.keepUndisturbed(got, placements)
		for _, w := range kept {
			p := placements[w.pair]
			p.windows = append(p.windows, w.measured(p, rate))
			if i := slices.Index(p.missing, w.offset); i >= 0 {
				p.missing = slices.Delete(slices.Clone(p.missing), i, i+1)
			}
		}
		all = all[:replicates] // the midpoint gets one try
		if countMissing(all) <= few {
			return true, nil
		}
		if len(kept) > 0 { // the core was idle
			busy, shared = 0, 0
			continue
		}
		mostWindows = (min(mostWindows, len(got.windows)) + 1) / 2 // a short child run is less likely to be disturbed
		if s.timed.WindowsUnsteady-unsteady == len(got.windows) {
			if shared++; shared == giveUpAfter {
				return false, nil
			}
		}
		if busy++; busy%moveAfter == 0 {
			if err := s.relocate(); err != nil { // also measures the rate, in case that has changed
				return false, err
			}
		}
	}
}

// One window in missingShare may be missing.
const missingShare = 6

func countMissing(all []placement) (n int) {
	for _, p := range all {
		n += len(p.missing)
	}
	return n
}

// planRun plans a child run of at most limit of the missing windows. It also returns the placement of each pair.
func (t *TSC) planRun(p Plan, all []placement, limit, runs int) (plan runPlan, placements []*placement) {
	plan = runPlan{
		pairs:   make([]pairPlan, 0, len(all)),
		samples: 1, rows: windowRows, wait: waitPolls, polls: windowPolls,
		idle: t.longestIdle(), idleStores: t.longestIdleStores(), vectorBits: p.VectorBits,
	}
	for i := range all {
		at := &all[i]
		offsets := at.missing[:min(limit, len(at.missing))]
		if len(offsets) == 0 {
			continue
		}
		pair := pairPlan{
			short:   image{at.Short.Entry, p.Warm + harness.WarmFor(runs), runs, at.Short.spread()},
			long:    image{at.Long.Entry, p.Warm + harness.WarmFor(runs), runs, at.Long.spread()},
			offsets: offsets,
		}
		if !at.mapped {
			pair.setup = at.remap
		}
		pair.setup = append(pair.setup, tracee.Run(t.resetImage, 1))
		plan.pairs = append(plan.pairs, pair)
		placements = append(placements, at)
		at.mapped = false // next time
		limit -= len(offsets)
	}
	return plan, placements
}

// keepUndisturbed returns a child run's undisturbed windows and the clock's rate, and updates the statistics.
func (s *series) keepUndisturbed(got childRun, placements []*placement) (kept []window, rate float64) {
	t := &s.timed
	for _, w := range got.windows {
		t.SamplesDropped += windowSamples*w.polls - w.samples() // polls without a sample
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
		if !w.complete {
			t.WindowsUnsteady++
			continue
		}
		if w.clockMoved(s.clock, s.rate.ticks) {
			t.WindowsDrifted++
			continue
		}
		if s.mustRepeat(w, LayoutOf(placements[w.pair].place, w.offset)) {
			t.WindowsUnsteady++
			t.SamplesDropped += w.samples()
			continue
		}
		kept = append(kept, w)
		t.SamplesKept += w.samples()
		t.TimedSeconds += w.ticks() / s.report.TicksPerSecond
	}
	s.watchIdle(kept, rate)
	return kept, rate
}

// mostRetries limits how often in a row a layout's window is repeated: in some layouts the timings always disagree.
const mostRetries = 3

// mustRepeat reports whether to repeat a window because its timings disagree. If they do in more than half of the
// windows, the block is the cause: some draw a speed each time an image begins.
func (s *series) mustRepeat(w window, l Layout) bool {
	if !w.disagrees(s.clock) {
		s.agree++
	} else if s.disagree++; s.disagree <= s.agree+passWindows && s.retries[l] < mostRetries {
		s.retries[l]++
		return true
	}
	s.retries[l] = 0
	return false
}

// learnRate updates the clock rate from this child run, one reading per window, and returns the rate during the run,
// or NaN without readings. With few readings a single clock step widens the interval, which is not a drift.
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

func (t *TSC) TimeMidpoint(b Block, pair Pair, offsets []int, p Plan) (timed Timed, err error) {
	b.Refill()
	s := series{TSC: t, plan: p, timed: Timed{Spent: Spent{RunsPerSample: p.RunsPerSample}}}
	midpoint := []placement{{Pair: pair, remap: p.Remap, missing: offsets}}
	_, err = s.takeWindows(midpoint, 1, time.Now().Add(p.Budget))
	return Timed{Windows: midpoint[0].windows}, err // without statistics: these windows are not the block's
}

// FirstRuns times images that store their start, n runs in turn, or fewer beside other work: each after the branch predictor was untrained, and
// beside a later run of another image. It returns by how many cycles the first runs are longer.
func (t *TSC) FirstRuns(b Block, first []Image, later Image, n int, p Plan) (extra []float64, err error) {
	b.Refill()
	s := series{TSC: t, plan: p}
	plan := runPlan{
		samples: 1, rows: startRows, wait: waitPolls, polls: windowPolls,
		idle: t.longestIdle(), idleStores: t.longestIdleStores(), vectorBits: p.VectorBits,
	}
	for i, im := range first {
		setup := []tracee.Op{tracee.Run(t.resetImage, 1), tracee.Run(t.untrain, 0)}
		if i == 0 {
			setup = slices.Concat(p.Remap, setup)
		}
		plan.pairs = append(plan.pairs, pairPlan{setup, image{entry: im.Entry, runs: 1}, image{entry: later.Entry, warm: p.Warm, runs: 1}, oneWindow})
	}
	cold := true // the first child run fills the caches
	for deadline, tries := time.Now().Add(p.Budget), 0; len(extra) < n && tries < giveUpAfter && time.Now().Before(deadline); tries++ {
		got, err := s.run(plan)
		if err != nil {
			return nil, err
		}
		kept, rate := s.keepUndisturbed(got, slices.Repeat([]*placement{{}}, len(first)))
		if cold {
			cold = false
			continue
		}
		for _, w := range kept {
			extra = append(extra, (w.perRun[0][0]-w.perRun[1][0])/rate)
			tries = 0
		}
	}
	return extra, nil
}

// recordedReplicates is the number for each block in a recording, whatever its interval: every layout four times.
const recordedReplicates = 8 * passReplicates

// record records the windows of a child run, except those of the midpoint.
func (s *series) record(got childRun, placements []*placement) {
	if s.Record == nil || len(s.pairs) == 0 {
		return
	}
	b := &s.Record.Blocks[s.number]
	b.Short, b.Long = s.pairs[0].Short.Iterations, s.pairs[0].Long.Iterations
	for _, w := range got.windows {
		p := placements[w.pair]
		if p.Long.Iterations != b.Long {
			continue
		}
		at := recording.Window{Replicate: p.number, Layout: int(LayoutOf(p.place, w.offset)), Switched: got.switches > 0}
		if w.samples() > 0 {
			at.Probe = uint64(w.columns[columnProbe][0])
			for _, chain := range w.chains() {
				at.Chains = append(at.Chains, uint64(chain[0]))
			}
			at.Runs = w.raw
		}
		b.Windows = append(b.Windows, at)
	}
}
