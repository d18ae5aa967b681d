package harness

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

func repeat(at uint64, insts []asm.Inst, iterations int, loop *unroll.Loop, h Harness, dryRun bool) (Image, error) {
	switch {
	case loop == nil:
		return build(at, insts, iterations, h, shape{dryRun: dryRun})
	case loop.Exit != nil:
		return buildOwn(at, insts, iterations/loop.Bodies.Long, *loop, h, dryRun)
	}
	copies, turns := loop.Split(iterations)
	im, err := build(at, insts, copies, h, loopShape(*loop, turns, h.Init, dryRun))
	im, _ = im.For(iterations)
	return im, err
}

// loopShape is that of a loop with these turns, or with as many as the entry of its one code stores.
func loopShape(l unroll.Loop, turns int, init initial.State, dryRun bool) shape {
	slot, counter, oneCode := uint64(layout.SlotLoop), l.Counter, l.OneCode() && !dryRun
	if dryRun {
		slot = layout.DryRunCount
	}
	var entries []int
	setTurns := func(e *asm.Emitter, r asm.Reg) { e.MovImm(r, uint64(turns)) }
	if oneCode {
		entries = []int{l.Turns.Short, (l.Turns.Short + l.Turns.Long) / 2, l.Turns.Long}
		setTurns = func(e *asm.Emitter, r asm.Reg) { e.Load(r, layout.SlotTurns) }
	}
	return shape{
		dryRun: dryRun,
		turns:  entries,
		before: func(e *asm.Emitter) {
			if counter.Memory {
				setTurns(e, asm.RAX)
				e.Store(slot, asm.RAX)
				e.MovImm(asm.RAX, init.GPR[asm.RAX])
			} else {
				setTurns(e, counter.Reg)
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
			if oneCode {
				e.Lfence() // as in buildOwn: the exit may be predicted after one number of turns alone
			}
		},
	}
}

// Lengths of the encodings that the Emitter uses.
const (
	decBytes    = 3
	decMemBytes = 7
	jnzBytes    = 6
)

// padBranch pads with at most one nop so that the n bytes after the next skip neither cross nor end at a 32-byte
// boundary, which would keep the branch's fetch block out of the op cache (Intel erratum SKX102).
func padBranch(e *asm.Emitter, skip, n int) {
	const window = 32
	if at := int(e.PC()+uint64(skip)) % window; at+n >= window {
		e.Nop(window - at)
	}
}

// buildOwn emits a loop over the copies that the block's own branch closes. Only the last copy has the branch, and
// only the state that l.Exit sets ends the loop after this many iterations, or fewer by l.Varied. A dry run counts
// iterations in memory and traps unless the loop ends after this many: see [Image.Taken].
func buildOwn(at uint64, insts []asm.Inst, iterations int, l unroll.Loop, h Harness, dryRun bool) (Image, error) {
	const scratch = layout.DryRunCount + 8
	branch, _ := asm.TrailingBranch(insts)
	var exits, table uint64
	reached := true
	im, err := build(at, insts[:len(insts)-1], l.Bodies.Long, h, shape{
		dryRun: dryRun,
		early: func(e *asm.Emitter) (kept asm.Reg) {
			table, kept = setExit(e, iterations, l)
			return kept
		},
		before: func(e *asm.Emitter) {
			if dryRun {
				exits = traps(e, 2)
				e.MovImm(asm.RAX, uint64(iterations)+1)
				e.Store(layout.DryRunCount, asm.RAX)
				e.MovImm(asm.RAX, h.Init.GPR[asm.RAX])
				if !l.Exit.Memory { // the page of a word is mapped later, with its value
					e.MovImm(l.Exit.Reg, l.Exit.Value(iterations*l.Bodies.Long))
				}
			}
			e.Nop(ownLead)
			e.Align(64)
		},
		after: func(e *asm.Emitter, first uint64) {
			if !dryRun {
				reached = branch.Emit(e, first)
				// Where the exit is predicted, the wait for the stores would enter the pipeline beside the last
				// iterations, and take up to 20 cycles more (Zen 4).
				e.Lfence()
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
	if im.exits, im.traps, im.Own, im.Table = exits, 2, true, table; err == nil && !reached {
		err = &verdict.Rejection{Reason: verdict.ControlFlow, Inst: branch.Verdict(len(insts) - 1),
			Detail: branch.Mnemonic + " does not reach the start of so many copies"}
	}
	return im, err
}

const (
	// ownLead is the size of the nops before a loop that the block's own branch closes. Without them some 3 of 100
	// loops have a speed in one of their layouts that an independent harness does not see (Zen 4).
	ownLead = 64
	// variedExits is the number of entries of an image's table of exits, and TableBytes its size.
	variedExits = 32
	TableBytes  = 8 * variedExits
)

// setExit appends a table of values that end a loop, and code that leaves the one for this run in the exit's word of
// memory, or in r15 for the register that it returns. Successive runs use successive entries, and each sample starts
// with another one. So a branch predictor does not learn the numbers of iterations, and both images lack as many.
func setExit(e *asm.Emitter, iterations int, l unroll.Loop) (table uint64, kept asm.Reg) {
	past := e.ForwardJmp()
	e.Align(64)
	table = e.PC()
	random := rand.New(rand.NewPCG(0, 0))
	for range variedExits {
		fewer := random.IntN(max(l.Varied, 1))
		e.Raw(binary.LittleEndian.AppendUint64(nil, l.Exit.Value((iterations-fewer)*l.Bodies.Long))...)
	}
	e.Bind(past)
	e.Load(asm.RAX, layout.SlotCount)
	e.Load(asm.RCX, layout.SlotDither)
	e.Add(asm.RAX, asm.RCX)
	e.AndImm8(asm.RAX, variedExits-1)
	e.Lea(asm.RCX, table)
	e.LoadIndexed(asm.RAX, asm.RCX, asm.RAX)
	if l.Exit.Memory {
		e.MovImm(asm.RCX, l.Exit.Addr)
		e.StoreAt(asm.RCX, 0, asm.RAX)
		return table, none
	}
	e.Mov(asm.R15, asm.RAX)
	return table, l.Exit.Reg
}
