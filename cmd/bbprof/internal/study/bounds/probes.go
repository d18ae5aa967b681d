package bounds

import (
	"github.com/bbprof/bbprof/asm"
)

// A probe is an instruction that waits for nothing in the block and that nothing in the block waits
// for. Put into a block it takes the time of the units that execute it, and no more.
type probe struct {
	name string
	text string
	// code is the nth of several in a block, nil where there is no register for it. Accesses take turns
	// at the words of a line: a core may serve fewer loads of one word than of several.
	code func(r room, n int) []byte
}

// room is what a block leaves free.
type room struct {
	scratch int // a general register that it neither reads nor writes, -1 if there is none
	fixed   int // a general register that it does not write, and that points to memory
	disp    int32
	vector  int    // a vector register that it neither reads nor writes
	still   int    // a vector register that it does not write
	load    []byte // a load of a word that it loads in every iteration, none if there is none
	store   []byte // a store to one that it stores to
}

const none = -1

// roomOf finds what a block leaves free. Among equally good registers rsp serves as the pointer, since
// blocks seldom change it otherwise than by push and pop.
func roomOf(insts []asm.Inst) room {
	var touched, written asm.Values
	for i := range insts {
		reads, writes := insts[i].Dataflow()
		touched, written = touched.Or(reads).Or(writes), written.Or(writes)
	}
	r := room{scratch: none, fixed: none, vector: none, still: none}
	second := none // another register like scratch
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

// again finds a load and a store of words that the block itself loads and stores, at addresses that stay.
func (r room) again(insts []asm.Inst, written asm.Values) (load, stored []byte) {
	for i := range insts {
		for k := range insts[i].Mem {
			m := &insts[i].Mem[k]
			base, _ := m.Base.GPR()
			index, _ := m.Index.GPR()
			moves := m.Base != asm.NoRegister && written.GPR>>base&1 != 0 || m.Index != asm.NoRegister && written.GPR>>index&1 != 0
			if moves || r.scratch == none {
				continue
			}
			rex, prefix, operand, ok := memory(&insts[i], m, r.scratch, 0)
			switch {
			case !ok:
			case m.Read && !m.Write && load == nil:
				load = join(prefix, []byte{0x40 | rex, 0x8b}, operand)
			case m.Write && stored == nil:
				stored = join(prefix, []byte{0x40 | rex, 0x89}, operand)
			}
		}
	}
	return load, stored
}

// frontEnd are the probes that take a slot and no unit.
var frontEnd = []probe{
	{"nop", "nop", func(room, int) []byte { return nop1 }},
	{"long nop", "nop of 8 bytes", func(room, int) []byte { return nop8 }},
}

// classes are the probes of work. Each stands for the instructions that the core executes in the same
// units, whichever these are (Conflicts finds that out). Sources: the groups of instructions
// in uops.info's tables that share ports on all cores.
var classes = []probe{
	{"integer", "mov r, imm", func(r room, n int) []byte { // of 5 bytes; lea and add with a constant may be done at rename
		return r.general(func() []byte { return movImm(r.scratch, 0x7fff0000) })
	}},
	{"shift", "rorx r, r, 1", func(r room, n int) []byte {
		return r.general(func() []byte {
			return join(vex(3, 3, 1, 0, 0xf0, r.scratch, r.fixed, registers(r.scratch, r.fixed)), []byte{1})
		})
	}},
	{"multiply", "imul r, r, 3", func(r room, n int) []byte {
		return r.general(func() []byte {
			return general(nil, []byte{0x6b}, r.scratch, r.fixed, join(registers(r.scratch, r.fixed), []byte{3}))
		})
	}},
	{"load", "mov r, [m]", func(r room, n int) []byte {
		return r.general(func() []byte {
			return general(nil, []byte{0x8b}, r.scratch, r.fixed, address(r.scratch, r.fixed, r.word(n)))
		})
	}},
	{"load again", "mov r, [m], a word that the block loads", func(r room, n int) []byte { return r.load }},
	{"store", "mov [m], r", func(r room, n int) []byte {
		if r.fixed == none {
			return nil
		}
		return general(nil, []byte{0x89}, r.fixed, r.fixed, address(r.fixed, r.fixed, r.word(n)))
	}},
	{"store again", "mov [m], r, a word that the block stores to", func(r room, n int) []byte { return r.store }},
	{"vector integer", "vpaddd x, x, x", func(r room, n int) []byte { return r.onVectors(1, 1, 0xfe) }},
	{"vector add", "vaddps x, x, x", func(r room, n int) []byte { return r.onVectors(1, 0, 0x58) }},
	{"vector multiply", "vmulps x, x, x", func(r room, n int) []byte { return r.onVectors(1, 0, 0x59) }},
	{"shuffle", "vpshufb x, x, x", func(r room, n int) []byte { return r.onVectors(2, 1, 0x00) }},
	{"vector to general", "vmovd r, x", func(r room, n int) []byte {
		return r.general(func() []byte {
			if r.still == none {
				return nil
			}
			return vex(1, 1, 0, 0, 0x7e, r.still, r.scratch, registers(r.still, r.scratch))
		})
	}},
	{"divide", "vdivps x, x, x", func(r room, n int) []byte { return r.onVectors(1, 0, 0x5e) }},
}

// word is the displacement of the nth access.
func (r room) word(n int) int32 { return r.disp + int32(n%8*8) }

func (r room) general(code func() []byte) []byte {
	if r.scratch == none || r.fixed == none {
		return nil
	}
	return code()
}

func (r room) onVectors(opcodeMap, pp int, opcode byte) []byte {
	if r.vector == none || r.still == none {
		return nil
	}
	return vex(opcodeMap, pp, 0, r.still, opcode, r.vector, r.still, registers(r.vector, r.still))
}
