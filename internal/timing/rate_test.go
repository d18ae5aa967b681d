package timing

import (
	"math"
	"testing"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
)

// A rate is the mean of replicates while they agree within the resolution of one, and that of the last one
// otherwise. Shorter runs are compared together.
func TestClockRate(t *testing.T) {
	clock := clock.TSC{StepTicks: 26}
	own := clock.RateResolution(passSamples) // of one replicate
	replicate := func(v float64) stat.Estimate { return stat.Estimate{Value: v, Half: own / 2, N: passSamples} }
	short := func(v float64) stat.Estimate { return stat.Estimate{Value: v, Half: 10 * own, N: 2} }
	shorts := func(v float64) (all []stat.Estimate) {
		for range passSamples / 2 {
			all = append(all, short(v))
		}
		return all
	}
	from := func(first stat.Estimate, rest ...stat.Estimate) []stat.Estimate {
		return append([]stat.Estimate{first}, rest...)
	}
	for _, c := range []struct {
		name    string
		runs    []stat.Estimate
		want    float64
		samples int
	}{
		{"first", from(replicate(0.7)), 0.7, 12},
		{"agree", from(replicate(0.7), replicate(0.7+0.99*own)), 0.7 + 0.99*own/2, 24},
		{"moved", from(replicate(0.7), replicate(0.7+1.01*own)), 0.7 + 1.01*own, 12},
		{"moved down", from(replicate(0.7), replicate(0.7), replicate(0.7-1.01*own)), 0.7 - 1.01*own, 12},
		{"a longer run weighs more", from(replicate(0.7), stat.Estimate{Value: 0.7 + own/2, Half: own, N: 36}), 0.7 + own/2*0.75, 48},
		{"an uncertain one is no sign", from(replicate(0.7), stat.Estimate{Value: 0.8, Half: 1, N: 12}), 0.75, 24},
		{"too few to tell", from(replicate(0.7), shorts(0.8)[1:]...), 0.7, 12},
		{"enough to tell", from(replicate(0.7), shorts(0.8)...), 0.8, 12},
		{"enough to agree", from(replicate(0.7), shorts(0.7+own/2)...), 0.7 + own/4, 24},
		{"the first may be short", from(short(0.7)), 0.7, 2},
	} {
		r := clockRate{ticks: 0.6} // a first idea
		for _, s := range c.runs {
			r.add(s, clock)
		}
		if math.Abs(r.ticks-c.want) > 1e-12 || r.samples != c.samples {
			t.Errorf("%s: %.6f of %d samples, want %.6f of %d", c.name, r.ticks, r.samples, c.want, c.samples)
		}
	}
}
