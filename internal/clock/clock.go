// Package clock turns clock readings into core cycles.
//
// A [Clock] says how generated code reads time in the child and what else must be timed
// beside the block to make core cycles of the readings. The time-stamp counter ticks at a
// constant rate whatever the core does, so it needs a calibration chain: dependent adds,
// of which the core executes exactly one a cycle. A hardware cycle counter needs none.
package clock

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/stat"
)

// Clock is a way to tell time in the child.
type Clock interface {
	// Name is "tsc" or "perf".
	Name() string
	// Emit appends code that leaves a reading in rax.
	Emit(e *asm.Emitter)
	// Chains lists what the sampler times beside the block, each a phase of its own before
	// the block's; empty for a clock that counts core cycles.
	Chains() []Chain
	// Rate is what the chain's differences of one window say, in clock ticks per core cycle:
	// differences[i] are those of chain i.
	Rate(differences [][]float64) stat.Estimate
	// FastRate is Rate from the fast half of the samples, for a core that another thread shares.
	FastRate(differences [][]float64) float64
	// Step is the clock's resolution in its own ticks.
	Step() float64
	// Resolution is the half-width in ticks that the clock's steps alone give the 95 % interval
	// of a time that n differences of two timings show so many times over.
	Resolution(n int, times float64) float64
	// RateResolution is the same of a Rate from n samples, in ticks per cycle.
	RateResolution(n int) float64
	// Describe tells a reader how readings became cycles.
	Describe() string
}

// Chain is a timed image of bbprof's own: a loop over dependent instructions after an lfence.
//
// What surrounds a chain costs a cycle more or less from one layout to the next, and only a
// long chain makes that small; but straight-line code of such a length would push the block
// out of the op cache. The loop's control costs nothing: it does not depend on the chain and
// runs ahead of it. Its end may be mispredicted, which costs some 20 cycles after the chain,
// so all loops are longer than any predictor's history (a few hundred branches; Seznec, TAGE):
// then it always is.
type Chain struct {
	Iterations int
	Multiply   bool
}

const (
	chainBody = 4 // chained instructions in an iteration
	chainRuns = 1 // runs timed at once
)

// Length is the number of chained instructions in a run.
func (c Chain) Length() int { return c.Iterations * chainBody }

// Runs is how many runs are timed at once.
func (Chain) Runs() int { return chainRuns }

// leadTurns is the length of the run from whose end a chain is timed. It only has to be
// longer than what came before can hide behind (350 adds; 200 are not enough).
const leadTurns = 256

// Emit appends the chain as an image that reads clock, and returns its entry. The first of its
// runs is a short one, which every chain has alike; the others are of the chain's length.
func (c Chain) Emit(e *asm.Emitter, clock harness.Clock) (entry uint64) {
	entry = Chain{leadTurns, c.Multiply}.run(e)
	harness.EndRun(e, clock)
	harness.Epilogue(e, c.run(e), clock)
	return entry
}

// run appends one run without its end.
func (c Chain) run(e *asm.Emitter) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.Lfence() // nothing before the chain may hide some of it
	e.MovImm(asm.RCX, uint64(c.Iterations))
	e.Align(64)
	again := e.PC()
	for range chainBody {
		if c.Multiply {
			e.Imul(asm.RAX, asm.RAX)
		} else {
			e.Add(asm.RAX, asm.RAX)
		}
	}
	e.Align(32) // the fused dec+jnz must not touch a 32-byte boundary (Intel erratum SKX102)
	e.Dec(asm.RCX)
	e.Jnz(again)
	return entry
}
