package timing

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
)

// What stood in the way of calibrating is told by what was seen, and a latency only if there is one.
func TestSighting(t *testing.T) {
	for _, c := range []struct {
		seen sighting
		want string
	}{
		{sighting{switched: 3}, "3 tries saw a context switch and 0 a busy core"},
		{sighting{busy: 2, latency: 3.5}, "0 tries saw a context switch and 2 a busy core (an imul seemed to take 3.500 cycles)"},
	} {
		if got := c.seen.String(); got != c.want {
			t.Errorf("%+v: %s", c.seen, got)
		}
	}
}

// TestPlausible: what the probe takes on an idle core passes, and what it takes beside a busy sibling does not. Cycles were
// measured on Turin, those beside the sibling in its quietest readings.
func TestPlausible(t *testing.T) {
	zen5 := host.CPU{AddsPerCycle: 5.3, NopsPerCycle: 7.9}
	for _, c := range []struct {
		name  string
		cpu   host.CPU
		probe harness.Probe
		idle  float64
		want  bool
	}{
		{"an idle Zen 5", zen5, harness.Probe{Iterations: 128, Nops: true}, 3409, true},
		{"an idle Zen 5, twice as long", zen5, harness.Probe{Iterations: 256, Nops: true}, 6591, true},
		{"beside a sibling", zen5, harness.Probe{Iterations: 128, Nops: true}, 1638 + 2203, false},
		{"adds alone", zen5, harness.Probe{Iterations: 128}, 1623, true},
		{"adds alone, beside a spinning sibling", zen5, harness.Probe{Iterations: 128}, 2050, false},
		{"faster than it can be", zen5, harness.Probe{Iterations: 128, Nops: true}, 1, true}, // not this check's concern
		{"an unknown core", host.CPU{}, harness.Probe{Iterations: 64}, 1e9, true},
	} {
		timer := TSC{Config: Config{CPU: c.cpu}, probe: c.probe}
		if got := timer.plausible(c.idle); got != c.want {
			t.Errorf("%s, %g cycles: %v, want %v", c.name, c.idle, got, c.want)
		}
	}
}

// The fastest mode has all readings of an idle core, of which there are faster and slower ones, and none of a shared one.
func TestFastestMode(t *testing.T) {
	of := func(n int, cycles ...float64) []float64 { return slices.Repeat(cycles, n) }
	for _, c := range []struct {
		name     string
		readings []float64
		want     float64 // 0: there is none
	}{
		{"one", of(20, 3400, 3410, 3420), 3410},
		{"few fast ones", append(of(12, 3250), of(90, 3440)...), 3440},
		{"mostly fast ones", append(of(60, 3250), of(40, 3440)...), 3250},
		{"beside a sibling for most of the time", append(of(20, 1100), of(80, 1170, 1400)...), 1100},
		{"readings that are too few for a mode", append(of(4, 3000), of(96, 3400)...), 3400},
		{"scattered", []float64{1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000}, 0},
	} {
		if got, ok := fastestMode(c.readings); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: %g, %v, want %g", c.name, got, ok, c.want)
		}
	}
}

// A core that always seems busy is idle if its readings can be of an idle one.
func TestRaiseIdle(t *testing.T) {
	zen5 := host.CPU{AddsPerCycle: 5.3, NopsPerCycle: 7.9}
	for _, c := range []struct {
		name    string
		cpu     host.CPU
		reading float64
		want    float64
	}{
		{"slower than what passes", zen5, 3440, 3440},
		{"slower, but it passes", zen5, 3250 * 1.035, 3250},
		{"faster", zen5, 3100, 3250},
		{"beside a sibling", zen5, 1638 + 2203, 3250},
		{"an unknown core", host.CPU{}, 3440, 3250},
	} {
		timer := TSC{
			Config: Config{CPU: c.cpu}, probe: harness.Probe{Iterations: 128, Nops: true},
			clock: clock.TSC{StepTicks: 2}, rate: clockRate{ticks: 0.6}, idle: 3250,
		}
		timer.raiseIdle(slices.Repeat([]float64{c.reading}, 32))
		if timer.idle != c.want {
			t.Errorf("%s: %g, want %g", c.name, timer.idle, c.want)
		}
	}
}
