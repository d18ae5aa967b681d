// Package asm stands between bytes and instructions.
//
// Decoding is by tables of our own, close to the opcode maps of the manuals (spec.go tells how to read them): they
// give an instruction's length, its text, which memory it accesses with what address, width and direction, and what
// state it changes. One table for all of these keeps them from contradicting each other. Nothing here touches the
// operating system; whether this machine's CPU knows an instruction is for a run to show.
//
// golang.org/x/arch/x86/x86asm does not replace the tables: it says neither whether an operand is read or written,
// nor how wide the memory of every form is, nor which operands must be aligned, and it lacks VEX and EVEX. The tables
// are held to independent sources instead:
//
//   - GNU objdump: lengths and text, opcode map by opcode map (differential_test.go); predicates with
//     a reason each name the known differences (known_test.go);
//   - Intel XED's data: directions, widths, alignment and implicit operands (xed_test.go), and the
//     manual's list of instructions, as golang.org/x/arch has it;
//   - x86asm: it reads back what the Emitter writes (emit_test.go);
//   - the CPU: what faults, and which bytes an instruction touches (package profiler's
//     addresses_test.go and judge_test.go).
package asm

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/verdict"
)

// Inst is one instruction of a block.
type Inst struct {
	Offset   int    // of its first byte, from the start of the block
	Bytes    []byte // 1 to 15, of the block given to Decode
	Mnemonic string // Intel syntax, lower case, without rep, lock and their like

	// Mem is every memory access in the order made, explicit and implicit. Address computations and hints that never
	// fault (lea, nop, prefetch) have none; clflush and its like, which fault as a load does, read one byte.
	Mem []Mem

	// RIPDisp is the offset within Bytes of the four displacement bytes of a rip-relative operand, accessed or not; 0
	// if there is none.
	RIPDisp int

	// Align is the alignment in bytes that the instruction demands of its explicit memory operand (of its only one,
	// if implicit: maskmovdqu has none to demand), 0 for none.
	Align int

	raw rawInst
}

// Decode splits a block into its instructions. Where bytes are no instruction, or the block ends inside one, it
// returns a *verdict.Rejection with reason Undecodable.
func Decode(block []byte) ([]Inst, error) {
	insts := make([]Inst, 0, len(block)/3+1)
	for offset := 0; offset < len(block); {
		insts = append(insts, Inst{Offset: offset})
		in := &insts[len(insts)-1]
		if err := in.decode(block[offset:]); err != nil {
			return nil, undecodable(block, offset, len(insts)-1, err)
		}
		offset += len(in.Bytes)
	}
	return insts, nil
}

func undecodable(block []byte, offset, index int, err error) *verdict.Rejection {
	rest := block[offset:min(offset+maxLength, len(block))]
	shown, text := hex.EncodeToString(rest), "(bad)"
	if later := later(rest); later != "" && errors.Is(err, errOpcode) {
		text, err = later, fmt.Errorf("%w, or %s", err, later)
	}
	detail := fmt.Sprintf("no instruction at byte %d: %v: %s", offset, err, shown)
	return &verdict.Rejection{
		Reason: verdict.Undecodable,
		Detail: detail,
		Inst:   &verdict.Inst{Index: index, Offset: offset, Text: text, Hex: shown},
	}
}

// later tells what bytes that are no instruction here are on newer processors, or "".
func later(code []byte) string {
	for len(code) > 0 && slices.Contains([]byte{0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3}, code[0]) {
		code = code[1:]
	}
	const rex2, evex, apxMap = 0xd5, 0x62, 4 // Intel APX Architecture Specification, 3.1
	switch {
	case len(code) < 2 || code[0] != rex2 && code[0] != evex:
	case code[0] == rex2 || code[1]&7 == apxMap:
		return "an instruction of APX, which bbprof does not know"
	default:
		return "an EVEX instruction newer than bbprof"
	}
	return ""
}

func (in *Inst) decode(code []byte) error {
	if err := in.raw.decode(code); err != nil {
		return err
	}
	in.Bytes = code[:in.raw.length:in.raw.length]
	in.Mnemonic = in.raw.mnemonic()
	in.RIPDisp = int(in.raw.ripDisp)
	in.Mem = in.raw.accesses()
	in.Align = in.raw.alignment()
	return nil
}

// RIPOperand is the address of the rip-relative operand of an instruction that stands at an address, 0 if there is none.
func (in *Inst) RIPOperand(at uint64) uint64 {
	if in.RIPDisp == 0 {
		return 0
	}
	return at + uint64(len(in.Bytes)) + uint64(int32(binary.LittleEndian.Uint32(in.Bytes[in.RIPDisp:])))
}

// MovedBy is the instruction for an address that many bytes higher. A rip-relative operand keeps its address; ok is false if that is out of
// reach.
func (in *Inst) MovedBy(by int64) (code []byte, ok bool) {
	if in.RIPDisp == 0 || by == 0 {
		return in.Bytes, true
	}
	disp := int64(in.RIPOperand(0)) - int64(len(in.Bytes)) - by
	code = slices.Clone(in.Bytes)
	binary.LittleEndian.PutUint32(code[in.RIPDisp:], uint32(disp))
	return code, disp == int64(int32(disp))
}

// Text is the instruction in Intel syntax, lower case, such as "mov rax, qword ptr [rbx+0x8]".
func (in *Inst) Text() string { return in.raw.text() }

// Text is the instructions of a block, separated by semicolons.
func Text(insts []Inst) string {
	var list []string
	for i := range insts {
		list = append(list, insts[i].Text())
	}
	return strings.Join(list, "; ")
}
