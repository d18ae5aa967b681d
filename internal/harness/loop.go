package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// repeat emits copies in a row, or a loop of them, for runs or for a dry run.
func repeat(at uint64, insts []asm.Inst, iterations int, loop *unroll.Loop, h Harness, dryRun bool) (Image, error) {
	switch {
	case loop == nil:
		return build(at, insts, iterations, h, shape{dryRun: dryRun})
	case loop.Exit != nil:
		return buildOwn(at, insts, loop.Copies, iterations/loop.Copies, *loop.Exit, h, dryRun)
	}
	return build(at, insts, loop.Copies, h, loopShape(iterations/loop.Copies, loop.Counter, h.Init, dryRun))
}

// loopShape is the shape of a counted loop.
func loopShape(iterations int, counter unroll.Counter, init initial.State, dryRun bool) shape {
	slot := uint64(layout.SlotLoop)
	if dryRun {
		slot = layout.DryRunCount
	}
	return shape{
		dryRun: dryRun,
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
				padBranch(e, decMemBytes, jnzBytes)
				e.DecMem(slot)
			} else {
				padBranch(e, 0, decBytes+jnzBytes) // the two are one operation
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

// padBranch pads with at most one nop so that the n bytes after the next skip neither cross nor
// end at a 32-byte boundary, which would keep the branch's fetch block out of the op cache
// (Intel erratum SKX102).
func padBranch(e *asm.Emitter, skip, n int) {
	const window = 32
	if at := int(e.PC()+uint64(skip)) % window; at+n >= window {
		e.Nop(window - at)
	}
}

// buildOwn emits a loop over the copies that the block's own branch closes. Only the last copy has the branch, and only the state that exit sets
// ends the loop after this many iterations. A dry run counts iterations in memory and traps unless the loop ends after this many: see
// [Image.Taken].
func buildOwn(at uint64, insts []asm.Inst, copies, iterations int, exit unroll.Exit, h Harness, dryRun bool) (Image, error) {
	branch, _ := asm.TrailingBranch(insts)
	const scratch = layout.DryRunCount + 8
	var exits uint64
	reached := true
	im, err := build(at, insts[:len(insts)-1], copies, h, shape{
		dryRun: dryRun,
		before: func(e *asm.Emitter) {
			if dryRun {
				exits = traps(e, 2)
				e.MovImm(asm.RAX, uint64(iterations)+1)
				e.Store(layout.DryRunCount, asm.RAX)
				e.MovImm(asm.RAX, h.Init.GPR[asm.RAX])
			}
			switch {
			case exit.Memory && dryRun: // the page is mapped later, with this value
			case exit.Memory:
				e.MovImm(asm.RCX, exit.Addr)
				e.MovImm(asm.RAX, exit.Value(iterations*copies))
				e.StoreAt(asm.RCX, 0, asm.RAX)
				e.MovImm(asm.RCX, h.Init.GPR[asm.RCX])
				e.MovImm(asm.RAX, h.Init.GPR[asm.RAX])
			default:
				e.MovImm(exit.Reg, exit.Value(iterations*copies))
			}
			e.Align(64)
		},
		after: func(e *asm.Emitter, first uint64) {
			if !dryRun {
				reached = branch.Emit(e, first)
				return
			}
			count := func() { // leaves the remaining iterations in rcx
				e.Store(scratch, asm.RCX)
				e.Load(asm.RCX, layout.DryRunCount)
				e.Raw(0x48, 0x8d, 0x49, 0xff) // lea rcx, [rcx-1]
				e.Store(layout.DryRunCount, asm.RCX)
			}
			count()
			e.Raw(0xe3, 7+5) // jrcxz over the load and the jump
			e.Load(asm.RCX, scratch)
			past := e.ForwardJmp()
			e.Jmp(exits + 1)
			e.Bind(past)
			branch.EmitFar(e, first)
			count()
			e.Raw(0xe3, 5) // jrcxz over the jump
			e.Jmp(exits)
		},
	})
	if im.exits, im.traps, im.Own = exits, 2, true; err == nil && !reached {
		err = &verdict.Rejection{Reason: verdict.ControlFlow, Inst: branch.Verdict(len(insts) - 1),
			Detail: branch.Mnemonic + " does not reach the start of so many copies"}
	}
	return im, err
}
