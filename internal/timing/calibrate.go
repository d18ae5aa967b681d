package timing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

const (
	chainWarm          = 1
	calibrationSamples = 200
	calibrationLimit   = 10 * time.Second
	// The contention probe lasts at least this many steps of the clock, so that a single step does not
	// decide between idle and busy.
	probeSteps      = 30
	probeIterations = 64 // iterations of its loop at least: about 1,000 cycles
	// A fenced clock reading takes at most this many cycles: 40 on Skylake, 50 on Zen 5.
	readingCycles = 60
	// anyReading is longer than every reading of the probe: no core is busy.
	anyReading = math.MaxUint32
)

// oneWindow are the offsets of a pair with a single window.
var oneWindow = []int{0}

// calibrate learns the clock's step, its rate, whether adds take a cycle, and how fast the
// contention probe is on an idle core.
func (t *TSC) calibrate() error {
	t.probeIterations = probeIterations
	if err := t.emit(clock.TSC{StepTicks: 1}); err != nil {
		return err
	}
	got, err := t.run(calibrationPlan(t.multiplyChains(), anyReading))
	if err != nil {
		return err
	}
	began, ticks := time.Now(), t.child.Word(lastRun)
	w := got.windows[0]
	step := clock.StepOf(slices.Concat(w.columns...))
	if more := t.probeIterations * int(math.Ceil(probeSteps*step/stat.Median(floats(w.columns[0])))); more > t.probeIterations {
		t.probeIterations = more
	}
	if err := t.emit(clock.TSC{StepTicks: step}); err != nil {
		return err
	}
	if err := t.findIdle(); err != nil {
		return err
	}
	if err := t.findIdleStores(); err != nil {
		return err
	}
	t.report.TicksPerSecond = float64(t.child.Word(lastRun)-ticks) / time.Since(began).Seconds()
	return nil
}

// lastRun is where the clock at the end of the last run stands.
const lastRun = layout.Times + 8

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

func calibrationPlan(multiply [2]image, idle uint64) runPlan {
	return runPlan{
		pairs:   []pairPlan{{nil, multiply[0], multiply[1], oneWindow}},
		samples: calibrationSamples, polls: 10 * calibrationSamples, idle: idle,
	}
}

// findIdle tries one CPU after the other until one is idle for long enough to calibrate.
func (t *TSC) findIdle() error {
	multiply := t.multiplyChains()
	deadline := time.Now().Add(calibrationLimit)
	var latency float64 // of a multiplication, the last that was measured
	for {
		found, l, err := t.calibrateHere(multiply)
		if err != nil || found {
			return err
		}
		if l != 0 {
			latency = l
		}
		if time.Now().After(deadline) {
			return &verdict.HostError{
				Missing: fmt.Sprintf("CPU %d is not left alone for long enough to calibrate its clock (last multiply latency %.3f cycles, contention probe %.0f cycles)", t.CPUs.Current(), latency, t.idle),
				Remedy:  "choose another CPU with -cpu, or keep other work off this core and its SMT sibling",
			}
		}
		if err := t.relocate(); err != nil {
			return err
		}
	}
}

// calibrateHere samples without a gate. Where the fastest readings of the probe form a mode that
// the core's width explains, it samples again in that mode alone and checks the multiply chain.
func (t *TSC) calibrateHere(multiply [2]image) (found bool, latency float64, err error) {
	got, err := t.run(calibrationPlan(multiply, anyReading))
	if err != nil {
		return false, 0, err
	}
	rate := got.rate(t.clock).Value
	if got.switches > 0 || math.IsNaN(rate) {
		return false, 0, nil
	}
	idle, ok := fastestMode(t.probeCycles(got.windows[0]))
	if !ok || !t.plausible(idle) {
		return false, 0, nil
	}
	t.idle, t.rate = idle, clockRate{ticks: rate}
	if got, err = t.run(calibrationPlan(multiply, t.longestIdle())); err != nil {
		return false, 0, err
	}
	gated := got.windows[0]
	if gated.samples() < calibrationSamples/4 {
		return false, 0, nil
	}
	rate = got.rate(t.clock).Value
	chains := len(t.chains)
	latency, ok = clock.CheckMultiply(gated.floats(columnChains+chains, columnChains+chains+1), rate)
	if !ok {
		return false, latency, nil
	}
	t.rate = clockRate{ticks: rate}
	t.report = Report{
		Name: t.clock.Name(), Method: t.clock.Describe(), StepTicks: t.clock.Step(),
		MultiplyCycles: latency, ProbeIdle: idle,
	}
	return true, latency, nil
}

// probeCycles are the readings of the contention probe, each by the clock's rate around it: in a window
// of that many samples the core's clock may move by more than the difference between idle and busy.
func (t *TSC) probeCycles(w window) (cycles []float64) {
	const around = 3 // samples on either side, for which one step of a coarse clock counts less
	chains := w.floats(columnChains, columnChains+len(t.chains)-1)
	for i, ticks := range w.columns[columnProbe] {
		var near [][]float64
		for _, c := range chains {
			near = append(near, c[max(i-around, 0):min(i+around+1, len(c))])
		}
		cycles = append(cycles, float64(ticks)/t.clock.Rate(near).Value)
	}
	return cycles
}

// fastestMode is the fastest mode of readings in cycles: the lowest value that has at least a
// twentieth of the readings within 2 % above it.
func fastestMode(readings []float64) (cycles float64, ok bool) {
	s := slices.Clone(readings)
	slices.Sort(s)
	need := max(len(s)/20, 5)
	for i := 0; i+need <= len(s); i++ {
		if s[i+need-1] <= 1.02*s[i] {
			return stat.Median(s[i : i+need]), true
		}
	}
	return 0, false
}

// findIdleStores learns how fast a burst of stores is on a core of which no other hardware thread
// is awake. Where most readings are not as fast as the fastest, it does not tell.
func (t *TSC) findIdleStores() error {
	t.idleStores = 0
	stop, err := t.child.Do([]tracee.Op{
		tracee.Put(layout.SlotOut, layout.Samples), tracee.Put(layout.SlotSamples, calibrationSamples), tracee.Run(t.bursts, 0),
	}, runLimit)
	if err == nil {
		err = stop.Completed("timing bursts of stores")
	}
	if err != nil {
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

// plausible reports whether a time of the probe can be that of an unshared core: its adds and
// loop control at the full width, and not much more. On a core of unknown width anything
// passes.
func (t *TSC) plausible(idle float64) bool {
	if t.CPU.AddsPerCycle == 0 {
		return true
	}
	ideal := float64(t.probeIterations*(harness.ContentionAdds+2)) / t.CPU.AddsPerCycle
	return idle <= 1.02*ideal+readingCycles
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
// clock rate there.
func (t *TSC) relocate() error {
	if err := t.CPUs.Next(t.child); err != nil {
		return err
	}
	return t.measureRate()
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
	if err := t.measureRate(); err != nil {
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
func (t *TSC) measureRate() error {
	chain := t.chains[0]
	got, err := t.run(runPlan{pairs: []pairPlan{{nil, chain, chain, oneWindow}}, samples: 32, polls: 64, idle: anyReading, vectorBits: t.width})
	if err != nil {
		return err
	}
	d := got.windows[0].floats(columnChains, columnChains+len(t.chains)-1)
	if rate := t.clock.FastRate(d); rate > 0 {
		t.rate = clockRate{ticks: rate}
	}
	return nil
}
