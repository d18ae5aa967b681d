package bounds

import (
	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/rewrite"
)

// A probe is an instruction independent of the block: it takes time only in the units that execute it.
type probe struct {
	name string
	text string
	// code returns the nth of several in a block, nil if there is no register for it. Accesses alternate between the
	// words of a line, since a core may serve fewer loads of one word than of several.
	code func(r room, n int) []byte
}

// room holds the registers and memory that a block leaves free.
type room struct {
	scratch int // a general register that it neither reads nor writes, -1 if there is none
	fixed   int // a general register that it does not write and that points to memory
	disp    int32
	vector  int    // a vector register that it neither reads nor writes
	still   int    // a vector register that it does not write
	load    []byte // loads a word that the block loads in every iteration; empty if none
	store   []byte // stores to a word that the block stores to
}

const none = rewrite.None

// roomOf finds what a block leaves free. It prefers rsp as the pointer, since blocks seldom change it except by push
// and pop.
func roomOf(insts []asm.Inst) room {
	var touched, written asm.Values
	for i := range insts {
		reads, writes := insts[i].Dataflow()
		touched, written = touched.Or(reads).Or(writes), written.Or(writes)
	}
	r := room{scratch: none, fixed: none, vector: none, still: none}
	second := none // a second register like scratch
	for n := 15; n >= 0; n-- {
		switch free := touched.GPR>>n&1 == 0 && n != int(asm.RSP); {
		case free && r.scratch == none:
			r.scratch = n
		case free && second == none:
			second = n
		}
		if written.GPR>>n&1 == 0 && n != r.scratch && n != second {
			r.fixed = n
		}
	}
	if written.GPR>>asm.RSP&1 == 0 {
		r.fixed = int(asm.RSP)
	}
	for n := 15; n >= 0; n-- {
		if touched.Vector>>n&1 == 0 && r.vector == none {
			r.vector = n
		}
		if written.Vector>>n&1 == 0 && n != r.vector {
			r.still = n
		}
	}
	r.load, r.store = r.again(insts, written)
	return r
}

// again finds a load and a store of words that the block loads and stores at constant addresses.
func (r room) again(insts []asm.Inst, written asm.Values) (load, stored []byte) {
	for i := range insts {
		for k := range insts[i].Mem {
			m := &insts[i].Mem[k]
			if m.GPRs()&written.GPR != 0 || r.scratch == none {
				continue
			}
			at, prefix, ok := rewrite.Operand(&insts[i], m, 0)
			switch {
			case !ok:
			case m.Read && !m.Write && load == nil:
				load = append(prefix, rewrite.Encode("mov r32, m32", at, r.scratch, 0)...)
			case m.Write && stored == nil:
				stored = append(prefix, rewrite.Encode("mov m32, r32", at, 0, r.scratch)...)
			}
		}
	}
	return load, stored
}

// slots lists the probes that take a slot but no unit: all slots are taken if one of them has no room. Zen 4 puts a nop
// and its neighbour into one slot, so a nop may find room where nothing else does, as may a zeroing idiom among the
// block's nops.
var slots = []probe{
	// Of 4 bytes: an op cache may not hold as many shorter ones as a window of code has, as Golden Cove's does not.
	{"nop", "nop", func(room, int) []byte { return rewrite.Nop(4) }},
	{"zero idiom", "vxorps x, x, x of one register", func(r room, _ int) []byte { return r.onVectors("vxorps", r.vector) }},
}

var frontEnd = []probe{
	slots[0], slots[1],
	{"long nop", "nop of 8 bytes", func(room, int) []byte { return rewrite.Nop(8) }},
}

// The classes of probes that repeat an access of the block stand after those of other words.
const loadAgain, storeAgain = "load again", "store again"

// classes lists the probes of work. Each represents the instructions that the core executes in the same units,
// whichever these are. Source: instructions that share ports on all cores in uops.info's tables.
var classes = []probe{
	{"integer", "mov r, imm", func(r room, n int) []byte { // 5 bytes long; lea and add with a constant may be done at rename
		if r.scratch == none || r.fixed == none {
			return nil
		}
		return rewrite.MovImm(r.scratch, 0x7fff0000)
	}},
	{"shift", "rorx r, r, 1", func(r room, n int) []byte {
		return rewrite.Encode("rorx r64, r64, i8", asm.Address{}, r.scratch, r.fixed, 1)
	}},
	{"multiply", "imul r, r, 3", func(r room, n int) []byte {
		return rewrite.Encode("imul r64, r64, i8", asm.Address{}, r.scratch, r.fixed, 3)
	}},
	{"load", "mov r, [m]", func(r room, n int) []byte {
		if r.fixed == none {
			return nil
		}
		return rewrite.Encode("mov r64, m64", rewrite.Pointer(r.fixed, r.word(n)), r.scratch, 0)
	}},
	{loadAgain, "mov r, [m], a word that the block loads", func(r room, n int) []byte { return r.load }},
	{"store", "mov [m], r", func(r room, n int) []byte {
		return rewrite.Encode("mov m64, r64", rewrite.Pointer(r.fixed, r.word(n)), 0, r.fixed)
	}},
	{storeAgain, "mov [m], r, a word that the block stores to", func(r room, n int) []byte { return r.store }},
	{"vector integer", "vpaddd x, x, x", func(r room, n int) []byte { return r.onVectors("vpaddd", r.still) }},
	{"vector add", "vaddps x, x, x", func(r room, n int) []byte { return r.onVectors("vaddps", r.still) }},
	{"vector multiply", "vmulps x, x, x", func(r room, n int) []byte { return r.onVectors("vmulps", r.still) }},
	{"shuffle", "vpshufb x, x, x", func(r room, n int) []byte { return r.onVectors("vpshufb", r.still) }},
	{"vector to general", "vmovd r, x", func(r room, n int) []byte {
		if r.fixed == none {
			return nil
		}
		return rewrite.Encode("vmovd r32, xmm", asm.Address{}, r.scratch, r.still)
	}},
	{"general to vector", "vmovd x, r", func(r room, n int) []byte { // on Intel's cores in the one unit that crosses lanes
		return rewrite.Encode("vmovd xmm, r32", asm.Address{}, r.vector, r.fixed)
	}},
	{"divide", "vdivps x, x, x", func(r room, n int) []byte { return r.onVectors("vdivps", r.still) }},
}

func (r room) word(n int) int32 { return r.disp + int32(n%8*8) }

func (r room) onVectors(mnemonic string, source int) []byte {
	return rewrite.Encode(mnemonic+" xmm, xmm, xmm", asm.Address{}, r.vector, source, source)
}
