// Package initial holds the states that a block can start from: registers, segment bases, the word that fills memory,
// and MXCSR. Vector registers start at zero in all of them, x87 registers that a block pops at 1.0, and flags clear.
// A [Set] holds what a user changes.
package initial

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// State is the state that a block starts from, the same before every run.
type State struct {
	Name   string     `json:"name"`
	GPR    [16]uint64 `json:"gpr"`     // by encoding number, rsp included
	FSBase uint64     `json:"fs_base"` //
	GSBase uint64     `json:"gs_base"` //
	Fill   uint64     `json:"fill"`    // every aligned word of every page
	// Elements, if any, fill pages instead of equal words.
	Elements Elements `json:"elements,omitzero"`
	MXCSR    uint32   `json:"mxcsr"`
	// Opmasks are k0 to k7: by default all ones, so that a masked access is made.
	Opmasks [opmaskRegs]uint64 `json:"opmasks"`
	Flags   uint64             `json:"flags,omitempty"`   // the arithmetic ones, as in rflags
	Vectors []Vector           `json:"vectors,omitempty"` // registers that do not start at zero
	Memory  Memory             `json:"memory,omitempty"`  // words that do not start as Fill
	Set     string             `json:"set,omitempty"`     // the user's changes, as Set.String writes them
	// X87 is the x87 unit's state where the whole state is a program's; nil where the registers that a block pops
	// hold 1.0 and what it does not disturb is not set at all.
	X87 *X87 `json:"x87,omitempty"`
}

// Elements are the parts of words that a page's tables have: of Width bytes, each by Step more than the one before. The
// first of 128, which is more than any store buffer holds, is that part of Fill.
type Elements struct {
	Width int    `json:"width"` // 1, 2, 4 or 8; 0 if there are none
	Step  uint64 `json:"step"`
}

// Word is what the aligned word at an address starts as, unless Memory has it.
func (s *State) Word(address uint64) (word uint64) {
	const apart = 128
	width := uint64(s.Elements.Width)
	if width == 0 {
		return s.Fill
	}
	for at := uint64(0); at < 8; at += width {
		element := s.Fill + s.Elements.Step*((address+at)/width%apart)
		word |= element & (math.MaxUint64 >> (64 - 8*width)) << (8 * at)
	}
	return word
}

// Vector is a vector register's value.
type Vector struct {
	Reg   int                 `json:"register"`
	Bits  int                 `json:"bits"`  // 128, 256 or 512; those above are zero
	Words [vectorWords]uint64 `json:"words"` // the lowest first
}

// Name is the register's name at the width that is set.
func (v Vector) Name() string {
	return fmt.Sprintf("%cmm%d", map[int]rune{128: 'x', 256: 'y', 512: 'z'}[v.Bits], v.Reg)
}

// Value is the register as one hexadecimal number.
func (v Vector) Value() string { return hexadecimal(v.Words) }

// StartAt is what a block whose first instruction is at an address finds, in terms of package asm.
func (s State) StartAt(rip uint64) asm.Start {
	return asm.Start{Regs: asm.Regs{GPR: s.GPR, RIP: rip, FSBase: s.FSBase, GSBase: s.GSBase}, Fill: s.Fill}
}

// DefaultMXCSR is MXCSR after a reset: all six exceptions masked, round to nearest, subnormals computed (SDM vol. 1,
// 10.2.3). The next two flush them.
const (
	DefaultMXCSR = 0x1f80
	mxcsrDAZ     = 0x0040
	mxcsrFTZ     = 0x8000
)

// The segment bases of every initial state: pages of their own, as thread-local storage is apart from the stack, at
// lines of their own. The paper has none.
const (
	fsBase = 0x2345_6800
	gsBase = 0x3456_7a00
)

// paperWord, 0x12345600, is the paper's value for every register and every word of memory: read as a pointer, a
// mappable address in the middle of a page.
const paperWord = 0x1234_5600

// Paper is the one initial state of the BHive paper (IISWC 2019, section 3).
func Paper() State { return uniform("paper", paperWord) }

func uniform(name string, word uint64) State {
	s := State{Name: name, FSBase: fsBase, GSBase: gsBase, Fill: word, MXCSR: DefaultMXCSR | mxcsrDAZ | mxcsrFTZ}
	for i := range s.Opmasks {
		s.Opmasks[i] = math.MaxUint64
	}
	for i := range s.GPR {
		s.GPR[i] = word
	}
	return s
}

// States lists the initial states in the order in which they are tried: the paper's, then those for blocks that fail
// because of their context.
func States() []State {
	apart := func(i uint64) uint64 { return 0x1234_0200 + i*0x2_10c0 }
	// distinct gives every register a page and a line of its own: no two pointers are equal, nor are their low 12 bits,
	// which lie 192 bytes apart.
	distinct := pointers("distinct", paperWord, apart)
	// stack is distinct, with the stack as it is at the entry of a function: 8 bytes off a multiple of 16 (System V ABI
	// for AMD64, 3.2.2).
	stack := pointers("stack", paperWord, apart)
	stack.GPR[asm.RSP] += 8
	stack.GPR[asm.RBP] += 8
	// divisible lets divisions through: rdx, the upper half of a dividend, is 0, and in the other registers and in
	// memory ax / cl, too, fits 8 bits.
	divisible := uniform("divisible", 0x1234_1040)
	divisible.GPR[asm.RDX] = 0
	// low has small values, whose sums, products and shifts stay canonical for longer, and which are pointers all the
	// same, just above the highest usual vm.mmap_min_addr.
	low := pointers("low", 0x2_0040, func(i uint64) uint64 { return 0x2_0200 + i*0x10c0 })
	// aligned points every register at the first byte of a page of its own.
	aligned := pointers("aligned", 0x1234_5000, func(i uint64) uint64 { return apart(i) &^ 0xfff })
	// halves imitates programs: as 64 bits each register and word is a pointer, and as 32 bits a small integer. So an
	// index that is negated, complemented or scaled stays in user space.
	halves := pointers("halves", 0x1234_0000_0040, func(i uint64) uint64 { return 0x1234_0000_0200 + i*0xc0 })
	return []State{Paper(), distinct, stack, divisible, low, aligned, halves}
}

// Distinct lists those of States without equal pointers: with the elements in memory, if any, and then without.
func Distinct(elements Elements) (list []State) {
	for _, e := range slices.Compact([]Elements{elements, {}}) {
		for _, s := range States() {
			if s.Elements = e; s.GPR[asm.RAX] != s.GPR[asm.RCX] {
				list = append(list, s)
			}
		}
	}
	return list
}

// pointers is uniform, but for the general registers.
func pointers(name string, word uint64, pointer func(i uint64) uint64) State {
	s := uniform(name, word)
	for i := range s.GPR {
		s.GPR[i] = pointer(uint64(i))
	}
	return s
}

// Names are those of States and of those that are only for comparison.
func Names() (names []string) {
	for _, s := range append(States(), bhive()) {
		names = append(names, s.Name)
	}
	return names
}

// Named is the state of that name.
func Named(name string) (State, error) {
	for _, s := range append(States(), bhive()) {
		if s.Name == name {
			return s, nil
		}
	}
	return State{}, fmt.Errorf("no initial state is called %q; there are %s", name, strings.Join(Names(), ", "))
}

// BHive names the state of BHive's released harness, which is not the paper's.
const BHive = "bhive"

// bhive is as timing-harness/run_test.nasm has it: the stack is in the middle of the page that all other registers point to.
func bhive() State {
	s := uniform(BHive, 0x232_4000)
	s.GPR[asm.RSP], s.GPR[asm.RBP] = 0x232_4800, 0x232_47f0
	return s
}
