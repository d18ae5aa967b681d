package timing

import (
	"testing"

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
