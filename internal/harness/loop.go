package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/unroll"
)

// BuildLoop is Build with the copies executed iterations times by a counted loop.
func BuildLoop(at uint64, insts []asm.Inst, copies, iterations int, counter unroll.Counter, h Harness) (Image, error) {
	return build(at, insts, copies, h, loopShape(iterations, counter, h.Init, layout.SlotLoop))
}

// BuildLoopDryRun is BuildLoop for a dry run, see BuildDryRun. A counter in memory is all that it
// writes to.
func BuildLoopDryRun(insts []asm.Inst, copies, iterations int, counter unroll.Counter, h Harness) (Image, error) {
	s := loopShape(iterations, counter, h.Init, layout.DryRunCount)
	s.dryRun = true
	return build(layout.DryRunCode, insts, copies, h, s)
}

func loopShape(iterations int, counter unroll.Counter, init initial.State, slot uint64) shape {
	return shape{
		before: func(e *asm.Emitter) {
			if counter.Memory {
				e.MovImm(asm.RAX, uint64(iterations))
				e.Store(slot, asm.RAX)
				e.MovImm(asm.RAX, init.GPR[asm.RAX])
			} else {
				e.MovImm(counter.Reg, uint64(iterations))
			}
			e.Align(64)
		},
		after: func(e *asm.Emitter, first uint64) {
			if counter.Memory {
				keepWhole(e, decMemBytes, jnzBytes)
				e.DecMem(slot)
			} else {
				keepWhole(e, 0, decBytes+jnzBytes) // the two are one operation
				e.Dec(counter.Reg)
			}
			e.Jnz(first)
		},
	}
}

// Lengths of the encodings that the Emitter uses.
const (
	decBytes    = 3
	decMemBytes = 7
	jnzBytes    = 6
)

// keepWhole pads with at most one nop so that the n bytes that follow the next skip neither
// cross nor end at a 32-byte boundary, which would put the branch's window out of the op
// cache (Intel erratum SKX102).
func keepWhole(e *asm.Emitter, skip, n int) {
	const window = 32
	if at := int(e.PC()+uint64(skip)) % window; at+n >= window {
		e.Nop(window - at)
	}
}
