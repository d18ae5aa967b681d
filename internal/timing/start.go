package timing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// A start learns the clock's step and rate, and how long the contention probe takes on an idle core. Nothing that is known of the
// core decides that: it samples the probe beside the chains, whatever else runs meanwhile, and takes the probe's fastest mode for
// idle, since other work can only slow it. What is known of the core only ends the search early. Where it does not, a start goes
// from CPU to CPU until its tries are used up, and then takes the fastest mode that any of them showed.

const (
	chainWarm = 1
	// stepSamples have 200 readings, from which the clock's step follows.
	stepSamples = 40
	// warmSamples do not count: the first some ten of new code are slower by up to a third (Zen 4).
	warmSamples = 20
	// startSamples are those of a try. They take some 1 ms, a third of the shortest slice of CPU time that Linux gives a process.
	startSamples = 100
	// leastIdle are the idle samples that the check of the multiply chain takes: their mean is within 0.2 % where the clock steps by 26 ticks.
	leastIdle = 50
	// idleShare is the least share of a try's samples that are idle, or the next try is made elsewhere.
	idleShare = 0.25
	// unconfirmedTries are those after which a fastest mode that nothing confirms is taken. With the pauses they span 60 ms, and other work on
	// the sibling of a virtual CPU came and went within 20 (a hundred minutes on Zen 4).
	unconfirmedTries = 12
	// startLimit ends a start that has not found what it looks for. It is half of what a user waits for a first number on a busy machine.
	startLimit = 500 * time.Millisecond
	startPause = 5 * time.Millisecond
	burstCount = 200
	// interrupted is how long a sample takes at least that was interrupted, as a multiple of the usual: on a fast core 10 % of its
	// 34,000 cycles are 0.7 µs, less than any interrupt lasts.
	interrupted = 1.1

	// Each loop of the contention probe lasts at least this many steps of the clock, so that a single step does not
	// decide between idle and busy.
	probeSteps      = 30
	probeIterations = 64 // iterations of a loop at least: about 1,000 cycles
	// A fenced clock reading takes at most this many cycles: 40 on Skylake, 50 on Zen 5.
	readingCycles = 60
	// anyReading is longer than every reading of the probe: no core is busy.
	anyReading = math.MaxUint32
)

// oneWindow are the offsets of a pair with a single window.
var oneWindow = []int{0}

// calibrate is the start of the first child. An end of ctx ends it between two tries.
func (t *TSC) calibrate(ctx context.Context) error {
	began, ticks := time.Now(), host.Ticks()
	t.probe = harness.Probe{Iterations: probeIterations}
	t.emit(clock.TSC{StepTicks: 1})
	live := &liveStart{TSC: t, ctx: ctx, deadline: began.Add(startLimit), multiply: t.multiplyChains()}
	w, err := live.sample(stepSamples)
	if err != nil {
		return err
	}
	var readings []uint64
	for _, reading := range slices.Concat(w.columns...) {
		readings = append(readings, uint64(reading))
	}
	step := clock.StepOf(readings)
	t.probe.Iterations *= max(1, int(math.Ceil(probeSteps*step/slices.Min(w.columns[columnProbe]))))
	t.probe.Nops = t.CPU.NopsPerCycle != 0
	t.emit(clock.TSC{StepTicks: step})
	live.multiply = t.multiplyChains()
	if _, err := live.sample(warmSamples); err != nil {
		return err
	}

	t.Record.Begin(hash(t.child.Code()[:t.images-layout.Code]), t.probe.Iterations, t.probe.Nops, step)
	s := start{clock: t.clock, confirmed: t.confirms}
	found, err := s.find(live)
	if err != nil {
		return err
	}
	t.idle, t.rate = found.idle, clockRate{ticks: found.rate}
	t.report = Report{
		Name: t.clock.Name(), Method: t.clock.Describe(), StepTicks: step,
		MultiplyCycles: found.multiply, ProbeIdle: found.idle, IdleConfirmed: found.confirmed, Shared: found.shared, Doubt: t.doubt(found),
	}
	bursts, err := t.timeBursts()
	if err != nil {
		return err
	}
	t.idleStores = t.idleBurst(bursts)
	t.report.TicksPerSecond = float64(host.Ticks()-ticks) / time.Since(began).Seconds()
	t.Record.End(bursts, t.report.TicksPerSecond)
	return nil
}

// hash names code in a recording.
func hash(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:8])
}

// startReadings is where the readings of a start come from: a child, or a recording of one.
type startReadings interface {
	// sample times the probe and the chains so many times, whatever else runs on the CPU.
	sample(n int) (window, error)
	// next pauses and goes on to the next CPU; more is false when the time for a start is up.
	next() (more bool, err error)
}

// start is what the tries of a start say.
type start struct {
	clock     clock.Clock
	confirmed func(idle float64) bool // whether this is known to be the probe's time on an idle core
	tries     []startTry
}

// startTry is the readings of one try, and the clock's rate during it.
type startTry struct {
	window
	rate   float64
	cycles []float64 // of the probe
}

// found is what a start has found.
type found struct {
	rate, idle, multiply float64
	shared               float64 // share of the samples that other work slowed or interrupted
	confirmed            bool
}

// usable reports whether an unfinished start is of use: a sibling can slow adds by 4 % and multiplies by less, but not a clock make sense that does not.
func (f found) usable() bool {
	whole := math.Round(f.multiply)
	return clock.Whole(f.multiply) || clock.Whole(whole) && f.shared > idleShare && math.Abs(f.multiply-whole) < 0.1*whole
}

// find makes tries until one finds an idle core.
func (s *start) find(from startReadings) (found, error) {
	for {
		w, err := from.sample(startSamples)
		if err != nil {
			return found{}, err
		}
		s.add(w)
		f, ok := s.judge()
		if ok && (f.confirmed || len(s.tries) >= unconfirmedTries) {
			return f, nil
		}
		more, err := from.next()
		switch {
		case err != nil:
			return found{}, err
		case more:
		case !f.usable():
			return found{}, s.useless(f)
		default:
			return f, nil
		}
	}
}

func (s *start) add(w window) {
	try := startTry{window: w, rate: s.clock.Rate(w.chains(2)).Value}
	try.cycles = probeCycles(w, s.clock)
	s.tries = append(s.tries, try)
}

// judge is what the tries say so far. It is ok if the last one has enough idle samples, and multiplies take a whole number of cycles.
func (s *start) judge() (f found, ok bool) {
	var all []float64
	for _, try := range s.tries {
		all = append(all, try.cycles...)
	}
	idle, isMode := fastestMode(all, s.clock.Step()/s.tries[0].rate)
	if !isMode {
		return f, false
	}
	f.idle, f.confirmed = idle, s.confirmed(idle)
	var multiplies [2][]float64 // of idle samples: the chains of multiplies
	var adds, here [2][]float64 // their chains of adds, and those of the last try
	var disturbed, total float64
	for _, try := range s.tries {
		here = [2][]float64{}
		limit := longest(idle, try.rate, s.clock)
		columns := try.columns
		typical := make([]float64, len(columns))
		for k, c := range columns {
			typical[k] = stat.Median(c)
		}
		for i, ticks := range columns[columnProbe] {
			var sum, usual float64
			for k, c := range columns {
				sum, usual = sum+c[i], usual+typical[k]
			}
			total++
			if ticks > limit || sum > interrupted*usual {
				disturbed++
				continue
			}
			for k := range here {
				multiplies[k] = append(multiplies[k], columns[3+k][i])
				here[k], adds[k] = append(here[k], columns[1+k][i]), append(adds[k], columns[1+k][i])
			}
		}
	}
	f.shared = disturbed / total
	f.rate = s.clock.Rate(adds[:]).Value
	f.multiply = s.clock.Rate(multiplies[:]).Value / f.rate
	enough := float64(len(here[0])) >= idleShare*float64(s.tries[len(s.tries)-1].samples())
	switch ok = enough && len(adds[0]) >= leastIdle && clock.Whole(f.multiply); {
	case ok:
		f.rate = s.clock.Rate(here[:]).Value
	case len(adds[0]) > 0:
		f.rate = s.clock.FastRate(adds[:]) // a sibling slows the others
	}
	return f, ok
}

// useless is why a start found nothing to measure by.
func (s *start) useless(f found) error {
	seen := "readings of the contention probe have no fastest mode"
	if f.idle != 0 {
		seen = fmt.Sprintf("an imul seems to take %.3f cycles, which is no whole number of at least %d", f.multiply, clock.LeastMultiply)
	}
	e := &verdict.HostError{
		Missing: fmt.Sprintf("the time-stamp counter does not time this CPU's work: in %d tries %s", len(s.tries), seen),
		Remedy:  "measure on the hardware itself or in a virtual machine that runs on it, not in an emulated one",
	}
	if f.shared > 0.5 {
		e.Missing += fmt.Sprintf(", while other work disturbed %.0f %% of the samples", 100*f.shared)
		e.Remedy, e.Busy = "keep other work off this core and its SMT sibling, or choose another CPU with -cpus", true
	}
	return e
}

// liveStart has a child make the tries of a start.
type liveStart struct {
	*TSC
	ctx      context.Context
	deadline time.Time
	multiply [2]image
}

func (l *liveStart) sample(n int) (window, error) {
	got, err := l.run(runPlan{
		pairs:   []pairPlan{{nil, l.multiply[0], l.multiply[1], oneWindow}},
		samples: n, times: 1, polls: n + 1, idle: anyReading,
	})
	if err != nil {
		return window{}, err
	}
	l.Record.Try(got.windows[0].columns)
	return got.windows[0], nil
}

func (l *liveStart) next() (more bool, err error) {
	if err := l.ctx.Err(); err != nil {
		return false, err
	}
	if time.Now().After(l.deadline) {
		return false, nil
	}
	select {
	case <-l.ctx.Done():
		return false, l.ctx.Err()
	case <-time.After(startPause):
	}
	return true, l.CPUs.Next(l.child)
}

// multiplyChains places the chains of the cross-check where blocks go later.
func (t *TSC) multiplyChains() [2]image {
	var images [2]image
	e := asm.NewEmitter(t.images)
	for i, c := range clock.MultiplyChains() {
		images[i] = image{c.Emit(e, t.clock.Emit), chainWarm, c.Runs()}
	}
	copy(t.child.Code()[t.images-layout.Code:], e.Bytes())
	return images
}

// probeCycles are the readings of the contention probe, each by the clock's rate around it: in a window
// of that many samples the core's clock may move by more than the difference between idle and busy.
func probeCycles(w window, c clock.Clock) (cycles []float64) {
	const around = 3 // samples on either side, for which one step of a coarse clock counts less
	chains := w.chains(2)
	for i, ticks := range w.columns[columnProbe] {
		var near [][]float64
		for _, c := range chains {
			near = append(near, c[max(i-around, 0):min(i+around+1, len(c))])
		}
		cycles = append(cycles, ticks/c.Rate(near).Value)
	}
	return cycles
}

// idleSpread is what readings of the probe on an idle core differ by: on Zen 5 it takes 3,250 to 3,470 cycles, hundreds of times in a row one of
// these, and then another. Beside a sibling it took 6.4 % longer than alone at least, on Cascade Lake.
const idleSpread = 0.06

// fastestMode finds the lowest reading in cycles that has at least a fortieth of the readings within 2 % and a step of the clock above it, and gives the
// median of all readings from there to idleSpread above.
func fastestMode(readings []float64, step float64) (cycles float64, ok bool) {
	s := slices.Clone(readings)
	slices.Sort(s)
	need := max(len(s)/40, 5)
	for i := 0; i+need <= len(s); i++ {
		if s[i+need-1] <= 1.02*s[i]+step {
			above, _ := slices.BinarySearch(s, (1+idleSpread)*s[i])
			return stat.Median(s[i:above]), true
		}
	}
	return 0, false
}

// confirms reports whether a time of the probe is known to be that of an idle core: its adds, nops and loop control take that long at the core's
// width, a clock reading and a step of the clock included.
func (t *TSC) confirms(idle float64) bool {
	if t.CPU.AddsPerCycle == 0 {
		return false
	}
	ideal := float64(harness.ContentionAdds+2) / t.CPU.AddsPerCycle
	if t.probe.Nops {
		ideal += float64(harness.ContentionNops+2) / t.CPU.NopsPerCycle
	}
	step := t.clock.Step()
	if t.rate.ticks > 0 {
		step /= t.rate.ticks
	}
	return idle <= (1+idleSpread)*ideal*float64(t.probe.Iterations)+readingCycles+step
}

// doubt says what a start could not tell; "" if nothing.
func (t *TSC) doubt(f found) string {
	switch {
	case !clock.Whole(f.multiply):
		return fmt.Sprintf("other work disturbed %.0f %% of the samples that the clock was calibrated with, and an imul seemed to take %.3f cycles: cycles may be off by as much", 100*f.shared, f.multiply)
	case f.confirmed || t.CPU.AddsPerCycle == 0:
		return ""
	}
	return fmt.Sprintf("no CPU was seen idle: at its fastest the contention probe took %.0f cycles, more than on an idle core of this kind; if another hardware thread shares the core all the time, blocks are measured beside it", f.idle)
}

// timeBursts times bursts of stores.
func (t *TSC) timeBursts() (ticks []float64, err error) {
	if err := t.child.Complete([]tracee.Op{
		tracee.Put(layout.SlotOut, layout.Samples), tracee.Put(layout.SlotSamples, burstCount), tracee.Run(t.bursts, 0),
	}, runLimit, "timing bursts of stores"); err != nil {
		return nil, err
	}
	for i := range uint64(burstCount) {
		ticks = append(ticks, float64(sampled(t.child.Samples(), layout.Samples+8*i)))
	}
	return ticks, nil
}

// idleBurst is how many cycles a burst of stores takes on a core of which no other hardware thread
// is awake; 0 where most are not as fast as the fastest, which does not tell.
func (t *TSC) idleBurst(ticks []float64) float64 {
	var cycles []float64
	for _, b := range ticks {
		cycles = append(cycles, b/t.rate.ticks)
	}
	mode, ok := fastestMode(cycles, t.clock.Step()/t.rate.ticks)
	fast := 0
	for _, b := range ticks {
		if b <= longest(mode, t.rate.ticks, t.clock) {
			fast++
		}
	}
	if !ok || fast < len(ticks)*3/4 {
		return 0
	}
	return mode
}

// longest is the longest reading in ticks that still counts as these cycles: 4 % and a step above.
func longest(cycles, rate float64, c clock.Clock) float64 {
	return math.Floor(cycles*rate*1.04 + c.Step())
}

// longestIdle is the longest reading of the probe on an idle core.
func (t *TSC) longestIdle() uint64 { return uint64(longest(t.idle, t.rate.ticks, t.clock)) }

// longestIdleStores is the same of the burst of stores, or 0.
func (t *TSC) longestIdleStores() uint64 {
	if t.idleStores == 0 {
		return 0
	}
	return uint64(longest(t.idleStores, t.rate.ticks, t.clock))
}
