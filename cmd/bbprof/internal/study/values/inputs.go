package values

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// Role says what a block does with an input.
type Role string

const (
	Data    Role = "data"
	Pointer Role = "pointer" // an address is computed from it by an operand
	Count   Role = "count"   // of a repeated string instruction
)

// Input is something that a block reads before it writes it.
type Input struct {
	Name string `json:"name"` // as -set writes it; [0x12345600] is a word of memory
	Role Role   `json:"role"`
	// Fading reports that the block overwrites the input and that it could not be put back: only the first iteration
	// of a run sees the value.
	Fading bool `json:"fading,omitzero"`

	kind    kind
	number  int    // of the register
	bits    int    // of a vector register
	address uint64 // of a word of memory
	index   int    // bytes of an index in a vector register, 0: no index
	written bool   // by the block
}

type kind int

const (
	general kind = iota
	flag
	opmask
	vector
	memory
)

// flagNames are the status flags by their bit in asm.Flags.
var flagNames = []string{"cf", "pf", "af", "zf", "sf", "of"}

// inputsOf returns the inputs of a block in a state: registers and flags in a fixed order, then words of memory. The
// stack pointer and x87 registers are not among them; neither is memory whose address does not follow from the state.
func inputsOf(insts []asm.Inst, state initial.State, at uint64) (all []Input) {
	var live, written asm.Values
	pointers, indices := map[int]Role{}, map[int]int{} // by the number of a general and of a vector register
	bits := max(128, asm.StateOf(insts).VectorBits)
	for i := range insts {
		reads, writes := insts[i].Dataflow()
		live, written = live.Or(reads.Without(written)), written.Or(writes)
		for _, m := range insts[i].Mem {
			for _, r := range []asm.Register{m.Base, m.Index} {
				if n, ok := r.GPR(); ok {
					pointers[n] = Pointer
				} else if n, ok := r.Vector(); ok {
					indices[n] = int(m.IndexSize)
				}
			}
			if m.Repeat != asm.Once {
				pointers[int(asm.RCX)] = Count
			}
		}
	}
	for n := range 16 {
		if asm.Reg(n) != asm.RSP && live.GPR>>n&1 != 0 {
			all = append(all, Input{Name: asm.Reg(n).String(), Role: cmp.Or(pointers[n], Data), kind: general, number: n, written: written.GPR>>n&1 != 0})
		}
	}
	for n, name := range flagNames {
		if live.Flags>>n&1 != 0 {
			all = append(all, Input{Name: name, Role: Data, kind: flag, number: n, written: written.Flags>>n&1 != 0})
		}
	}
	for n := range 8 {
		if live.Opmask>>n&1 != 0 {
			all = append(all, Input{Name: fmt.Sprintf("k%d", n), Role: Data, kind: opmask, number: n, written: written.Opmask>>n&1 != 0})
		}
	}
	for n := range 32 {
		if live.Vector>>n&1 != 0 {
			in := Input{Name: initial.Vector{Reg: n, Bits: bits}.Name(), Role: Data, kind: vector, number: n, bits: bits, written: written.Vector>>n&1 != 0}
			if in.index = indices[n]; in.index > 0 {
				in.Role = Pointer
			}
			all = append(all, in)
		}
	}
	return append(all, words(insts, state.StartAt(at))...)
}

// mostWords limits the words of memory that are varied.
const mostWords = 16

// words returns the words that the first iteration loads before it stores to them.
func words(insts []asm.Inst, start asm.Start) (all []Input) {
	var stored []uint64
	for _, a := range asm.Follow(insts, 1, start) {
		m := insts[a.Inst].Mem[a.Mem]
		if !a.Known || m.Width == 0 {
			continue
		}
		for at := a.Addr &^ 7; at < a.Addr+uint64(m.Width); at += 8 {
			known := slices.ContainsFunc(all, func(in Input) bool { return in.address == at })
			if m.Read && !known && !slices.Contains(stored, at) && len(all) < mostWords {
				all = append(all, Input{Name: fmt.Sprintf("[%#x]", at), Role: Data, kind: memory, address: at})
			}
			if m.Write {
				stored = append(stored, at)
			}
		}
	}
	for i := range all {
		all[i].written = slices.Contains(stored, all[i].address)
	}
	return all
}
