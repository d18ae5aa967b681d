// Package clock turns clock readings into core cycles.
//
// A [Clock] says how generated code reads time in the child. The time-stamp counter ticks at a
// constant rate whatever the core does, so it needs a calibration chain: dependent adds,
// of which the core executes exactly one a cycle. A hardware cycle counter needs none.
package clock

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
)

type Clock interface {
	// Emit appends code that leaves a reading in rax.
	Emit(e *asm.Emitter)
	// Step is the clock's resolution in its own ticks.
	Step() float64
	// Resolution is the part of a time's 95 % half-width, in ticks, that is due to the clock's
	// steps, where each of n differences of two timings holds that time some number of times.
	Resolution(n int, times float64) float64
	// RateResolution is the same for the rate from n samples of the chains, in ticks per cycle.
	RateResolution(n int) float64
}

// Chain is a timed image of bbprof's own: a loop over dependent instructions after an lfence. The code around it
// varies by about a cycle between layouts, so the chain must be long; straight-line code of that length would push
// the block out of the op cache. The loop's control runs ahead of the chain and costs nothing but a mispredicted
// exit: each loop is longer than any predictor's history (a few hundred branches; Seznec, TAGE), so that every exit
// is mispredicted.
type Chain struct {
	Iterations int
	Multiply   bool
}

const chainBody = 4

// Length is the number of chained instructions in a run.
func (c Chain) Length() int { return c.Iterations * chainBody }

// leadTurns is the length of the run before the timed ones, so that earlier work does not overlap them: 200 adds let it.
const leadTurns = 256

// Emit appends the chain as an image that reads clock, and returns its entry. Its first run is
// short and the same in every chain; the others have the chain's length.
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
	e.Lfence() // nothing before the chain may overlap it
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
