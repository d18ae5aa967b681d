package timing

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/internal/clock"
)

// simulation is a block with known cycles.
type simulation struct {
	name     string
	at       func(l Layout) float64 // cycles in a layout
	window   float64                // standard deviation of a window, as a share
	mapping  float64                // standard deviation common to the windows of a replicate
	slow     float64                // share of windows that other work slows by up to 30 %
	restless float64                // share of replicates in which the block is in a state that takes 50 % longer
}

var simulations = []simulation{
	{"one speed", func(Layout) float64 { return 3 }, 0.004, 0.001, 0.005, 0},
	{"one speed, scattered", func(Layout) float64 { return 3 }, 0.02, 0.004, 0.005, 0},
	{"a quarter of a cycle", func(Layout) float64 { return 0.25 }, 0.02, 0.002, 0.005, 0},
	{"two speeds", func(l Layout) float64 { return 2 + 0.5*float64(l.Offset()%2) }, 0.005, 0.001, 0.005, 0},
	{"two of 24 layouts slow", func(l Layout) float64 { return 2 + 0.3*float64(max(0, l.Offset()-4)*(l.Place()%2)) }, 0.005, 0.001, 0.005, 0},
	{"all layouts differ", func(l Layout) float64 { return 5 + 0.05*float64(l) }, 0.005, 0.001, 0.005, 0},
	{"two states", func(Layout) float64 { return 4 }, 0.005, 0.001, 0.005, 0.3},
}

// measure takes replicates until they suffice, like takeReplicates, in a process that deviates by some permille.
func (s simulation) measure(r *rand.Rand, precision float64) Timed {
	process := 1 + processShare/2*r.NormFloat64()
	timed := Timed{Spent: Spent{RunsPerSample: 20}}
	n := 0
	checked, _ := replicates(precision)
	for _, next := range checked {
		for ; n < next; n++ {
			common := process * (1 + s.mapping*r.NormFloat64())
			if r.Float64() < s.restless {
				common *= 1.5
			}
			for _, l := range (Plan{}).layouts(n) {
				c := s.at(l) * common * (1 + s.window*r.NormFloat64())
				if r.Float64() < s.slow {
					c *= 1 + 0.3*r.Float64()
				}
				timed.Windows = append(timed.Windows, Window{Layout: l, Replicate: n, Cycles: c})
			}
		}
		timed.derive(clock.TSC{StepTicks: 2}, clockRate{ticks: 0.7, samples: 1 << 16}, apart(200), false)
		if timed.enough(n, precision) {
			break
		}
	}
	return timed
}

// apart returns a pair whose images differ by so many iterations.
func apart(iterations int) Pair {
	return Pair{Short: Image{Iterations: iterations}, Long: Image{Iterations: 2 * iterations}}
}

// truth returns the mean over layouts.
func (s simulation) truth() (mean float64) {
	for l := range Layout(Layouts) {
		mean += s.at(l) / Layouts
	}
	return mean * (1 + s.restless/2)
}

// TestIntervalsHold: on simulated blocks with known cycles, the bias of the estimate is at most a fifth of the
// precision, and nearly 95 % of second measurements lie inside the interval of the first, at each precision and for
// each kind of block without states. They are fewer than 95 %, because an interval that is narrow by chance ends the
// measurement.
func TestIntervalsHold(t *testing.T) {
	const pairs = 300
	for _, precision := range []float64{0.005, 0.01, 0.02} {
		for i, s := range simulations {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			var sum, windows float64
			inside, measured := 0, 0
			for range pairs {
				a, b := s.measure(r, precision), s.measure(r, precision)
				sum, windows = sum+a.Estimate.Value+b.Estimate.Value, windows+float64(len(a.Windows))
				if Steady(a.Estimate) && Steady(b.Estimate) {
					measured++
					if math.Abs(a.Estimate.Value-b.Estimate.Value) <= a.Estimate.Half {
						inside++
					}
				}
			}
			share, bias := float64(inside)/float64(max(measured, 1)), sum/(2*pairs)-s.truth()
			t.Logf("precision %g, %s: bias %+.4f of %.3f, %.1f windows, %d of %d pairs measured, %.3f inside",
				precision, s.name, bias, s.truth(), windows/pairs, measured, pairs, share)
			if math.Abs(bias) > 0.2*precision*max(s.truth(), 1)+0.001*s.truth() && s.restless == 0 {
				t.Errorf("precision %g, %s: off by %+.4f of %.4f cycles", precision, s.name, bias, s.truth())
			}
			if s.restless == 0 && share < 0.86 {
				t.Errorf("precision %g, %s: %.3f of second measurements are inside", precision, s.name, share)
			}
		}
	}
}
