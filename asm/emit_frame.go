package asm

import "github.com/bbprof/bbprof/internal/space"

// Init is the state that a block starts from, the same before every run.
type Init struct {
	GPR    [16]uint64 `json:"gpr"`     // by encoding number, rsp included
	FSBase uint64     `json:"fs_base"` //
	GSBase uint64     `json:"gs_base"` //
	Fill   uint64     `json:"fill"`    // every aligned word of every page
	MXCSR  uint32     `json:"mxcsr"`
}

// MXCSR bits (SDM vol. 1, 10.2.3).
const (
	mxcsrMasked = 0x1f80 // all six exceptions masked, round to nearest
	mxcsrDAZ    = 0x0040
	mxcsrFTZ    = 0x8000
)

// PaperInit is the one initial state of the BHive paper (IISWC 2019, section 3): every
// register and every word of memory is 0x12345600, read as a pointer a mappable address in
// the middle of a page. The segment bases are ours (the paper has none): pages of their
// own, as thread-local storage is apart from the stack, at lines of their own.
func PaperInit() Init {
	s := Init{
		FSBase: 0x2345_6800,
		GSBase: 0x3456_7a00,
		Fill:   0x1234_5600,
		MXCSR:  mxcsrMasked | mxcsrDAZ | mxcsrFTZ,
	}
	for i := range s.GPR {
		s.GPR[i] = 0x1234_5600
	}
	return s
}

// Reset says what a block disturbs beyond its general registers and arithmetic flags, so
// that the prologue restores that and no more: the least restores also disturb the front
// end least.
type Reset struct {
	Memory bool // writes memory: put back the SlotRestore words listed at space.Restore
	Vector bool // xmm0–15 or wider
	High   bool // zmm16–31 or opmasks
	X87    bool // x87 or MMX
	MXCSR  bool // sticky flags or control bits
	Flags  bool // DF, AC, NT, … : anything but the arithmetic flags
}

// CPU says which encodings the prologue may use.
type CPU struct {
	AVX    bool
	AVX512 bool
}

// turns of the loop before the first copy. A taken branch right before an aligned target
// lets the op cache take over from the decoders; one is not enough on Zen 5, four are.
const modeSwitchTurns = 4

// Prologue appends what stands between two runs of the block and restores the initial
// state, and ends at a multiple of 64, where the first copy goes. The segment bases are not
// restored: what could change them does not run.
//
// Nothing here may push the copies out of the op cache: no mfence, no xrstor, no long rep.
func (e *Emitter) Prologue(init Init, reset Reset, cpu CPU) {
	if reset.Memory {
		e.restoreWords(init.Fill)
	}
	if reset.MXCSR {
		e.Ldmxcsr(space.SlotMXCSR)
	}
	if reset.X87 {
		e.Fninit()
	}
	if reset.Vector {
		e.clearVectors(cpu)
	}
	if reset.High && cpu.AVX512 {
		e.clearHigh()
	}
	if reset.Flags {
		e.MovImm(RSP, space.SlotFlags)
		e.Popf()
	}
	// The restoring stores and loads have executed before the block starts, whatever their
	// number, so that both unroll factors start alike.
	e.Lfence()

	tail := e.enterTail(init)
	e.MovImm(RCX, modeSwitchTurns)
	e.Align(32) // the fused dec+jnz must not touch a 32-byte boundary (Intel erratum SKX102)
	loop := e.PC()
	e.Dec(RCX)
	e.JnzShort(loop)
	e.Nop(int(-(e.PC() + uint64(len(tail))) & 63))
	e.Raw(tail...)
}

// enterTail clears the arithmetic flags and sets the registers, in that order: mov leaves
// flags alone.
func (e *Emitter) enterTail(init Init) []byte {
	t := NewEmitter(0)
	t.Raw(0x31, 0xc0)       // xor eax, eax
	t.Raw(0x83, 0xc0, 0x01) // add eax, 1: CF, PF, AF, ZF, SF and OF all 0
	for r, v := range init.GPR {
		t.MovImm(Reg(r), v)
	}
	return t.Bytes()
}

// restoreWords stores fill to each address of the list at space.Restore. It writes through
// the block's own pages, not through another mapping of their frames: on AMD an access
// through another linear address mispredicts the L1D way.
func (e *Emitter) restoreWords(fill uint64) {
	e.Lea(RSI, space.Restore)
	e.MovImm(RAX, fill)
	e.Load(RCX, space.SlotRestore)
	e.AddImm8(RCX, 0)
	none := e.ForwardJz()
	e.Align(32)
	loop := e.PC()
	e.LoadAt(RDI, RSI, 0)
	e.StoreAt(RDI, 0, RAX)
	e.AddImm8(RSI, 8)
	e.Dec(RCX)
	e.JnzShort(loop)
	e.Land(none)
}

// clearVectors zeroes xmm0–15, ymm0–15 and the lower half of the zmm file.
func (e *Emitter) clearVectors(cpu CPU) {
	if cpu.AVX {
		e.Vzeroall()
		return
	}
	for r := byte(0); r < 16; r++ { // pxor xmm, xmm
		e.Raw(0x66, 0x40|r>>3<<2|r>>3, 0x0f, 0xef, 0xc0|r&7<<3|r&7)
	}
}

// clearHigh zeroes zmm16–31 and the opmasks, which vzeroall leaves alone.
func (e *Emitter) clearHigh() {
	for r := byte(0); r < 16; r++ {
		// vpxord zmm, zmm, zmm for 16+r: EVEX.512.66.0F.W0 EF; R', X (as bit 4 of rm) and V'
		// are inverted and so 0 for registers 16–31, R and B take bit 3 (SDM vol. 2, 2.7.1).
		low := r & 7
		hi := (r >> 3) ^ 1
		e.Raw(0x62, 0x01|hi<<7|hi<<5, 0x05|(^r&15)<<3, 0x40, 0xef, 0xc0|low<<3|low)
	}
	for k := byte(0); k < 8; k++ {
		// kxorw k, k, k: VEX.L1.0F.W0 47
		e.Raw(0xc5, 0x80|(^k&15)<<3|0x04, 0x47, 0xc0|k<<3|k)
	}
}

// Epilogue appends what follows the last copy: wait for it, note the time in the table at
// space.Times under the number of runs left, run again from entry or, after the last of
// SlotCount runs, go where SlotReturn says.
//
// The clock is read at the end of every run and not by whoever wanted the runs, because
// leaving the loop costs a mispredicted branch or not, as the predictor pleases: this way
// that always comes after the last reading.
func (e *Emitter) Epilogue(entry uint64, clock Clock) {
	clock(e)
	e.Load(RCX, space.SlotCount)
	e.Lea(RDX, space.Times)
	e.StoreIndexed(RDX, RCX, RAX)
	e.AddImm8(RCX, -1)
	e.Store(space.SlotCount, RCX) // changes no flag
	e.Jnz(entry)
	e.JmpMem(space.SlotReturn)
}
