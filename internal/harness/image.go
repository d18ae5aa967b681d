package harness

import (
	"fmt"
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

type Image struct {
	Code      []byte
	Address   uint64         // address of Code[0]
	Entry     uint64         // where the first run starts
	entries   map[int]uint64 // of a loop that is one code for several numbers of iterations
	FirstCopy uint64         // address of the first copy: a multiple of 64, and Harness.Offset
	Copies    int
	block     int    // bytes of one copy, 0 if each logs
	added     []span // code in a copy beside the block's bytes, ascending
	stride    int    // from copy to copy
	opcode    int    // offset in a copy of the opcode of its final branch, whose lowest bit inverts the condition
	exits     uint64 // in a dry run: the first of the traps that Taken tells apart
	traps     int
	Own       bool   // the block's own branch closes the loop: one trap for a loop that ends early, one for a loop that goes on
	Table     uint64 // address of the values that end such a loop, TableBytes; 0: none
}

// For returns the same code as the image of another number of iterations; ok is false if it is not.
func (im Image) For(iterations int) (other Image, ok bool) {
	at, ok := im.entries[iterations]
	if ok {
		im.Entry = at
	}
	return im, ok
}

// span is code of a copy that belongs to the instruction after it.
type span struct{ at, size int }

// End returns the address after the image.
func (im Image) End() uint64 { return im.Address + uint64(len(im.Code)) }

// Locate returns the copy of the block at an address, and the byte within it; ok is false outside of the copies.
func (im Image) Locate(addr uint64) (copy, offset int, ok bool) {
	if addr < im.FirstCopy || addr >= im.FirstCopy+uint64(im.Copies*im.block) {
		return 0, 0, false
	}
	d := int(addr - im.FirstCopy)
	copy, offset = d/im.block, d%im.block
	skipped := 0
	for _, a := range im.added {
		if offset < a.at {
			break
		}
		skipped += min(offset-a.at, a.size)
	}
	return copy, offset - skipped, true
}

type Harness struct {
	Init     initial.State
	Reset    Reset
	Features asm.Features
	Clock    Clock
	// Decoders keeps the copies out of the op cache: they run from the legacy decoders, if the
	// core uses those until the next taken branch.
	Decoders bool
	// Offset is the start of the first copy in its cache line. That many bytes of nops run once before it.
	Offset int
	// LeadNops, if not 0, is the number of these nops, in 64 bytes more. It shifts the copies relative to the
	// rename groups but not within their cache lines.
	LeadNops int
	// Replayed gives rip-relative operands the meaning that they have in a block at Address. The images run in
	// an alias region, Shift after the address of their code.
	Replayed bool
	Address  uint64
	Shift    uint64
	// Inverted lists, ascending, the copies from which on the condition of the block's final branch is inverted.
	Inverted []int
	// FallThrough lets a dry run take that branch, to the next instruction; otherwise it must not be taken.
	FallThrough bool
	// TimesFirst has each run of a region store when it starts, so that the first of several is timed too.
	TimesFirst bool
	// Memory returns the memory for code at an address, used if the code fits; by default memory is allocated.
	Memory func(at uint64) []byte
}

// Home returns the address that the block's rip-relative operands assume.
func (h Harness) Home() uint64 {
	if h.Replayed {
		return h.Address
	}
	return layout.Home
}

func (h Harness) emitter(at uint64) *asm.Emitter {
	if h.Memory == nil {
		return asm.NewEmitter(at)
	}
	return asm.NewEmitterIn(at, h.Memory(at))
}

// Build emits this many iterations of a block at the first 64-byte boundary from at on: copies in a row, or a loop of
// them. It rewrites rip-relative operands so that they have the same target in each copy as in a block at h.Home().
func Build(at uint64, insts []asm.Inst, iterations int, loop *unroll.Loop, h Harness) (Image, error) {
	return repeat(at, insts, iterations, loop, h, false)
}

// BuildProbed emits copies in a row that log their accesses from layout.Log on.
func BuildProbed(at uint64, insts []asm.Inst, copies int, h Harness, probe *asm.Probe) (Image, error) {
	return build(at, insts, copies, h, shape{probe: probe})
}

// BuildDryRun is Build for a dry run: the image is at layout.DryRunCode, writes to no memory of bbprof but the
// counter of a loop, and ends with an int3.
func BuildDryRun(insts []asm.Inst, iterations int, loop *unroll.Loop, h Harness) (Image, error) {
	return repeat(layout.DryRunCode, insts, iterations, loop, h, true)
}

type shape struct {
	turns  []int                        // of a counted loop, chosen at the entry; none: it has one number
	early  func(e *asm.Emitter) asm.Reg // see prologue; nil: nothing
	before func(e *asm.Emitter)         // before the first copy
	probe  *asm.Probe                   // around each instruction
	dryRun bool
	after  func(e *asm.Emitter, first uint64) // after the last copy

	branch asm.Branch // at the block's end, if ends
	ends   bool
	exits  uint64 // as in Image
}

// traps appends n traps and a jump over them.
func traps(e *asm.Emitter, n int) (first uint64) {
	past := e.ForwardJmp()
	first = e.PC()
	for range n {
		e.Int3()
	}
	e.Bind(past)
	return first
}

// Taken returns the copy of a dry run whose final branch was taken, given the address at which the child stopped.
func (im Image) Taken(rip uint64) (copy int, ok bool) {
	copy = int(rip - im.exits - 1) // past the int3
	return copy, im.exits != 0 && rip > im.exits && copy < im.traps
}

func (im Image) Invert(from int) {
	for k := from; k < im.Copies; k++ {
		im.Code[int(im.FirstCopy-im.Address)+k*im.stride+im.opcode] ^= 1
	}
}

func build(at uint64, insts []asm.Inst, copies int, h Harness, s shape) (Image, error) {
	im := Image{Address: (at + 63) &^ 63, Copies: copies}
	e := h.emitter(im.Address)
	s.branch, s.ends = asm.TrailingBranch(insts)
	again := im.enter(e, s.turns)
	switch {
	case s.dryRun:
		dryRunPrologue(e, h.Init, h.Reset, h.Features)
	case s.early != nil:
		prologue(e, h.Init, h.Reset, h.Features, s.early)
	default:
		Prologue(e, h.Init, h.Reset, h.Features)
	}
	if h.Decoders {
		leaveOpCache(e)
	}
	if s.before != nil {
		s.before(e)
	}
	if s.ends && s.dryRun && !h.FallThrough {
		s.exits = traps(e, copies)
		im.exits, im.traps = s.exits, copies
	}
	h.leadNops(e)
	im.FirstCopy = e.PC()
	second := im.FirstCopy
	for k := range min(copies, 2) { // the rest repeats these
		second = e.PC()
		added, err := emitCopy(e, insts, k, h, s)
		if err != nil {
			return Image{}, err
		}
		im.added, im.stride = added, int(e.PC()-second)
		if s.probe == nil {
			im.block = im.stride
		}
	}
	if copies > 2 {
		for i := range insts { // if the last copy reaches its targets, all do
			last := second + uint64(copies-2)*(second-im.FirstCopy) + uint64(insts[i].Offset)
			if _, err := h.relocate(&insts[i], i, last); err != nil {
				return Image{}, err
			}
		}
		e.Repeat(im.FirstCopy, second, copies-2)
	}
	if s.ends {
		im.opcode = im.stride - s.branch.FromOpcode(s.exits != 0)
		im.Code = e.Bytes()
		for _, k := range h.Inverted {
			im.Invert(k)
		}
	}
	if s.after != nil {
		s.after(e, im.FirstCopy)
	}
	h.end(e, again, s.dryRun)
	im.Code = e.Bytes()
	return im, nil
}

// enter appends an entry for each number of turns, which stores it, and returns where every further run starts.
func (im *Image) enter(e *asm.Emitter, turns []int) (again uint64) {
	im.Entry = im.Address
	if len(turns) == 0 {
		return im.Address
	}
	im.entries = map[int]uint64{}
	var jumps []asm.Forward
	for _, n := range turns {
		im.entries[n*im.Copies] = e.PC()
		e.MovImm(asm.RAX, uint64(n))
		e.Store(layout.SlotTurns, asm.RAX)
		jumps = append(jumps, e.ForwardJmp())
	}
	e.Align(64)
	for _, j := range jumps {
		e.Bind(j)
	}
	return e.PC()
}

// end appends what follows the code under test.
func (h Harness) end(e *asm.Emitter, entry uint64, dryRun bool) {
	if dryRun {
		if h.Reset.X87 {
			e.Raw(0x9b) // fwait raises pending exceptions: [Image.Locate] finds no copy there
		}
		e.Int3()
		return
	}
	if h.Reset.Memory {
		// Without this, stores that fit into the store buffer would cost nothing in the shorter image.
		drainStores(e)
	}
	Epilogue(e, entry, h.Clock)
}

func (h Harness) leadNops(e *asm.Emitter) {
	if h.LeadNops == 0 {
		e.Nop(h.Offset)
		return
	}
	for bytes, left := 64+h.Offset, h.LeadNops; left > 0; left-- {
		n := bytes / left
		e.Nop(n)
		bytes -= n
	}
}

// emitCopy appends copy k of the block, which logs if there is a probe. A dry run first touches the
// pages of accesses that a mask may suppress: see [asm.Mem.CanBeSuppressed].
func emitCopy(e *asm.Emitter, insts []asm.Inst, k int, h Harness, s shape) (added []span, err error) {
	var log uint64
	if s.probe != nil {
		log = layout.Log + uint64(k*s.probe.LogSize())
	}
	from := e.PC()
	for i := range insts {
		if s.probe != nil {
			s.probe.Before(e, i, log)
		}
		if s.dryRun && !h.Replayed {
			at := e.PC()
			touchMasked(e, &insts[i])
			if n := int(e.PC() - at); n > 0 {
				added = append(added, span{int(at - from), n})
			}
		}
		if s.ends && i == len(insts)-1 {
			if s.exits != 0 {
				s.branch.EmitFar(e, s.exits+uint64(k))
			} else {
				s.branch.Emit(e, e.PC()+uint64(len(s.branch.Bytes)))
			}
			break
		}
		code, err := h.relocate(&insts[i], i, e.PC())
		if err != nil {
			return nil, err
		}
		if field := insts[i].RIPDisp; field != 0 {
			e.RawRelative(field, code...)
		} else {
			e.Raw(code...)
		}
		if s.probe != nil {
			s.probe.After(e, i, log)
		}
	}
	return added, nil
}

// touchMasked appends accesses that fault if a page within reach of an instruction's masked accesses is not mapped.
func touchMasked(e *asm.Emitter, in *asm.Inst) {
	for _, m := range in.Mem {
		if !m.CanBeSuppressed() {
			continue
		}
		target := layout.Home + uint64(in.Offset+len(in.Bytes)) + uint64(m.Disp)
		e.Clflush(m, 0, target)
		if last := int64(m.Width) - 1; last > 0 && m.Disp+last <= math.MaxInt32 {
			e.Clflush(m, last, target)
		}
	}
}

// relocate returns an instruction's bytes for address at, with a rip-relative displacement that
// has the same target as in a block at h.Home().
func (h Harness) relocate(in *asm.Inst, index int, at uint64) ([]byte, error) {
	code, ok := in.MovedBy(int64(at+h.Shift) - int64(h.Home()+uint64(in.Offset)))
	if !ok {
		return nil, &verdict.Rejection{
			Reason: verdict.Unmappable,
			Detail: h.tooFar(int64(in.RIPOperand(0)) - int64(len(in.Bytes))),
			Inst:   in.Verdict(index),
		}
	}
	return code, nil
}

func (h Harness) tooFar(disp int64) string {
	if h.Replayed {
		return fmt.Sprintf("the rip-relative displacement %#x of a block at %#x leads further than copies at %#x can reach", disp,
			h.Address, layout.Code+h.Shift)
	}
	return fmt.Sprintf("the rip-relative displacement %#x leads further than the %d MiB that all copies can reach",
		disp, (math.MaxInt32-(layout.Home-layout.Code))>>20)
}
