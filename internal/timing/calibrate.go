package timing

import (
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

const (
	chainWarm          = 1
	calibrationSamples = 200
	// leastCalibration is as many as the check of the multiply chain takes. So few pass within 0.3 ms, the many
	// take 1 ms, in which the scheduler of a busy machine takes the CPU away again and again.
	leastCalibration = calibrationSamples / 4
	manyTries        = 6 // with many samples
	// With 32 runs of bbprof at once on 2 CPUs, none waited for longer than 20 s.
	calibrationLimit = time.Minute
	sayAfter         = 2 * time.Second // that it waits
	// longestPause is the longest between two tries. A process that has slept gets a whole slice
	// of the CPU next.
	longestPause = 20 * time.Millisecond
	// Each loop of the contention probe lasts at least this many steps of the clock, so that a single step does not
	// decide between idle and busy.
	probeSteps      = 30
	probeIterations = 64 // iterations of a loop at least: about 1,000 cycles
	// A fenced clock reading takes at most this many cycles: 40 on Skylake, 50 on Zen 5.
	readingCycles = 60
	// nopsStart is how much longer the first iterations of nops take, on Zen 5: 3,339 to 3,409 cycles are the probe's with
	// 128 iterations, 6,563 to 6,591 with 256.
	nopsStart = 200
	// anyReading is longer than every reading of the probe: no core is busy.
	anyReading = math.MaxUint32
)

// oneWindow are the offsets of a pair with a single window.
var oneWindow = []int{0}

// calibrate learns the clock's step, its rate, whether adds take a cycle, and how fast the
// contention probe is on an idle core.
func (t *TSC) calibrate() error {
	t.probe = harness.Probe{Iterations: probeIterations}
	t.emit(clock.TSC{StepTicks: 1})
	got, err := t.run(calibrationPlan(t.multiplyChains(), calibrationSamples, anyReading))
	if err != nil {
		return err
	}
	began, ticks := time.Now(), host.Ticks()
	w := got.windows[0]
	var readings []uint64
	for _, reading := range slices.Concat(w.columns...) {
		readings = append(readings, uint64(reading))
	}
	step := clock.StepOf(readings)
	t.probe.Iterations *= max(1, int(math.Ceil(probeSteps*step/slices.Min(w.columns[columnProbe]))))
	t.probe.Nops = t.CPU.NopsPerCycle != 0
	t.emit(clock.TSC{StepTicks: step})
	if err := t.findIdle(); err != nil {
		return err
	}
	if err := t.findIdleStores(); err != nil {
		return err
	}
	t.report.TicksPerSecond = float64(host.Ticks()-ticks) / time.Since(began).Seconds()
	return nil
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

func calibrationPlan(multiply [2]image, samples int, idle uint64) runPlan {
	return runPlan{
		pairs:   []pairPlan{{nil, multiply[0], multiply[1], oneWindow}},
		samples: samples, times: 1, polls: 10 * samples, idle: idle,
	}
}

// findIdle tries one CPU after the other until one is idle for long enough to calibrate.
func (t *TSC) findIdle() error {
	multiply := t.multiplyChains()
	began, said := time.Now(), false
	var seen sighting
	for try := 0; ; try++ {
		samples := calibrationSamples
		if try >= manyTries {
			samples = leastCalibration * 3 / 2 // some are dropped
			time.Sleep(min(time.Duration(try)*time.Millisecond, longestPause))
		}
		found, err := t.calibrateHere(multiply, samples, &seen)
		if err != nil || found {
			return err
		}
		waited := time.Since(began)
		if waited > calibrationLimit {
			return &verdict.HostError{
				Missing: fmt.Sprintf("no CPU is left alone for long enough to calibrate its clock; in %v of waiting %v", waited.Round(time.Second), seen),
				Remedy:  "choose another CPU with -cpus, or keep other work off this core and its SMT sibling", Busy: true,
			}
		}
		if waited > sayAfter && !said && t.Waiting != nil {
			said = true
			t.Waiting(fmt.Sprintf("other work shares the CPU; waiting up to %v for it to be idle, to calibrate the clock", calibrationLimit))
		}
		if err := t.relocate(); err != nil {
			return err
		}
	}
}

// sighting is what stood in the way of calibrating, by the number of tries.
type sighting struct {
	switched, busy int
	latency        float64 // of a multiplication, the last that was measured, or 0
}

func (s sighting) String() string {
	text := fmt.Sprintf("%d tries saw a context switch and %d a busy core", s.switched, s.busy)
	if s.latency != 0 {
		text += fmt.Sprintf(" (an imul seemed to take %.3f cycles)", s.latency)
	}
	return text
}

// calibrateHere samples without a gate. Where the fastest readings of the probe form a mode that
// the core's width explains, it samples again in that mode alone and checks the multiply chain.
func (t *TSC) calibrateHere(multiply [2]image, samples int, seen *sighting) (found bool, err error) {
	got, err := t.run(calibrationPlan(multiply, samples, anyReading))
	if err != nil {
		return false, err
	}
	if got.switches > 0 {
		seen.switched++
		return false, nil
	}
	seen.busy++ // unless it is found
	rate := got.rate(t.clock).Value
	if math.IsNaN(rate) {
		return false, nil
	}
	idle, ok := fastestMode(t.probeCycles(got.windows[0]))
	if !ok || !t.plausible(idle) {
		return false, nil
	}
	t.idle, t.rate = idle, clockRate{ticks: rate}
	if got, err = t.run(calibrationPlan(multiply, samples, t.longestIdle())); err != nil {
		return false, err
	}
	gated := got.windows[0]
	if gated.samples() < leastCalibration {
		return false, nil
	}
	rate = got.rate(t.clock).Value
	chains := len(t.chains)
	latency, ok := clock.CheckMultiply(gated.columns[columnChains+chains:], rate)
	if seen.latency = latency; !ok {
		return false, nil
	}
	t.rate = clockRate{ticks: rate}
	t.report = Report{
		Name: t.clock.Name(), Method: t.clock.Describe(), StepTicks: t.clock.Step(),
		MultiplyCycles: latency, ProbeIdle: idle,
	}
	return true, nil
}

// probeCycles are the readings of the contention probe, each by the clock's rate around it: in a window
// of that many samples the core's clock may move by more than the difference between idle and busy.
func (t *TSC) probeCycles(w window) (cycles []float64) {
	const around = 3 // samples on either side, for which one step of a coarse clock counts less
	chains := w.chains(len(t.chains))
	for i, ticks := range w.columns[columnProbe] {
		var near [][]float64
		for _, c := range chains {
			near = append(near, c[max(i-around, 0):min(i+around+1, len(c))])
		}
		cycles = append(cycles, ticks/t.clock.Rate(near).Value)
	}
	return cycles
}

// idleSpread is what readings of the probe on an idle core differ by: on Zen 5 it takes 3,250 to 3,470 cycles, hundreds of times in a row one of
// these, and then another (docs/precision-notes.md, "The probe on an idle core"). Beside a sibling it took 6.4 % longer than alone at least, on Cascade Lake.
const idleSpread = 0.06

// fastestMode finds the lowest reading in cycles that has at least a twentieth of the readings within 2 % above it, and gives the median of all
// readings from there to idleSpread above.
func fastestMode(readings []float64) (cycles float64, ok bool) {
	s := slices.Clone(readings)
	slices.Sort(s)
	need := max(len(s)/20, 5)
	for i := 0; i+need <= len(s); i++ {
		if s[i+need-1] <= 1.02*s[i] {
			above, _ := slices.BinarySearch(s, (1+idleSpread)*s[i])
			return stat.Median(s[i:above]), true
		}
	}
	return 0, false
}

// raiseIdle takes the fastest mode of the probe's readings for that of an idle core if it is plausible for the core's width, but above the present
// limit: where the idle time was learned from nothing but the fastest readings, all others are taken for those of a busy core from then on.
func (t *TSC) raiseIdle(readings []float64) {
	mode, ok := fastestMode(readings)
	known := t.CPU.AddsPerCycle != 0 // else anything is plausible
	if ok && known && t.plausible(mode) && uint64(mode*t.rate.ticks) > t.longestIdle() {
		t.idle, t.report.ProbeIdle = mode, mode
	}
}

// findIdleStores learns how fast a burst of stores is on a core of which no other hardware thread
// is awake. Where most readings are not as fast as the fastest, it does not tell.
func (t *TSC) findIdleStores() error {
	t.idleStores = 0
	if err := t.child.Complete([]tracee.Op{
		tracee.Put(layout.SlotOut, layout.Samples), tracee.Put(layout.SlotSamples, calibrationSamples), tracee.Run(t.bursts, 0),
	}, runLimit, "timing bursts of stores"); err != nil {
		return err
	}
	var readings []float64
	for i := range uint64(calibrationSamples) {
		readings = append(readings, float64(sampled(t.child.Samples(), layout.Samples+8*i))/t.rate.ticks)
	}
	mode, ok := fastestMode(readings)
	if !ok {
		return nil
	}
	fast := 0
	for _, r := range readings {
		if uint64(r*t.rate.ticks) <= t.longest(mode) {
			fast++
		}
	}
	if fast >= calibrationSamples*3/4 {
		t.idleStores = mode
	}
	return nil
}

// plausible reports whether a time of the probe can be that of an unshared core: its adds and nops and
// loop control at the full width, and not much more. On a core of unknown width anything
// passes.
func (t *TSC) plausible(idle float64) bool {
	if t.CPU.AddsPerCycle == 0 {
		return true
	}
	ideal, around := float64(harness.ContentionAdds+2)/t.CPU.AddsPerCycle, float64(readingCycles)
	if t.probe.Nops {
		ideal += float64(harness.ContentionNops+2) / t.CPU.NopsPerCycle
		around += nopsStart
	}
	return idle <= 1.02*ideal*float64(t.probe.Iterations)+around
}

// longestIdle is the longest reading of the probe on an idle core.
func (t *TSC) longestIdle() uint64 { return t.longest(t.idle) }

// longestIdleStores is the same of the burst of stores, or 0.
func (t *TSC) longestIdleStores() uint64 {
	if t.idleStores == 0 {
		return 0
	}
	return t.longest(t.idleStores)
}

// longest is the longest reading in ticks that still counts as these cycles: 4 % and a step above.
func (t *TSC) longest(cycles float64) uint64 {
	return uint64(cycles*t.rate.ticks*1.04 + t.clock.Step())
}

// relocate moves to the next CPU when another process keeps the current one busy, and measures the
// clock rate there; if the idle time of the probe was too low, it is raised.
func (t *TSC) relocate() error {
	if err := t.CPUs.Next(t.child); err != nil {
		return err
	}
	w, err := t.measureRate()
	if err == nil {
		t.raiseIdle(t.probeCycles(w))
	}
	return err
}

// widen prepares for blocks whose vectors have that many bits. A core that uses wider units runs at
// a lower clock (Intel Optimization Manual, "Intel AVX and AVX-512 frequency"): 12 % lower with 512
// bits on Granite Rapids, where every reading of the contention probe then passed for a busy core.
func (t *TSC) widen(bits int) error {
	bits = max(bits, 128)
	if bits == max(t.width, 128) {
		return nil
	}
	t.width = bits
	known := t.rate
	if _, err := t.measureRate(); err != nil {
		return err
	}
	const same = 0.02 // half of what a reading of the probe may be off
	if math.Abs(t.rate.ticks-known.ticks) < same*known.ticks {
		t.rate = known // of more samples
	}
	return nil
}

// measureRate learns the core's present speed without waiting until it is idle. What shares the
// core can only slow the chain, so the fast half of the samples is asked.
func (t *TSC) measureRate() (window, error) {
	chain := t.chains[0]
	got, err := t.run(runPlan{pairs: []pairPlan{{nil, chain, chain, oneWindow}}, samples: 32, times: 1, polls: 64, idle: anyReading, vectorBits: t.width})
	if err != nil {
		return window{}, err
	}
	w := got.windows[0]
	if rate := t.clock.FastRate(w.chains(len(t.chains))); rate > 0 {
		t.rate = clockRate{ticks: rate}
	}
	return w, nil
}
