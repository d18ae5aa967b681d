package timing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// A start measures the clock's step and rate, and the contention probe's time on an idle core. It samples the probe
// beside the chains, whatever else runs meanwhile, and takes the probe's fastest mode for idle, since other work can
// only slow it. If the core's data confirm it, the search ends; otherwise a start tries one CPU after another, a few
// times. A core that was not seen idle then has the time that the table of cores gives, or, if that
// has none, is not known to be idle before later tries find it so (see idle.go).
const (
	chainWarm        = 1
	stepSamples      = 40    // hold 200 readings, which determine the clock's step
	warmSamples      = 20    // of new code; they do not count
	startSamples     = 100   // per try
	leastIdle        = 50    // idle samples for the check of the multiply chain
	idleShare        = 0.25  // of the samples; a try in which fewer are idle is repeated on another CPU
	unconfirmedShare = 0.5   // of all samples, where no data confirm that they are: beside a changing neighbour fewer are near any mode
	unconfirmedWhole = 0.005 // and a multiply's largest distance from whole cycles: a steady neighbour slows adds by 1 to 4 %, multiplies not at all
	unconfirmedTries = 12    // after these, a start ends without having seen a core that the data confirm to be idle
	startLimit       = 500 * time.Millisecond
	startPause       = 5 * time.Millisecond
	burstCount       = 200
	interrupted      = 1.1 // a sample that takes this multiple of the usual time was interrupted

	probeSteps      = 30             // least steps of the clock in each loop of the contention probe
	probeIterations = 64             // least iterations of a loop
	readingCycles   = 60             // most cycles of a fenced clock reading
	anyReading      = math.MaxUint32 // exceeds every reading of the probe, so that no core counts as busy
)

var oneWindow = []int{0}

// calibrate performs the start in the first child. Cancelling ctx ends it between two tries.
func (t *TSC) calibrate(ctx context.Context) error {
	began, ticks := time.Now(), host.Ticks()
	t.probe = harness.Probe{Iterations: probeIterations}
	t.emit(clock.TSC{StepTicks: 1})
	live := &liveStart{TSC: t, ctx: ctx, deadline: began.Add(startLimit)}
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
	if _, err := live.sample(warmSamples); err != nil {
		return err
	}

	t.Record.Begin(hash(t.child.Code()[:t.images-layout.Code]), t.probe.Iterations, t.probe.Nops, step)
	t.start = start{clock: t.clock, confirmed: t.confirms}
	found, err := t.start.find(live)
	if err != nil {
		return err
	}
	t.rate = clockRate{ticks: found.rate}
	t.report = Report{Name: "tsc", Method: t.clock.Describe(), StepTicks: step, Shared: found.shared}
	t.began(found)
	bursts, err := t.timeBursts()
	if err != nil {
		return err
	}
	t.idleStores = t.idleBurst(bursts)
	t.report.TicksPerSecond = float64(host.Ticks()-ticks) / time.Since(began).Seconds()
	t.Record.End(bursts, t.report.TicksPerSecond)
	return nil
}

// hash identifies code in a recording.
func hash(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:8])
}

// startReadings is the source of a start's readings: a child, or a recording of one.
type startReadings interface {
	// sample times the probe and the chains n times, whatever else runs on the CPU.
	sample(n int) (window, error)
	// next pauses and moves to the next CPU; more is false when the time is up.
	next() (more bool, err error)
}

type start struct {
	clock     clock.TSC
	confirmed func(idle float64) bool // reports whether the core's data confirm this idle time
	tries     []window
	cycles    []float64 // of the probe, in all tries
}

type startResult struct {
	rate, idle, multiply float64
	shared               float64 // share of the samples that other work slowed or interrupted
	confirmed            bool    // the core's data confirm idle
	clean                bool    // enough of the last samples are idle, and multiplies take whole cycles
}

// usable reports whether the clock times the core's work. A sibling can slow adds by 4 % and multiplies by less, but
// cannot turn a wrong clock into a plausible one.
func (f startResult) usable() bool {
	whole := math.Round(f.multiply)
	return clock.Whole(whole) && math.Abs(f.multiply-whole) < 0.1*whole
}

// find makes tries until one finds an idle core.
func (s *start) find(from startReadings) (startResult, error) {
	for {
		w, err := from.sample(startSamples)
		if err != nil {
			return startResult{}, err
		}
		s.tries, s.cycles = append(s.tries, w), append(s.cycles, probeCycles(w, s.clock)...)
		f := s.check()
		if f.clean && f.confirmed || len(s.tries) >= unconfirmedTries && f.usable() {
			return f, nil
		}
		if more, err := from.next(); err != nil {
			return startResult{}, err
		} else if !more && !f.usable() {
			return startResult{}, s.failure(f)
		} else if !more {
			return f, nil
		}
	}
}

// check evaluates the tries so far.
func (s *start) check() (f startResult) {
	rate := func(try window) float64 { return s.clock.Rate(try.chains()).Value }
	idle, isMode := fastestMode(s.cycles, s.clock.Step()/rate(s.tries[0]))
	if !isMode {
		return f
	}
	f.idle, f.confirmed = idle, s.confirmed(idle)
	var multiplies [2][]float64 // chains of multiplies of idle samples
	var adds, here [2][]float64 // chains of adds of idle samples, in all tries and in the last
	var disturbed, total float64
	for _, try := range s.tries {
		here = [2][]float64{}
		limit := idleLimit(idle, rate(try), s.clock)
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
	enough := float64(len(here[0])) >= idleShare*float64(s.tries[len(s.tries)-1].samples()) && len(adds[0]) >= leastIdle
	whole := math.Round(f.multiply)
	likely := f.confirmed || f.shared <= 1-unconfirmedShare && math.Abs(f.multiply-whole) <= unconfirmedWhole*whole
	switch f.clean = enough && clock.Whole(f.multiply) && likely; {
	case f.clean:
		f.rate = s.clock.Rate(here[:]).Value
	case len(adds[0]) > 0:
		f.rate = s.clock.FastRate(adds[:]) // a sibling slows the others
	}
	return f
}

// slowedAdds is the share of its rate that a chain of adds keeps beside a sibling that multiplies do not mind: an imul seemed to take 2.645 cycles
// (Golden Cove).
const slowedAdds = 0.8

func (s *start) failure(f startResult) error {
	seen := "readings of the contention probe have no fastest mode"
	if f.idle != 0 {
		seen = fmt.Sprintf("an imul seems to take %.3f cycles, which is no whole number of at least %d", f.multiply, clock.LeastMultiply)
	}
	e := &verdict.HostError{
		Missing: fmt.Sprintf("the time-stamp counter does not time this CPU's work: in %d tries %s", len(s.tries), seen),
		Remedy:  "measure on the hardware itself or in a virtual machine that runs on it, not in an emulated one",
	}
	disturbed := f.shared > 0.5
	if disturbed {
		e.Missing += fmt.Sprintf(", while other work disturbed %.0f %% of the samples", 100*f.shared)
	}
	if disturbed || f.multiply >= slowedAdds*clock.LeastMultiply && f.multiply < clock.LeastMultiply {
		e.Remedy, e.Busy = "keep other work off this core and its SMT sibling, or choose another CPU with -cpus", true
	}
	return e
}

// liveStart makes the tries of a start in a child.
type liveStart struct {
	*TSC
	ctx      context.Context
	deadline time.Time
}

func (l *liveStart) sample(n int) (window, error) {
	got, err := l.run(runPlan{
		pairs:   []pairPlan{{nil, l.multiplies[0], l.multiplies[1], oneWindow}},
		samples: n, rows: startRows, polls: n + 1, idle: anyReading,
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

// probeCycles converts each reading of the contention probe with the clock's rate around it: in a window
// of this many samples the core's clock may move by more than the difference between idle and busy.
func probeCycles(w window, c clock.TSC) (cycles []float64) {
	const around = 3 // samples on either side, to reduce the effect of one step of a coarse clock
	chains := w.chains()
	for i, ticks := range w.columns[columnProbe] {
		var near [][]float64
		for _, c := range chains {
			near = append(near, c[max(i-around, 0):min(i+around+1, len(c))])
		}
		cycles = append(cycles, ticks/c.Rate(near).Value)
	}
	return cycles
}

// idleSpread is the spread of probe readings on an idle core, less than what a busy sibling adds.
const idleSpread = 0.06

// fastestMode finds the lowest reading with at least a fortieth of the readings within 2 % and a clock step above it.
// It returns the median of all readings from there to idleSpread above, in cycles.
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

func (t *TSC) timeBursts() (ticks []float64, err error) {
	if err := t.child.Complete([]tracee.Op{
		tracee.Put(layout.SlotOut, layout.Samples), tracee.Put(layout.SlotSamples, burstCount), tracee.Run(t.bursts, 0),
	}, runLimit, "timing bursts of stores"); err != nil {
		return nil, err
	}
	for i := range uint64(burstCount) {
		ticks = append(ticks, float64(sampleWord(t.child.Samples(), layout.Samples+8*i)))
	}
	return ticks, nil
}

// idleBurst returns the cycles of a burst of stores on a core whose other hardware threads sleep, or 0 if
// fewer than three quarters of the bursts are that fast, which makes them no indicator.
func (t *TSC) idleBurst(ticks []float64) float64 {
	var cycles []float64
	for _, b := range ticks {
		cycles = append(cycles, b/t.rate.ticks)
	}
	mode, ok := fastestMode(cycles, t.clock.Step()/t.rate.ticks)
	fast := 0
	for _, b := range ticks {
		if b <= idleLimit(mode, t.rate.ticks, t.clock) {
			fast++
		}
	}
	if !ok || fast < len(ticks)*3/4 {
		return 0
	}
	return mode
}

// idleLimit returns the longest reading in ticks that counts as these cycles: 4 % and a clock step above.
func idleLimit(cycles, rate float64, c clock.Clock) float64 {
	return math.Floor(cycles*rate*1.04 + c.Step())
}

func (t *TSC) longestIdle() uint64 { return uint64(idleLimit(t.idle, t.rate.ticks, t.clock)) }

// longestIdleStores is longestIdle for a burst of stores, or 0.
func (t *TSC) longestIdleStores() uint64 {
	if t.idleStores == 0 {
		return 0
	}
	return uint64(idleLimit(t.idleStores, t.rate.ticks, t.clock))
}
