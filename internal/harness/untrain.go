package harness

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// untrainTurns × untrainBranches branches of random outcome take the branch predictor's entries from all other code
// (docs/constants.md).
const (
	untrainTurns    = 512
	untrainBranches = 64 // bits of the random word
)

// Untrain appends code that overwrites what the branch predictor learnt of all other code, and jumps to done.
func Untrain(e *asm.Emitter, done uint64) (entry uint64) {
	e.Align(64)
	entry = e.PC()
	e.Rdtsc()
	loop(e, untrainTurns, func() { // rax, at first the time, is the random word of an xorshift (Marsaglia, JSS 8, 2003)
		e.Raw(0x48, 0x89, 0xc3, 0x48, 0xc1, 0xe3, 13, 0x48, 0x31, 0xd8) // mov rbx, rax; shl rbx, 13; xor rax, rbx
		e.Raw(0x48, 0x89, 0xc3, 0x48, 0xc1, 0xeb, 7, 0x48, 0x31, 0xd8)  // mov rbx, rax; shr rbx, 7; xor rax, rbx
		e.Raw(0x48, 0x89, 0xc3, 0x48, 0xc1, 0xe3, 17, 0x48, 0x31, 0xd8) // mov rbx, rax; shl rbx, 17; xor rax, rbx
		for bit := range byte(untrainBranches) {
			e.Raw(0x48, 0x0f, 0xba, 0xe0, bit) // bt rax, bit
			e.Raw(0x72, 1, 0x90)               // jc past a nop
		}
	})
	e.Jmp(done)
	return entry
}

// storeStart appends code that stores a run's start where the end of the run before it stands.
func storeStart(e *asm.Emitter, clock Clock) {
	clock(e)
	e.Load(asm.RCX, layout.SlotCount)
	e.Lea(asm.RDX, layout.Times+8)
	e.StoreIndexed(asm.RDX, asm.RCX, asm.RAX)
}
