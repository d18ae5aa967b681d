package clock

import (
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/stat"
)

// TSC is the time-stamp counter against chains of dependent register-to-register adds, one core cycle each on every
// x86-64 core (adds of immediates are not: Golden Cove and later eliminate them at rename). Two lengths are timed and
// subtracted, so that what surrounds the chain cancels.
type TSC struct {
	// StepTicks is the counter's increment: 1 or 2 mostly, more under some hypervisors and on some AMD cores, where it may be a mean.
	StepTicks float64
}

// Iterations of the two chains, which differ by 4,096 cycles.
const (
	shortIterations = leadTurns
	longIterations  = 1280

	chainCycles = (longIterations - shortIterations) * chainBody
)

// Emit reads the time-stamp counter between lfences.
func (TSC) Emit(e *asm.Emitter) { harness.TSC(e) }

func (c TSC) Step() float64 { return c.StepTicks }

// StepSlack bounds the error of the difference of two timings, in steps: four readings, each off by up to one.
const StepSlack = 2.5

// Rate estimates the ticks per core cycle from one window: d[i] are the differences of chain i.
func (c TSC) Rate(d [][]float64) stat.Estimate {
	return stat.Core(ticksPerAdd(d), StepSlack*c.StepTicks/chainCycles)
}

// Resolution is Student's half-width over n differences: that of two timings, each of two
// readings at any point of a step, has a variance of a third of the step's square.
func (c TSC) Resolution(n int, times float64) float64 {
	return stat.T95(n-1) * c.StepTicks / math.Sqrt(3*float64(n)) / times
}

// RateResolution is that of the chains' difference; for a single sample, its largest error.
func (c TSC) RateResolution(n int) float64 {
	if n == 1 {
		return StepSlack * c.StepTicks / chainCycles
	}
	return c.Resolution(n, chainCycles)
}

// FastRate is Rate from the faster half of the samples, for a core shared with another thread.
func (TSC) FastRate(d [][]float64) float64 {
	per := ticksPerAdd(d)
	slices.Sort(per)
	return stat.MidMean(per[:(len(per)+1)/2]).Value
}

func ticksPerAdd(d [][]float64) []float64 {
	per := make([]float64, len(d[0]))
	for i := range per {
		per[i] = (d[1][i] - d[0][i]) / chainCycles
	}
	return per
}

func (c TSC) Describe() string {
	return fmt.Sprintf("TSC (steps of %g ticks) against chains of %d and %d dependent adds, timed beside the block",
		c.StepTicks, shortIterations*chainBody, longIterations*chainBody)
}

// Chains returns the two chains of adds, or those of multiplies, which cross-check them: the rate of imul against
// that of add must be an integer, 3 on every x86-64 core since Sandy Bridge and Zen. It is not if adds take less than
// a cycle or the clock is not constant; an emulator gives 1 or 2.
func Chains(multiply bool) []Chain {
	return []Chain{{shortIterations, multiply}, {longIterations, multiply}}
}

// LeastMultiply is the shortest latency of imul in cycles, since Sandy Bridge and Zen (Fog, instruction_tables).
const LeastMultiply = 3

// multiplyTolerance bounds the ratio's relative distance from an integer.
const multiplyTolerance = 0.01

// checkMultiply returns the latency of imul in cycles by the calibrated clock, and whether it is Whole.
func checkMultiply(d [][]float64, rate float64) (latency float64, ok bool) {
	latency = stat.MidMean(ticksPerAdd(d)).Value / rate
	return latency, Whole(latency)
}

// Whole reports whether a latency is near an integer that imul can have.
func Whole(latency float64) bool {
	whole := math.Round(latency)
	return whole >= LeastMultiply && math.Abs(latency-whole) <= multiplyTolerance*whole
}

// StepOf finds a counter's step from readings or from their differences: the greatest common divisor of
// successive differences, or a step of a fraction of ticks that fits them. One in a hundred may be off the grid: on a
// busy virtual machine one in 200 calibrations had such a reading, and took 1 for a step of 26.
func StepOf(readings []uint64) float64 {
	var jumps []uint64
	for i := 1; i < len(readings); i++ {
		d := readings[i] - readings[i-1]
		if d = min(d, -d); d != 0 { // modulo 2^64, which a step like 26 does not divide
			jumps = append(jumps, d)
		}
	}
	return max(wholeStep(jumps), fractionalStep(jumps), 1)
}

// wholeStep returns the largest number of ticks that divides 99 % of the jumps.
func wholeStep(jumps []uint64) float64 {
	step := divisor(jumps)
	const few = 16 // differences share a larger divisor by chance once in 2^16
	for some := range slices.Chunk(jumps, few) {
		off, d := 0, divisor(some)
		for _, j := range jumps {
			if j%d != 0 {
				off++
			}
		}
		if off <= len(jumps)/100 {
			step = max(step, d)
		}
	}
	return float64(step)
}

const (
	// leastFraction is the smallest step that is looked for: a jump is a difference of up to four readings, each rounded down to a tick, so it lies
	// within 2 of a multiple, as two jumps in five of any clock do at this step.
	leastFraction = 10
	roundedBy     = 2
	leastJumps    = 40 // are within that by chance once in 10^15
	mostSteps     = 40 // of a jump that is looked at: beyond, errors of the step add up
)

// fractionalStep returns the step of a counter that a hypervisor scales, such as 24.45 ticks where one of 100 MHz is shown as 2,445 MHz (Milan
// under KVM), or 0 if 99 % of the jumps do not fit one.
func fractionalStep(jumps []uint64) float64 {
	jumps = slices.DeleteFunc(slices.Sorted(slices.Values(jumps)), func(j uint64) bool { return j <= roundedBy })
	if len(jumps) < leastJumps {
		return 0
	}
	jumps = jumps[len(jumps)/100:]
	single := slices.IndexFunc(jumps, func(j uint64) bool { return j > jumps[0]+jumps[0]/2 })
	if single < 0 {
		return 0
	}
	step := float64(jumps[single/2])
	var ticks, steps float64
	seen, off := 0, 0
	for _, j := range jumps {
		k := math.Round(float64(j) / step)
		if k > mostSteps {
			break
		}
		seen++
		if math.Abs(float64(j)-k*step) > roundedBy {
			off++
			continue
		}
		ticks, steps = ticks+float64(j), steps+k
		step = ticks / steps
	}
	if step < leastFraction || seen < leastJumps || off > seen/100 {
		return 0
	}
	return math.Round(2*step) / 2 // so that most starts find the same
}

// divisor is the greatest common divisor, 0 for an empty list.
func divisor(all []uint64) (g uint64) {
	for _, d := range all {
		for d != 0 {
			g, d = d, g%d
		}
	}
	return g
}
