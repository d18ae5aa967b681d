package bounds

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
)

// Encodings are those of the Intel SDM, vol. 2. Registers are numbered as there.

// nop1 is the shortest nop, nop8 the one of 8 bytes that the manual recommends (vol. 2, NOP).
var (
	nop1 = []byte{0x90}
	nop8 = []byte{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}
)

// address is [base+disp], with 32 bits of displacement.
func address(reg, base int, disp int32) []byte {
	b := []byte{byte(0x80 | reg&7<<3 | base&7)}
	if base&7 == int(asm.RSP) {
		b = append(b, 0x24) // SIB: no index
	}
	return binary.LittleEndian.AppendUint32(b, uint32(disp))
}

func registers(reg, rm int) []byte { return []byte{byte(0xc0 | reg&7<<3 | rm&7)} }

// general is an instruction on 64-bit general registers, ModRM and what follows being operands.
func general(prefix []byte, opcode []byte, reg, rm int, operands []byte) []byte {
	rex := byte(0x48) | byte(reg>>3<<2) | byte(rm>>3)
	return join(prefix, []byte{rex}, opcode, operands)
}

// vex is an instruction with a three-byte VEX prefix, 128 bits wide: opcode map, implied prefix, W and
// the register in vvvv.
func vex(opcodeMap, pp, w, vvvv int, opcode byte, reg, rm int, operands []byte) []byte {
	inverted := func(n int) byte { return byte(^n & 1) }
	second := inverted(reg>>3)<<7 | 1<<6 | inverted(rm>>3)<<5 | byte(opcodeMap)
	third := byte(w)<<7 | byte(^vvvv&0xf)<<3 | byte(pp)
	return join([]byte{0xc4, second, third, opcode}, operands)
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// movImm is mov r, imm.
func movImm(r int, v uint64) []byte {
	e := asm.NewEmitter(0)
	e.MovImm(asm.Reg(r), v)
	return e.Bytes()
}

// lea is lea dst, [base+disp].
func lea(dst, base int, disp int32) []byte {
	return general(nil, []byte{0x8d}, dst, base, address(dst, base, disp))
}

// test is test a, b.
func test(a, b int) []byte { return general(nil, []byte{0x85}, b, a, registers(b, a)) }

// movVector is movaps, or vmovaps where the block's instructions are VEX encoded: 16, 32 or 64 bytes.
func movVector(dst, src int, s asm.State) []byte {
	switch {
	case s.VectorBits > 256 || dst > 15 || src > 15:
		return evexMove(dst, src, s.VectorBits)
	case s.VEX:
		b := vex(1, 0, 0, 0, 0x28, dst, src, registers(dst, src))
		if s.VectorBits == 256 {
			b[2] |= 1 << 2
		}
		return b
	}
	b := []byte{0x0f, 0x28}
	if dst > 7 || src > 7 {
		b = join([]byte{0x40 | byte(dst>>3<<2) | byte(src>>3)}, b)
	}
	return append(b, registers(dst, src)...)
}

// evexMove is vmovaps of 512 bits, or of 256 or 128 where the block uses no wider ones.
func evexMove(dst, src, bits int) []byte {
	length := byte(0)
	switch {
	case bits > 256:
		length = 2
	case bits > 128:
		length = 1
	}
	not := func(n int) byte { return byte(^n & 1) }
	second := not(dst>>3)<<7 | not(src>>4)<<6 | not(src>>3)<<5 | not(dst>>4)<<4 | 1
	return join([]byte{0x62, second, 0x7c, length<<5 | 8, 0x28}, registers(dst, src))
}

// memory is the operand of an access as the block wrote it, with another register and moved by some
// bytes; ok is false for what cannot be written again: gathers, stack accesses without an operand.
func memory(in *asm.Inst, m *asm.Mem, reg int, moved int64) (rexBits byte, prefix, operand []byte, ok bool) {
	base, hasBase := m.Base.GPR()
	index, hasIndex := m.Index.GPR()
	disp := m.Disp + moved
	if m.Mask != asm.NoRegister || m.Elements > 0 || m.Repeat != asm.Once || m.BitOffset != asm.NoRegister || m.String || m.AddrSize == 32 ||
		disp != int64(int32(disp)) || m.Index != asm.NoRegister && !hasIndex || in.RIPDisp > 0 || m.Base != asm.NoRegister && !hasBase {
		return 0, nil, nil, false
	}
	switch m.Segment {
	case asm.FS:
		prefix = []byte{0x64}
	case asm.GS:
		prefix = []byte{0x65}
	}
	scale := map[uint8]byte{0: 0, 1: 0, 2: 1, 4: 2, 8: 3}[m.Scale]
	rexBits = byte(reg >> 3 << 2)
	modrm, sib := byte(0x84|reg&7<<3), byte(0)
	if hasIndex {
		rexBits |= byte(index >> 3 << 1)
		sib = scale<<6 | byte(index&7<<3)
	} else {
		sib = 4 << 3
	}
	if hasBase {
		rexBits |= byte(base >> 3)
		sib |= byte(base & 7)
	} else {
		modrm, sib = modrm&^0xc0, sib|5 // mod 0 and base 5: a displacement alone
	}
	return rexBits, prefix, binary.LittleEndian.AppendUint32([]byte{modrm, sib}, uint32(disp)), true
}

// store writes a register to where an instruction accesses memory, as many bytes as it accesses there,
// moved by some; ok is false where there is no such instruction.
func store(in *asm.Inst, m *asm.Mem, gpr, vector int, moved int64) (code []byte, ok bool) {
	reg := gpr
	if m.Width > 8 {
		reg = vector
	}
	if reg < 0 {
		return nil, false
	}
	rex, prefix, operand, ok := memory(in, m, reg, moved)
	if !ok {
		return nil, false
	}
	switch m.Width {
	case 1:
		return join(prefix, []byte{0x40 | rex, 0x88}, operand), true
	case 2:
		return join(prefix, []byte{0x66, 0x40 | rex, 0x89}, operand), true
	case 4:
		return join(prefix, []byte{0x40 | rex, 0x89}, operand), true
	case 8:
		return join(prefix, []byte{0x48 | rex, 0x89}, operand), true
	case 16, 32: // vmovups
		length := byte(m.Width >> 5 << 2)
		return join(prefix, []byte{0xc4, ^rex<<5&0xe0 | 1, 0x78 | length, 0x11}, operand), true
	}
	return nil, false
}
