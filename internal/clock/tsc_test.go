package clock

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

func TestStepOf(t *testing.T) {
	// Readings of a clock of 26 ticks a step, some of them with a jump of the clock between.
	off := func(jumps int) (readings []uint64) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range 301 {
			readings = append(readings, 26*(1000+rng.Uint64N(50)))
		}
		for i := range jumps {
			readings[50+70*i] += 7
		}
		return readings
	}
	// Timings by a clock of 100 MHz that is shown as 2,445 MHz, or as one whose ticks are its steps.
	scaled := func(step float64) (readings []uint64) {
		rng := rand.New(rand.NewPCG(5, 6))
		for range 200 {
			began := float64(1000 + rng.IntN(1000))
			ended := began + float64(30+rng.IntN(8)) // steps
			readings = append(readings, uint64(math.Floor(ended*step))-uint64(math.Floor(began*step)))
		}
		return readings
	}
	noisy := func() (readings []uint64) {
		rng := rand.New(rand.NewPCG(7, 8))
		for range 200 {
			readings = append(readings, 1000+rng.Uint64N(200))
		}
		return readings
	}
	for _, c := range []struct {
		name     string
		readings []uint64
		want     float64
	}{
		{"none", nil, 1},
		{"every tick, 200 times", noisy(), 1},
		{"one", []uint64{26}, 1},
		{"all equal", []uint64{52, 52, 52}, 1},
		{"every tick", []uint64{100, 101, 103}, 1},
		{"steps of 2", []uint64{100, 102, 108}, 2},
		{"steps of 26, rising", []uint64{1000, 1026, 1078, 1338}, 26},
		// Differences go up and down. Taken modulo 2^64, which 13 does not divide, the way down would make 2 of 26.
		{"steps of 26, falling", []uint64{1338, 1078, 1026, 1000}, 26},
		{"steps of 26, up and down", []uint64{52, 26, 78, 26, 52}, 26},
		{"one reading off the grid", []uint64{52, 26, 78, 27}, 1},
		{"across the counter's overflow", []uint64{math.MaxUint64 - 3, 4}, 8},
		{"one of 300 off the grid", off(1), 26}, // which makes two of the differences odd
		{"two of 300 off the grid", off(2), 1},
	} {
		require.Equal(t, c.name, c.want, StepOf(c.readings))
	}
	for _, step := range []float64{12.5, 20.83, 24.4503, 26, 33.3} {
		if got := StepOf(scaled(step)); math.Abs(got-step) > 0.02*step {
			t.Errorf("%g ticks a step: %g", step, got)
		}
	}
}

// synthetic is what the sampler would read of two chains: ticks per cycle rate, overhead
// ticks around each, a counter that moves by step, met at any phase.
func synthetic(rng *rand.Rand, n int, rate, overhead, step float64, cycles [2]float64) [][]float64 {
	d := [][]float64{make([]float64, n), make([]float64, n)}
	for i := range n {
		for c := range d {
			start := rng.Float64() * step
			read := func(x float64) float64 { return math.Floor(x/step) * step }
			d[c][i] = read(start+overhead+rate*cycles[c]) - read(start)
		}
	}
	return d
}

var addCycles = [2]float64{shortIterations * chainBody, longIterations * chainBody}

// A clock of coarse steps still gives the rate: its error averages out over the phases, as
// long as no step is trimmed away.
func TestRateOfSteppedClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 400
	for _, rate := range []float64{0.3, 0.617, 1, 2.5} {
		for _, step := range []float64{1, 2, 26, 40} {
			d := synthetic(rng, n, rate, 77, step, addCycles)
			got := TSC{StepTicks: step}.Rate(d)
			// The difference of two readings has a deviation of up to step/2 for either chain.
			tolerance := 4 * math.Sqrt(0.5) / math.Sqrt(n) * step / chainCycles
			if math.Abs(got.Value-rate) > tolerance {
				t.Errorf("rate %g, step %g: %g, off by more than %g", rate, step, got.Value, tolerance)
			}
			if got.N != n || got.Half < 0 || got.Half > 0.5*step/chainCycles {
				t.Errorf("rate %g, step %g: %+v", rate, step, got)
			}
		}
	}
}

func TestFastRate(t *testing.T) {
	// What shares the core adds time to the longer chain more than to the shorter.
	shared := [][]float64{{100, 100, 100, 100, 100, 100, 100}, {2148, 2148, 2148, 5000, 5100, 6000, 7000}}
	for _, c := range []struct {
		readings [][]float64
		want     float64
	}{{shared, 0.5}, {[][]float64{{100}, {2148}}, 0.5}, {[][]float64{{}, {}}, math.NaN()}} {
		require.Equal(t, c.readings, c.want, TSC{}.FastRate(c.readings), cmpopts.EquateNaNs())
	}
	if slow := (TSC{}).Rate(shared).Value; slow <= 0.5 {
		t.Errorf("the data are too kind: Rate gives %g too", slow)
	}
}

func TestCheckMultiply(t *testing.T) {
	for _, c := range []struct {
		latency float64
		ok      bool
	}{
		{3, true}, {4, true}, {5, true},
		{3 * 1.0099, true}, {3 * 1.0101, false},
		{3 * 0.9901, true}, {3 * 0.9899, false},
		{4 * 1.0099, true}, {4 * 1.0101, false},
		{2, false}, {1.98, false}, {1, false}, {1.5, false}, {0, false}, {-3, false}, // no multiplier is that fast
		{2.5, false}, {3.5, false},
	} {
		got, ok := checkMultiply(taking(c.latency*0.5), 0.5)
		if ok != c.ok || math.Abs(got-c.latency) > 1e-9 {
			t.Errorf("latency %g: %g, %v", c.latency, got, ok)
		}
	}
	for _, rate := range []float64{0, math.NaN(), 0.5} {
		if _, ok := checkMultiply([][]float64{{}, {}}, rate); ok {
			t.Errorf("no data pass at a rate of %g", rate)
		}
		if _, ok := checkMultiply([][]float64{{0, 0, 0, 0}, {1, 1, 1, 1}}, rate); ok {
			t.Errorf("a rate of %g passes", rate)
		}
	}
}

// The lengths in the formulas are those of the chains that run.
func TestChains(t *testing.T) {
	for multiply, inst := range map[bool]string{false: "\x48\x01\xc0", true: "\x48\x0f\xaf\xc0"} { // add or imul rax, rax
		chains := Chains(multiply)
		require.Equal(t, "cycles", chainCycles, chains[1].Length()-chains[0].Length())
		for _, chain := range chains {
			e := asm.NewEmitter(layout.Code)
			e.Nop(3)
			entry := chain.Emit(e, harness.TSC)
			body := string(e.Bytes()[entry-layout.Code:])
			if entry%64 != 0 || !strings.HasPrefix(body, "\x0f\xae\xe8") || strings.Count(body, inst) != 2*chainBody {
				t.Errorf("%+v at %#x is not lfence and %d times % x, twice: % x", chain, entry, chainBody, inst, body[:64])
			}
		}
	}
}
