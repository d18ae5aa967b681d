package profiler

import (
	"math"
	"testing"

	"github.com/bbprof/bbprof/counter"
	"github.com/bbprof/bbprof/stat"
)

// A rate becomes the mean of stays as long as they agree within what one of them knows, and is
// the last one's where they do not.
func TestClockRate(t *testing.T) {
	clock := counter.TSC{StepTicks: 26}
	own := clock.RateResolution(12) // of one stay
	stay := func(v float64) stat.Estimate { return stat.Estimate{Value: v, Half: own / 2, N: 12} }
	for _, c := range []struct {
		name    string
		stays   []stat.Estimate
		want    float64
		samples int
	}{
		{"first", []stat.Estimate{stay(0.7)}, 0.7, 12},
		{"agree", []stat.Estimate{stay(0.7), stay(0.7 + 0.99*own)}, 0.7 + 0.99*own/2, 24},
		{"moved", []stat.Estimate{stay(0.7), stay(0.7 + 1.01*own)}, 0.7 + 1.01*own, 12},
		{"moved down", []stat.Estimate{stay(0.7), stay(0.7), stay(0.7 - 1.01*own)}, 0.7 - 1.01*own, 12},
		{"a longer stay weighs more", []stat.Estimate{stay(0.7), {Value: 0.7 + own/2, Half: own, N: 36}}, 0.7 + own/2*0.75, 48},
		{"an uncertain one is no sign", []stat.Estimate{stay(0.7), {Value: 0.8, Half: 1, N: 12}}, 0.75, 24},
	} {
		var r clockRate
		for _, s := range c.stays {
			r.add(s, clock)
		}
		if math.Abs(r.ticks-c.want) > 1e-12 || r.samples != c.samples {
			t.Errorf("%s: %.6f of %d samples, want %.6f of %d", c.name, r.ticks, r.samples, c.want, c.samples)
		}
	}
}

// What was long ago fades.
func TestClockRateForgets(t *testing.T) {
	clock := counter.TSC{StepTicks: 26}
	var r clockRate
	for range 100 {
		r.add(stat.Estimate{Value: 0.7, N: 12}, clock)
	}
	if r.samples != rateSamples {
		t.Errorf("a mean of %d samples, want %d", r.samples, rateSamples)
	}
	near := 0.7 + clock.RateResolution(12)/2
	for range 3 * rateSamples / 12 {
		r.add(stat.Estimate{Value: near, N: 12}, clock)
	}
	if got := (r.ticks - 0.7) / (near - 0.7); got < 0.9 {
		t.Errorf("after three times as many samples %.0f %% of the way", 100*got)
	}
}
