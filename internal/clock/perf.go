package clock

import (
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/stat"
)

// Perf counts core cycles, so its ticks are cycles and it needs no calibration.
type Perf struct {
	harness.Counters
	// Width is how many bits a counter has; differences wrap around with them.
	Width int
}

func (Perf) Name() string { return "perf" }

// Emit reads all counters, core cycles last, between lfences.
func (c Perf) Emit(e *asm.Emitter) { c.Counters.Clock(e) }

func (Perf) Chains() []Chain { return nil }

func (Perf) Rate([][]float64) stat.Estimate { return stat.Estimate{Value: 1, N: 1} }

func (Perf) FastRate([][]float64) float64 { return 1 }

func (Perf) Step() float64 { return 1 }

// Resolution is a cycle that either end of a difference may be off, spread over all of them.
func (Perf) Resolution(n int, times float64) float64 { return 1 / math.Sqrt(float64(n)) / times }

// RateResolution is 0: the rate is known.
func (Perf) RateResolution(int) float64 { return 0 }

func (Perf) Describe() string { return "core cycles, counted by the CPU and read with rdpmc" }

// Difference is what a counter counted between two readings.
func (c Perf) Difference(from, to uint64) uint64 {
	return (to - from) & (1<<c.Width - 1)
}

// CheckCycles holds a counter of core cycles against the chains that the TSC is calibrated
// with: an add takes one cycle, an imul a whole number of them. adds and multiplies are the
// differences of the short and the long chain.
func CheckCycles(adds, multiplies [][]float64) (add, multiply float64, ok bool) {
	add = stat.MidMean(ticksPerAdd(adds)).Value
	multiply, ok = CheckMultiply(multiplies, 1)
	return add, multiply, ok && math.Abs(add-1) <= multiplyTolerance
}

// AddChains are the chains that CheckCycles wants of adds.
func AddChains() []Chain { return TSC{}.Chains() }
