// Package harness emits the code that the child runs:
//
//   - images of a block's copies, in a row or in a loop, for timing, for a dry run or to log accesses;
//   - prologue and epilogue of an image: restore the initial state, run the copies, store the time;
//   - the sampler, which runs images in turn and keeps the samples of an idle core;
//   - waiting for an idle core, and choosing the number of runs per sample;
//   - reading hardware counters;
//   - logging accesses of an instrumented block.
//
// It knows the child's address map (package layout); package asm knows encodings only.
package harness

import (
	"sync"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
)

// Reset lists what a block changes beyond its general registers and arithmetic flags. The
// prologue restores nothing else, to disturb the front end as little as possible.
type Reset struct {
	Memory bool // writes memory: restore the SlotRestore words listed at layout.Restore
	Values bool // the list has a value for each word, see layout.MaxValues; else all get the fill
	First  int  // the entry of that list with which this image's words begin
	Vector bool // xmm0–15 or wider
	High   bool // zmm16–31 or opmasks
	X87    bool // x87 or MMX
	MMX    bool // MMX: zero all x87 registers too, because MMX sees the contents of empty ones
	Filled int  // x87 registers that hold 1.0 at the start
	MXCSR  bool // sticky flags or control bits
	Flags  bool // DF, AC, NT, … : anything but the arithmetic flags
	// SameCode loads registers and arithmetic flags by the same instructions, whatever their values.
	SameCode bool
}

// modeSwitchTurns is the least number of iterations of the loop before the first copy; SlotDispatch holds the number
// of extra ones. A taken branch to an aligned target lets the op cache take over from the decoders. Extra iterations
// shift the copies relative to the rename groups, which binds their instructions to ports for the whole run.
const modeSwitchTurns = 4

// queueFiller nops fill the queue between the decoders and rename, which the front end would otherwise fill with
// copies from the decoders during a slow restore.
const queueFiller = 80

// Prologue appends code that restores the initial state before a run of the block, and ends at a multiple of 64,
// where the first copy goes. It need not restore the segment bases: blocks that could change them do not run.
//
// Nothing here may push the copies out of the op cache: no mfence, no xrstor, no long rep.
func Prologue(e *asm.Emitter, init initial.State, reset Reset, features asm.Features) {
	prologue(e, init, reset, features, func(*asm.Emitter) asm.Reg { return none })
}

// prologue is Prologue with code that early appends before the last wait. That code leaves in r15 the initial value
// of the register that early returns.
func prologue(e *asm.Emitter, init initial.State, reset Reset, features asm.Features, early func(e *asm.Emitter) asm.Reg) {
	data := emitData(e, init, reset)
	if reset.Memory {
		restoreWords(e, init.Fill, reset.Values, reset.First)
	}
	if reset.MXCSR {
		e.Ldmxcsr(layout.SlotMXCSR)
	}
	if reset.X87 || reset.MMX {
		resetX87(e, init, data, reset)
	}
	if reset.Vector {
		clearVectors(e, features)
	}
	if reset.High && features.AVX512 {
		resetHigh(e, init.Opmasks, features)
	}
	loadVectors(e, init, data, reset, features)
	if reset.Flags {
		e.MovImm(asm.RSP, layout.SlotFlags)
		e.Popf()
	}
	if reset.MXCSR || reset.X87 || reset.High || reset.Flags {
		e.Lfence()
		for range queueFiller {
			e.Nop(1)
		}
	}
	kept := early(e)
	e.Load(asm.RCX, layout.SlotDispatch)
	e.AddImm8(asm.RCX, modeSwitchTurns)
	// Wait for the restoring stores and loads, whatever their number, and for the load of the number
	// of iterations, so that both unroll factors start alike.
	e.Lfence()

	tail := registerLoads(init, kept, reset.SameCode)
	e.Align(32) // the fused dec+jnz must not touch a 32-byte boundary (Intel erratum SKX102)
	loop := e.PC()
	e.Dec(asm.RCX)
	e.JnzShort(loop)
	e.Nop(int(-(e.PC() + uint64(len(tail))) & 63))
	e.Raw(tail...)
}

// dryRunPrologue appends code that sets the same initial state before an image of a dry run. It sets
// all that a block can change, from the memory that a dry run can see.
func dryRunPrologue(e *asm.Emitter, init initial.State, reset Reset, features asm.Features) {
	if init.X87 != nil { // all of it is a program's
		reset.X87, reset.Vector, reset.High = true, true, true
	}
	reset.MMX = true
	data := emitData(e, init, reset)
	e.Ldmxcsr(layout.DryRunMXCSR)
	resetX87(e, init, data, reset)
	clearVectors(e, features)
	if reset.High && features.AVX512 {
		resetHigh(e, init.Opmasks, features)
	}
	loadVectors(e, init, data, reset, features)
	e.MovImm(asm.RSP, layout.DryRunFlags)
	e.Popf()
	e.Raw(registerLoads(init, none, false)...)
	e.Align(64)
}

// resetX87 loads a program's x87 state from the image's data, or clears the x87 unit.
func resetX87(e *asm.Emitter, init initial.State, data uint64, reset Reset) {
	if init.X87 == nil {
		clearX87(e, reset.MMX, reset.Filled)
		return
	}
	e.Fninit() // frstor would raise the block's pending exceptions
	e.Frstor(data + 64*uint64(vectorsOf(init, reset)))
}

// clearX87 zeroes the x87 registers if mmx is set, empties them, and fills some.
func clearX87(e *asm.Emitter, mmx bool, filled int) {
	if mmx {
		e.Fnclex()                     // pxor would raise the block's pending exceptions
		for r := byte(0); r < 8; r++ { // pxor mm, mm
			e.Raw(0x0f, 0xef, 0xc0|r<<3|r)
		}
	}
	e.Fninit()
	for range filled {
		e.Raw(0xd9, 0xe8) // fld1
	}
}

// leaveOpCache appends code that the op cache cannot hold, so that the decoders serve it and all code up to the next
// taken branch. On Intel this is a fetch block of 64 one-byte instructions, more than its lines hold (Optimization
// Manual, "Decoded ICache"); on AMD an mfence, which has no effect on Intel. It keeps all state and the alignment to
// 64.
func leaveOpCache(e *asm.Emitter) {
	const window = 64
	e.Nop(window - 3)
	e.Raw(0x0f, 0xae, 0xf0) // mfence
	for range window {
		e.Nop(1)
	}
}

const none asm.Reg = 16

// registerLoads sets the arithmetic flags, then the registers: mov keeps the flags. kept gets its value from r15.
func registerLoads(init initial.State, kept asm.Reg, sameCode bool) []byte {
	const most = 192 // bytes: 10 for each of 16 registers, and the flags
	t := asm.NewEmitterIn(0, make([]byte, 0, most))
	if init.Flags == 0 && !sameCode {
		t.Raw(0x31, 0xc0)       // xor eax, eax
		t.Raw(0x83, 0xc0, 0x01) // add eax, 1: CF, PF, AF, ZF, SF and OF all 0
	} else {
		const overflow = 1 << 11                   // OF (SDM vol. 1, 3.4.3.1)
		t.Raw(0xb0, 0x7f)                          // mov al, 127
		t.Raw(0x04, byte(init.Flags&overflow>>11)) // add al, 1 overflows, add al, 0 does not
		t.Raw(0xb4, byte(init.Flags))              // mov ah, SF to CF, at their places in rflags
		t.Raw(0x9e)                                // sahf
	}
	for i, v := range init.GPR {
		switch r := asm.Reg(i); {
		case r == kept && r == asm.R15:
		case r == kept:
			t.Mov(r, asm.R15)
		case sameCode:
			t.MovAbs(r, v)
		default:
			t.MovImm(r, v)
		}
	}
	return t.Bytes()
}

// A prologue restores restoredAtOnce words without a branch: the last iteration of a loop over fewer was mispredicted
// in all runs of one image and in none of the other.
const restoredAtOnce = 256

// restoreWords stores fill, or the value beside the address, to each address of the list at layout.Restore. It writes
// through the block's own pages, not through another mapping of their frames: on AMD an access through another linear
// address mispredicts the L1D way. The code is a loop over restoredAtOnce steps. Its first iteration is entered in
// the middle, so that it handles the words beyond a multiple of restoredAtOnce.
func restoreWords(e *asm.Emitter, fill uint64, values bool, first int) {
	words, code := 1, restoreFill() // of the list, a step
	if values {
		words, code = 2, restoreValues()
	} else {
		e.MovImm(asm.RAX, fill)
	}
	e.Load(asm.RCX, layout.SlotRestore)
	e.Lea(asm.RSI, layout.Restore+8*uint64(words*first))
	e.Raw(0x0f, 0xb6, 0xd1)                             // movzx edx, cl: modulo restoredAtOnce
	e.Raw(0x48, 0x81, 0xea, 0, restoredAtOnce>>8, 0, 0) // sub rdx, restoredAtOnce: minus the skipped steps
	for range words {
		e.Raw(0x48, 0x8d, 0x34, 0xd6) // lea rsi, [rsi+rdx*8]
	}
	e.Raw(0x6b, 0xd2, byte(len(code)/restoredAtOnce)) // imul edx, edx, bytes of a step
	e.Raw(0x48, 0x63, 0xd2)                           // movsxd rdx, edx
	e.Raw(0xc1, 0xe9, 8)                              // shr ecx, log2(restoredAtOnce)
	e.AddImm8(asm.RCX, 1)
	start := e.ForwardLea(asm.RDI)
	e.Sub(asm.RDI, asm.RDX)
	e.JmpReg(asm.RDI)
	loop := e.PC()
	e.Bind(start)
	e.Raw(code...)
	e.Raw(0x48, 0x81, 0xc6, 0, byte(words*restoredAtOnce*8>>8), 0, 0) // add rsi, bytes of restoredAtOnce entries
	e.Align(32)
	e.Dec(asm.RCX)
	e.Jnz(loop)
	// The block starts with an empty store buffer. After a full one, blocks ran up to a third slower on Zen 4,
	// in one of two modes (docs/method.md, "Before the first copy").
	drainStores(e)
}

// The steps are the same in all images.
var (
	restoreFill   = sync.OnceValue(func() []byte { return restoreSteps(1) })
	restoreValues = sync.OnceValue(func() []byte { return restoreSteps(2) })
)

// restoreSteps returns restoredAtOnce steps through a list at rsi whose entries have this many words.
func restoreSteps(words int) []byte {
	var steps asm.Emitter
	for k := range restoredAtOnce {
		at := 8 * words * k
		steps.Raw(0x48, 0x8b, 0xbe, byte(at), byte(at>>8), 0, 0) // mov rdi, [rsi+at]
		if words > 1 {
			steps.Raw(0x48, 0x8b, 0x86, byte(at+8), byte((at+8)>>8), 0, 0) // mov rax, [rsi+at+8]
		}
		steps.StoreAt(asm.RDI, 0, asm.RAX)
	}
	return steps.Bytes()
}

// drainStores appends a wait until all stores have moved from the store buffer to L1D. It is a locked access (SDM
// vol. 3, "Store Buffer"), which unlike mfence keeps the op cache in use. It changes no register and no flag.
func drainStores(e *asm.Emitter) { e.LockNot(layout.SlotScratch) }

// Epilogue appends the code after the last copy: wait for it, store the time in the table at
// layout.Times, indexed by the number of runs left, and run again from entry or, after the last
// of SlotCount runs, jump to the address in SlotReturn.
//
// Each run reads the clock at its end, instead of the caller after the runs, because leaving the
// loop may or may not cost a mispredicted branch. Here that comes after the last reading.
func Epilogue(e *asm.Emitter, entry uint64, clock Clock) {
	EndRun(e, clock)
	e.Jnz(entry)
	e.JmpMem(layout.SlotReturn)
}

// EndRun appends the end of a run without the final jump. It sets the zero flag after the last run.
func EndRun(e *asm.Emitter, clock Clock) {
	clock(e)
	e.Load(asm.RCX, layout.SlotCount)
	e.Lea(asm.RDX, layout.Times)
	e.StoreIndexed(asm.RDX, asm.RCX, asm.RAX)
	e.AddImm8(asm.RCX, -1)
	e.Store(layout.SlotCount, asm.RCX) // changes no flag
}
