package timing

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/stat"
)

// A window counts only between two readings of the contention probe at the idle level: its time on a core whose other
// hardware thread sleeps. The level comes from the start, and is learnt as long as the session runs, since a start
// beside a steady neighbour sees no idle core:
//
//   - A start whose fastest mode the table of cores confirms has seen an idle core. So has one that was clean without
//     that: no neighbour of the recordings looks so, and the table may be wrong or have no row.
//   - Otherwise the level of a core with a row is the row's: idle moments are recognized when they come.
//   - On any other core no level is known; each block adds a try until one is, and none is accepted before.
//   - A faster mode among the windows kept lowers the level. What was accepted at the higher level is void: users
//     compare its ClockReport.ProbeIdle with the present one.

// began sets the idle level that a start found.
func (t *TSC) began(f startResult) {
	t.report.MultiplyCycles, t.report.IdleConfirmed = f.multiply, f.confirmed && f.clean
	expected, known := t.expectedIdle()
	switch {
	case f.confirmed, f.clean:
		t.setIdle(f.idle)
	case known:
		t.setIdle(expected)
	default:
		t.setIdle(0)
	}
}

// setIdle sets the level; 0 is below every reading, so that the core counts as busy.
func (t *TSC) setIdle(cycles float64) {
	t.idle, t.report.ProbeIdle, t.kept = cycles, cycles, nil
}

const (
	measuredSpread = 0.01 // of the idle level between two sessions, where the table has a measured one
	mostTries      = 24   // that are kept of a core whose idle level is not known: earlier ones say nothing of its present neighbours
)

// expectedIdle returns the probe's time on an idle core of this kind: as measured on one, or else its adds, nops and
// loop control at the core's width.
func (t *TSC) expectedIdle() (cycles float64, known bool) {
	c := t.CPU
	if c.IdleProbe > 0 && !t.probe.Nops {
		return c.IdleProbe * float64(t.probe.Iterations) / probeIterations, true
	}
	if c.AddsPerCycle == 0 {
		return 0, false
	}
	ideal := float64(harness.ContentionAdds+2) / c.AddsPerCycle
	if t.probe.Nops {
		ideal += float64(harness.ContentionNops+2) / c.NopsPerCycle
	}
	return ideal * float64(t.probe.Iterations), true
}

// confirms reports whether the core's data confirm an idle level, but for a clock step and, where it follows from the
// core's width, a clock reading.
func (t *TSC) confirms(idle float64) bool {
	expected, known := t.expectedIdle()
	spread, reading := idleSpread, float64(readingCycles)
	if t.CPU.IdleProbe > 0 && !t.probe.Nops {
		spread, reading = measuredSpread, 0
	}
	step := t.clock.Step()
	if t.rate.ticks > 0 {
		step /= t.rate.ticks
	}
	return known && idle <= (1+spread)*expected+reading+step
}

// learnIdle makes another try if no idle level is known.
func (t *TSC) learnIdle() error {
	if t.idle > 0 {
		return nil
	}
	w, err := (&liveStart{TSC: t}).sample(startSamples)
	if err != nil {
		return err
	}
	s := &t.start
	if len(s.tries) >= mostTries {
		s.tries, s.cycles = s.tries[1:], s.cycles[startSamples:]
	}
	s.tries, s.cycles = append(s.tries, w), append(s.cycles, probeCycles(w, s.clock)...)
	if f := s.check(); f.clean {
		t.rate = clockRate{ticks: f.rate}
		t.began(f)
	}
	return nil
}

const (
	watched     = 240  // readings of windows kept, of some 20 blocks
	lowerShare  = 0.1  // of them make a mode: single readings are fast when the core's clock moves between probe and chains
	lowerSpread = 0.02 // of the mode
	lowerBy     = 0.04 // and a clock step: the tolerance of a reading
)

// watchIdle notes the contention probe's readings beside windows that were kept, and lowers the idle level to their
// fastest mode if that is below it: the level was that of a shared core.
func (t *TSC) watchIdle(kept []window, rate float64) {
	for _, w := range kept {
		t.kept = append(t.kept, w.columns[columnProbe][0]/rate)
	}
	if len(t.kept) < watched {
		return
	}
	s, step := t.kept, t.clock.Step()/rate
	t.kept = nil
	slices.Sort(s)
	need := int(math.Ceil(lowerShare * float64(len(s))))
	for i := 0; i+need <= len(s) && s[i] < (1-lowerBy)*t.idle-step; i++ {
		if s[i+need-1] <= (1+lowerSpread)*s[i]+step {
			t.setIdle(stat.Median(s[i : i+need]))
			return
		}
	}
}

// raiseIdle raises the level to the fastest mode of these readings if that mode is above the present limit and the
// core's data confirm it. Otherwise a level that a few exceptionally fast readings set too low would make every later
// reading look busy.
func (t *TSC) raiseIdle(readings []float64) {
	mode, ok := fastestMode(readings, t.clock.Step()/t.rate.ticks)
	if ok && t.confirms(mode) && uint64(mode*t.rate.ticks) > t.longestIdle() {
		t.setIdle(mode)
	}
}
