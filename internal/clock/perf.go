package clock

import (
	"fmt"
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/stat"
)

type Perf struct {
	harness.Counters
	// Width is how many bits a counter has; differences wrap around with them.
	Width int
}

// Emit reads all counters, core cycles last, between lfences.
func (c Perf) Emit(e *asm.Emitter) { c.Counters.Clock(e) }

func (Perf) Step() float64 { return 1 }

// Resolution: each end of a difference may be off by a cycle; n differences average that.
func (Perf) Resolution(n int, times float64) float64 { return 1 / math.Sqrt(float64(n)) / times }

// RateResolution is 0: the rate is known.
func (Perf) RateResolution(int) float64 { return 0 }

// Difference is the count between two readings.
func (c Perf) Difference(from, to uint64) uint64 {
	return (to - from) & (1<<c.Width - 1)
}

// cyclesTolerance is the largest relative difference between cycles by the counter and by the calibrated TSC.
const cyclesTolerance = 0.005

// Chained holds a clock's readings of the calibration chains: of a short and a long chain each.
type Chained struct{ Adds, Multiplies [][]float64 }

// Checked holds the cycles of a chained add and imul by a counter of core cycles, and of imul by the calibrated TSC.
type Checked struct{ Add, Multiply, MultiplyByTSC float64 }

// CheckCycles checks a counter of core cycles: by it an add takes one cycle, an imul a whole number of cycles, and
// both agree with the TSC.
func CheckCycles(counted, ticks Chained) (c Checked, ok bool) {
	c.Add = stat.MidMean(ticksPerAdd(counted.Adds)).Value
	c.Multiply, ok = checkMultiply(counted.Multiplies, 1)
	c.MultiplyByTSC, _ = checkMultiply(ticks.Multiplies, stat.MidMean(ticksPerAdd(ticks.Adds)).Value)
	return c, ok && math.Abs(c.Add-1) <= cyclesTolerance && math.Abs(c.Multiply-c.MultiplyByTSC) <= cyclesTolerance*c.MultiplyByTSC
}

func (c Checked) String() string {
	return fmt.Sprintf("%.3f for an add and %.3f for an imul, of which the TSC makes %.3f", c.Add, c.Multiply, c.MultiplyByTSC)
}
