package timing

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// TestConfirms: the probe's time on an idle core passes, and its time beside a busy sibling does not. Cycles were
// measured on Turin and Genoa, those beside the sibling in its least busy readings.
func TestConfirms(t *testing.T) {
	zen4, zen5 := host.CPU{AddsPerCycle: 4}, host.CPU{AddsPerCycle: 5.3, NopsPerCycle: 7.9}
	for _, c := range []struct {
		name  string
		cpu   host.CPU
		probe harness.Probe
		step  float64
		idle  float64
		want  bool
	}{
		{"an idle Zen 4", zen4, harness.Probe{Iterations: 64}, 26, 1184, true},
		{"beside a sibling there", zen4, harness.Probe{Iterations: 64}, 26, 1300, false},
		{"an idle Zen 5", zen5, harness.Probe{Iterations: 128, Nops: true}, 2, 3409, true},
		{"an idle Zen 5, twice as long", zen5, harness.Probe{Iterations: 256, Nops: true}, 2, 6591, true},
		{"beside a sibling there", zen5, harness.Probe{Iterations: 128, Nops: true}, 26, 1638 + 2203, false},
		{"adds alone", zen5, harness.Probe{Iterations: 128}, 2, 1623, true},
		{"adds alone, beside a spinning sibling", zen5, harness.Probe{Iterations: 128}, 26, 2050, false},
		{"an unknown core", host.CPU{}, harness.Probe{Iterations: 64}, 2, 1000, false},
	} {
		timer := TSC{Config: Config{CPU: c.cpu}, probe: c.probe, clock: clock.TSC{StepTicks: c.step}, rate: clockRate{ticks: 0.7}}
		require.Equal(t, c.name, c.want, timer.confirms(c.idle))
	}
}

// The fastest mode contains all readings of an idle core, faster and slower ones, and none of a shared one.
func TestFastestMode(t *testing.T) {
	of := func(n int, cycles ...float64) []float64 { return slices.Repeat(cycles, n) }
	for _, c := range []struct {
		name     string
		readings []float64
		want     float64 // 0: there is none
	}{
		{"one", of(20, 3400, 3410, 3420), 3410},
		{"few fast ones", append(of(12, 3250), of(500, 3440)...), 3440},
		{"mostly fast ones", append(of(60, 3250), of(40, 3440)...), 3250},
		{"beside a sibling for most of the time", append(of(20, 1100), of(80, 1170, 1400)...), 1100},
		{"readings that are too few for a mode", append(of(4, 3000), of(96, 3400)...), 3400},
		{"scattered", []float64{1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000}, 0},
	} {
		if got, ok := fastestMode(c.readings, 0); got != c.want || ok != (c.want != 0) {
			t.Errorf("%s: %g, %v, want %g", c.name, got, ok, c.want)
		}
	}
}

// A core that always looks busy is idle if its readings match an idle one.
func TestRaiseIdle(t *testing.T) {
	zen5 := host.CPU{AddsPerCycle: 5.3, NopsPerCycle: 7.9}
	for _, c := range []struct {
		name    string
		cpu     host.CPU
		reading float64
		want    float64
	}{
		{"slower than what passes", zen5, 3420, 3420},
		{"slower, but it passes", zen5, 3250 * 1.035, 3250},
		{"faster", zen5, 3100, 3250},
		{"beside a sibling", zen5, 1638 + 2203, 3250},
		{"an unknown core", host.CPU{}, 3420, 3250},
	} {
		timer := TSC{
			Config: Config{CPU: c.cpu}, probe: harness.Probe{Iterations: 128, Nops: true},
			clock: clock.TSC{StepTicks: 2}, rate: clockRate{ticks: 0.6}, idle: 3250,
		}
		timer.raiseIdle(slices.Repeat([]float64{c.reading}, 32))
		require.Equal(t, c.name, c.want, timer.idle)
	}
}

// synthetic simulates a core with other work on it and beside it, and returns the samples of a start.
type synthetic struct {
	*rand.Rand
	step, rate, drift float64 // of the clock: ticks, ticks per cycle, share by which that moves from one try to the next
	width, iterations float64 // of the probe: adds a cycle, iterations of 64
	sibling           float64 // share of time in which another hardware thread is awake
	slow              float64 // by what factor the probe is slower meanwhile
	adds              float64 // and the chains of adds; 0: they are not
	piece             float64 // mean cycles of a period of both states; 0: a millisecond or so
	phase             float64 // cycles until the sibling wakes up or falls asleep
	awake             bool
	others            float64 // share of time that other processes take
	now               float64 // ticks
	tries, most       int
	cancelled         int     // after so many tries, 0 for never
	noise             float64 // of a clock that does not time the core's work
	truth             float64 // cycles of the probe on the idle core
}

func newSynthetic(seed uint64) *synthetic {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &synthetic{Rand: r, most: int(startLimit / startPause)}
	s.step = float64(1 + r.IntN(100))
	s.rate = 0.4 + 0.8*r.Float64()
	s.drift = 0.01 * r.Float64()
	s.width = 2 + 5*r.Float64()
	s.slow = 1.08 + r.Float64()
	for s.iterations = 64; ; s.iterations *= 2 { // as calibrate makes it
		s.truth = s.iterations*64/s.width + 45
		if s.truth*s.rate >= probeSteps*s.step {
			return s
		}
	}
}

// pass simulates cycles of work, slower if the sibling competes, and returns the difference of two clock readings.
func (s *synthetic) pass(cycles, slow float64) float64 {
	began := s.now
	for left := cycles; left > 0; {
		factor := 1.0
		if s.awake {
			factor = slow
		}
		run := left
		if s.sibling > 0 {
			run = min(left, s.phase/factor)
			if s.phase -= run * factor; s.phase <= 0 {
				s.awake = !s.awake
				mean := cmp.Or(s.piece, 4e6) * s.sibling
				if !s.awake {
					mean = cmp.Or(s.piece, 4e6) * (1 - s.sibling)
				}
				s.phase = 1 + mean*(0.2+1.6*s.Float64())
			}
		}
		s.now += run * factor * s.rate
		left -= run
	}
	if s.others > 0 && s.Float64() < cycles/4e6 { // a slice ends every millisecond or so
		s.now += 4e6 * s.others / (1 - s.others) * s.rate
	}
	return (math.Floor(s.now/s.step) - math.Floor(began/s.step)) * s.step
}

func (s *synthetic) sample(n int) (window, error) {
	s.tries++
	s.rate *= 1 + s.drift*(2*s.Float64()-1)
	columns := make([][]float64, 5)
	noise := rand.New(rand.NewPCG(uint64(s.tries), 2))
	for range n {
		for k, cycles := range []float64{s.truth, 1070, 5166, 3 * 1030, 3 * 5126} {
			columns[k] = append(columns[k], s.pass(cycles, []float64{s.slow, cmp.Or(s.adds, 1), cmp.Or(s.adds, 1), 1, 1}[k])*(1+s.noise*noise.Float64()))
			s.pass(100+64*s.Float64(), 1)
		}
	}
	return window{columns: columns, complete: true}, nil
}

func (s *synthetic) next() (bool, error) {
	if s.cancelled > 0 && s.tries == s.cancelled {
		return false, context.Canceled
	}
	s.now += 2.5e7 * s.rate * s.Float64() // the pause
	s.phase = s.phase * s.Float64()
	return s.tries < s.most, nil
}

// find performs a start on the core. known reports whether the table of cores has its width.
func (s *synthetic) find(known bool) (startResult, int, error) {
	timer := TSC{clock: clock.TSC{StepTicks: s.step}, probe: harness.Probe{Iterations: int(s.iterations)}, rate: clockRate{ticks: s.rate}}
	if known {
		timer.CPU.AddsPerCycle = s.width
	}
	st := start{clock: timer.clock, confirmed: timer.confirms}
	f, err := st.find(s)
	return f, len(st.tries), err
}

// TestStartFindsTheTruth: on simulated cores of any clock and width, a start ends within its tries. It finds the
// core's rate and idle time if the core is idle for a tenth of the time, and never reports an idle core as shared.
func TestStartFindsTheTruth(t *testing.T) {
	const seeds = 400
	wrong := map[string]int{}
	for seed := range uint64(seeds) {
		s := newSynthetic(seed)
		known := seed%2 == 0
		switch seed % 3 {
		case 1:
			s.sibling = 0.9 * s.Float64()
		case 2:
			s.sibling, s.others = 0.6*s.Float64(), 0.6*s.Float64()
		}
		f, tries, err := s.find(known)
		idle := s.sibling == 0 && s.others == 0
		complain := func(what string) {
			if wrong[what]++; wrong[what] < 3 {
				t.Logf("seed %d, known %v: %s: %+v after %d tries (%v), truth %.1f cycles, %.4f ticks per cycle, steps of %g, sibling %.2f, others %.2f",
					seed, known, what, f, tries, err, s.truth, s.rate, s.step, s.sibling, s.others)
			}
		}
		off := math.Abs(f.idle-s.truth)/s.truth - s.step/s.rate/s.truth
		switch {
		case err != nil:
			complain("no start")
		case !f.confirmed && !f.clean: // no level is taken from it
		case off > 0.02 || math.Abs(f.rate-s.rate) > 0.002*s.rate+s.drift*s.rate+2*s.step/4096/5:
			complain("another core")
		case idle && f.shared > 0.01:
			complain("false blame")
		case idle && known && tries > 1:
			complain("an idle core not seen at once")
		case !idle && tries > 1 && f.shared < 0.4*s.sibling-0.2:
			complain("a neighbour not seen")
		}
	}
	for what, n := range wrong {
		if float64(n) > 0.005*seeds || what == "false blame" {
			t.Errorf("%s: %d of %d", what, n, seeds)
		}
	}
}

// Beside a sibling that is awake all the time, or for most of it in pieces of 10 µs to minutes, from before the start
// on, the level is the core's own or not known: the probe and the chains of adds are slower, multiplies are not.
func TestStartBesideASteadyNeighbour(t *testing.T) {
	for seed := range uint64(400) {
		s, known := newSynthetic(seed), seed%2 == 0
		s.slow, s.sibling, s.awake = 1.3+0.6*s.Float64(), 0.5+0.5*s.Float64(), true
		s.piece = math.Pow(10, 4.5+6*s.Float64()) // cycles
		if seed%4 < 2 {
			s.sibling, s.phase = 1, math.Inf(1)
		}
		s.adds = 1.01 + 0.03*s.Float64()
		timer := TSC{clock: clock.TSC{StepTicks: s.step}, probe: harness.Probe{Iterations: int(s.iterations)}, rate: clockRate{ticks: s.rate}}
		if known {
			timer.CPU.IdleProbe = s.truth * probeIterations / s.iterations
		}
		timer.start = start{clock: timer.clock, confirmed: timer.confirms}
		f := require.Get(timer.start.find(s))(t)
		timer.rate = clockRate{ticks: f.rate}
		timer.began(f)
		if off := math.Abs(timer.idle-s.truth) - s.step/s.rate; known && timer.idle == 0 || timer.idle != 0 && off > 0.04*s.truth {
			t.Errorf("seed %d, known %v: level %.0f, truth %.0f cycles, steps of %.0f; slower by %.2f for %.2f of the time in pieces of %.0f: %+v after %d tries",
				seed, known, timer.idle, s.truth, s.step/s.rate, s.slow, s.sibling, s.piece, f, len(timer.start.tries))
		}
	}
}

// Windows kept beside a level that was too high lower it to their fastest mode, but not to a few fast readings.
func TestWatchIdle(t *testing.T) {
	for _, c := range []struct {
		name          string
		fast          int // readings of 955 cycles among those of 1482
		want          float64
		others, noise float64
	}{
		{"a core that is idle at times", 60, 955, 1482, 0},
		{"a core that never is", 0, 1482, 1482, 0},
		{"a few fast readings", 20, 1482, 1482, 0},
		{"scattered ones", 0, 1482, 1300, 300},
		{"within the tolerance", 0, 1482, 1430, 0},
	} {
		timer := TSC{clock: clock.TSC{StepTicks: 2}}
		timer.setIdle(1482)
		for i := range watched {
			reading := c.others - c.noise*float64(i)/watched
			if i%(watched/max(c.fast, 1)) == 0 && c.fast > 0 {
				reading = 955
			}
			timer.watchIdle([]window{{columns: [][]float64{{0.8 * reading}}}}, 0.8)
		}
		require.Equal(t, c.name, math.Round(c.want), math.Round(timer.idle))
	}
}

// A clock that does not time the core's work ends a start with an error that blames no other work, as cancelling does.
func TestStartOfAUselessClock(t *testing.T) {
	for _, cancelled := range []int{0, 3} {
		s := newSynthetic(2)
		s.noise, s.cancelled = 3, cancelled
		st := start{clock: clock.TSC{StepTicks: s.step}, confirmed: func(float64) bool { return false }}
		if f, err := st.find(s); err == nil || (err == context.Canceled) != (cancelled > 0) || cancelled > 0 && s.tries != cancelled {
			t.Errorf("%+v, %v after %d tries", f, err, s.tries)
		}
	}
}

// TestStartFailure: a wrong clock is told from a sibling, which slows adds and not multiplies, and from other work.
func TestStartFailure(t *testing.T) {
	for _, c := range []struct {
		multiply, shared float64
		busy             bool
	}{{1.2, 0, false}, {2.39, 0, false}, {2.41, 0, true}, {2.99, 0, true}, {3.4, 0.5, false}, {3.4, 0.51, true}, {1.2, 0.6, true}} {
		var host *verdict.HostError
		err := (&start{tries: make([]window, 3)}).failure(startResult{idle: 900, multiply: c.multiply, shared: c.shared})
		if !errors.As(err, &host) || host.Busy != c.busy || strings.Contains(host.Remedy, "emulated") == c.busy {
			t.Errorf("an imul of %g cycles, %g shared: %v", c.multiply, c.shared, err)
		}
	}
}
