package asm

import "github.com/bbprof/bbprof/internal/layout"

// Init is the state that a block starts from, the same before every run.
type Init struct {
	Name   string     `json:"name"`
	GPR    [16]uint64 `json:"gpr"`     // by encoding number, rsp included
	FSBase uint64     `json:"fs_base"` //
	GSBase uint64     `json:"gs_base"` //
	Fill   uint64     `json:"fill"`    // every aligned word of every page
	MXCSR  uint32     `json:"mxcsr"`
}

// DefaultMXCSR is MXCSR after a reset: all six exceptions masked, round to nearest, subnormals
// computed (SDM vol. 1, 10.2.3). The next two flush them.
const (
	DefaultMXCSR = 0x1f80
	mxcsrDAZ     = 0x0040
	mxcsrFTZ     = 0x8000
)

// The segment bases of every initial state: pages of their own, as thread-local storage is
// apart from the stack, at lines of their own. The paper has none.
const (
	fsBase = 0x2345_6800
	gsBase = 0x3456_7a00
)

// paperWord is the paper's value for every register and every word of memory: read as a
// pointer, a mappable address in the middle of a page.
const paperWord = 0x1234_5600

// PaperInit is the one initial state of the BHive paper (IISWC 2019, section 3).
func PaperInit() Init { return uniform("paper", paperWord) }

func uniform(name string, word uint64) Init {
	s := Init{Name: name, FSBase: fsBase, GSBase: gsBase, Fill: word, MXCSR: DefaultMXCSR | mxcsrDAZ | mxcsrFTZ}
	for i := range s.GPR {
		s.GPR[i] = word
	}
	return s
}

// Inits are all initial states, the paper's first, then those that a block is given when it
// fails for its context rather than for itself, in the order in which they are tried.
func Inits() []Init {
	return []Init{PaperInit(), distinctInit(), stackInit(), divisibleInit(), lowInit(), alignedInit()}
}

// distinctInit gives every register a page and a line of its own: no two pointers are equal,
// nor are their low 12 bits, which lie 192 bytes apart.
func distinctInit() Init {
	s := uniform("distinct", paperWord)
	for i := range s.GPR {
		s.GPR[i] = distinctPointer(i)
	}
	return s
}

func distinctPointer(i int) uint64 { return 0x1234_0000 + uint64(i)*0x2_1000 + 0x200 + uint64(i)*0xc0 }

// stackInit is distinct, with the stack as it is at the entry of a function: 8 bytes off a
// multiple of 16 (System V ABI for AMD64, 3.2.2).
func stackInit() Init {
	s := distinctInit()
	s.Name = "stack"
	s.GPR[RSP] += 8
	s.GPR[RBP] += 8
	return s
}

// divisibleInit lets divisions through: rdx, the upper half of a dividend, is 0, and in the
// other registers and in memory ax / cl, too, fits 8 bits.
func divisibleInit() Init {
	s := uniform("divisible", 0x1234_1040)
	s.GPR[RDX] = 0
	return s
}

// lowInit has small values, whose sums, products and shifts stay canonical for longer, and
// which are pointers all the same, just above the highest usual vm.mmap_min_addr.
func lowInit() Init {
	s := uniform("low", 0x2_0040)
	for i := range s.GPR {
		s.GPR[i] = 0x2_0000 + uint64(i)*0x1000 + 0x200 + uint64(i)*0xc0
	}
	return s
}

// alignedInit points every register at the first byte of a page of its own.
func alignedInit() Init {
	s := uniform("aligned", 0x1234_5000)
	for i := range s.GPR {
		s.GPR[i] = distinctPointer(i) &^ 0xfff
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
	MMX    bool // MMX: all x87 registers are zeroed too, whose contents x87 cannot reach while they are empty
	Filled int  // x87 registers that hold 1.0 at the start
	MXCSR  bool // sticky flags or control bits
	Flags  bool // DF, AC, NT, … : anything but the arithmetic flags
}

// CPU says which encodings our own code may use.
type CPU struct {
	AVX      bool
	AVX512   bool
	AVX512BW bool
}

// modeSwitchTurns is the least number of turns of the loop before the first copy; SlotTurns
// has how many more to take. A taken branch right before an aligned target lets the op cache
// take over from the decoders; one is not enough on Zen 5, four are. More of them shift
// where the copies meet the rename groups, which decides for the whole run which ports their
// instructions are bound to.
const modeSwitchTurns = 4

// queueFiller is how many nops fill the queue between the decoders and rename (64 on Skylake).
// While a slow restore is waited for, the front end runs ahead into the loop and the copies, with
// the decoders; it must run into these instead. Floating-point blocks ran from the decoders
// without them (docs/front-end.md).
const queueFiller = 80

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
		e.Ldmxcsr(layout.SlotMXCSR)
	}
	if reset.X87 || reset.MMX {
		e.clearX87(reset.MMX, reset.Filled)
	}
	if reset.Vector {
		e.clearVectors(cpu)
	}
	if reset.High && cpu.AVX512 {
		e.clearHigh()
	}
	if reset.Flags {
		e.MovImm(RSP, layout.SlotFlags)
		e.Popf()
	}
	if reset.MXCSR || reset.X87 || reset.High || reset.Flags {
		e.Lfence()
		for range queueFiller {
			e.Nop(1)
		}
	}
	// The restoring stores and loads have executed before the block starts, whatever their
	// number, so that both unroll factors start alike.
	e.Lfence()

	tail := e.enterTail(init)
	e.Load(RCX, layout.SlotTurns)
	e.AddImm8(RCX, modeSwitchTurns)
	e.Align(32) // the fused dec+jnz must not touch a 32-byte boundary (Intel erratum SKX102)
	loop := e.PC()
	e.Dec(RCX)
	e.JnzShort(loop)
	e.Nop(int(-(e.PC() + uint64(len(tail))) & 63))
	e.Raw(tail...)
}

// TrialPrologue appends what sets the same initial state ahead of an image on trial: all
// that a block can change, from what the trial's side of the own region holds.
func (e *Emitter) TrialPrologue(init Init, reset Reset, cpu CPU) {
	e.Ldmxcsr(layout.TrialMXCSR)
	e.clearX87(true, reset.Filled)
	e.clearVectors(cpu)
	if reset.High && cpu.AVX512 {
		e.clearHigh()
	}
	e.MovImm(RSP, layout.TrialFlags)
	e.Popf()
	e.Raw(e.enterTail(init)...)
	e.Align(64)
}

// clearX87 empties the x87 registers, zeroes them before if mmx says so, and fills some.
func (e *Emitter) clearX87(mmx bool, filled int) {
	if mmx {
		e.Fnclex()                     // pxor would raise what the block left pending
		for r := byte(0); r < 8; r++ { // pxor mm, mm
			e.Raw(0x0f, 0xef, 0xc0|r<<3|r)
		}
	}
	e.Fninit()
	for range filled {
		e.Raw(0xd9, 0xe8) // fld1
	}
}

// LeaveOpCache appends what the op cache cannot hold, so that the decoders serve it and what
// follows until the next taken branch: on Intel a window of 64 bytes with as many
// instructions, more than the lines for one window take (18 for 32 bytes on Skylake, 48 for
// 64 on Golden Cove; Optimization Manual, "Decoded ICache"); on AMD an mfence, which on Intel
// changes nothing. It keeps all state and the alignment to 64.
func (e *Emitter) LeaveOpCache() {
	const window = 64
	e.Nop(window - 3)
	e.Raw(0x0f, 0xae, 0xf0) // mfence
	for range window {
		e.Nop(1)
	}
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
	e.Lea(RSI, layout.Restore)
	e.MovImm(RAX, fill)
	e.Load(RCX, layout.SlotRestore)
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
	// The block starts with an empty store buffer: behind a full one it ran up to a third slower,
	// in one of two modes (docs/front-end.md). A locked access waits until it is drained (SDM vol.
	// 3, "Store Buffer"), and unlike mfence leaves the op cache in charge.
	e.Xchg(layout.SlotScratch, RAX)
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
	e.EndRun(clock)
	e.Jnz(entry)
	e.JmpMem(layout.SlotReturn)
}

// EndRun appends the end of a run but for where to go from there: the zero flag is set if it
// was the last.
func (e *Emitter) EndRun(clock Clock) {
	clock(e)
	e.Load(RCX, layout.SlotCount)
	e.Lea(RDX, layout.Times)
	e.StoreIndexed(RDX, RCX, RAX)
	e.AddImm8(RCX, -1)
	e.Store(layout.SlotCount, RCX) // changes no flag
}
