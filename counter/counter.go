// Package counter turns clock readings into core cycles.
//
// A [Clock] says how generated code reads time in the child and what else must be timed
// beside the block to make core cycles of the readings. The time-stamp counter ticks at a
// constant rate whatever the core does, so it needs a calibration chain: dependent adds,
// of which the core executes exactly one a cycle. A hardware cycle counter needs none.
package counter

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/stat"
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
	// FastRate is Rate from the fast half of the samples, for a core that somebody shares.
	FastRate(differences [][]float64) float64
	// Step is the clock's resolution in its own ticks.
	Step() float64
	// Describe tells a reader how readings became cycles.
	Describe() string
}

// Chain is a timed image of bbprof's own: Length dependent instructions behind an lfence.
type Chain struct {
	Length   int
	Multiply bool
}

// chainRuns is how many runs of a chain are timed at once.
const chainRuns = 16

// Runs is how many runs are timed at once.
func (Chain) Runs() int { return chainRuns }

// Emit appends the chain as an image that reads clock, and returns its entry.
func (c Chain) Emit(e *asm.Emitter, clock asm.Clock) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.Lfence() // nothing before the chain may hide some of it
	for range c.Length {
		if c.Multiply {
			e.Imul(asm.RAX, asm.RAX)
		} else {
			e.Add(asm.RAX, asm.RAX)
		}
	}
	e.Epilogue(entry, clock)
	return entry
}
