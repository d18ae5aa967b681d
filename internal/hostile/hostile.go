// Package hostile makes random and hostile blocks, for tests that attack bbprof.
package hostile

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// RandomBytes gives up to 24 of them.
func RandomBytes(rng *rand.Rand) []byte { return random(rng, 1+rng.IntN(24)) }

func random(rng *rand.Rand, n int) []byte {
	code := make([]byte, n)
	for i := range code {
		code[i] = byte(rng.Uint32())
	}
	return code
}

// validInst gives a random instruction that decodes and is not refused.
func validInst(rng *rand.Rand) []byte {
	for {
		code := random(rng, 15)
		switch rng.IntN(4) { // what random bytes hardly hit
		case 0:
			code[0] = 0x0f
		case 1:
			code[0] = []byte{0xc4, 0xc5, 0x62}[rng.IntN(3)]
		case 2:
			code[0] = []byte{0x66, 0xf2, 0xf3, 0x48}[rng.IntN(4)]
		}
		if first := First(code); first != nil {
			return first
		}
	}
}

// First gives the instruction that code begins with, if it decodes and is not refused, else nil.
func First(code []byte) []byte {
	for n := 1; n <= len(code); n++ {
		insts, err := asm.Decode(code[:n])
		if err == nil && len(insts) == 1 && asm.Refuse(insts) == nil {
			return code[:n]
		}
	}
	return nil
}

// ValidBlock gives a random sequence. Pointers that lead nowhere end most of them early, so some registers are set to
// where something stands, bbprof's own pages among them.
func ValidBlock(rng *rand.Rand) []byte {
	var code []byte
	for range 1 + rng.IntN(6) {
		if rng.IntN(8) == 0 {
			code = append(code, Set(rng.IntN(16), Interesting(rng))...)
		}
		code = append(code, validInst(rng)...)
	}
	return code
}

// Mutated changes a block a little.
func Mutated(rng *rand.Rand, code []byte) []byte {
	code = slices.Clone(code)
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(code))
		switch rng.IntN(5) {
		case 0:
			code[at] ^= 1 << rng.IntN(8)
		case 1:
			code[at] = byte(rng.Uint32())
		case 2:
			code = slices.Insert(code, at, byte(rng.Uint32()))
		case 3:
			if len(code) > 1 {
				code = slices.Delete(code, at, at+1)
			}
		case 4:
			code = append(code, code[at:]...)
		}
	}
	return code
}

// Set is mov r64, imm64.
func Set(r int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x48 | byte(r>>3), 0xb8 | byte(r&7)}, v)
}

// Interesting is a value that a hostile block could want in a register.
func Interesting(rng *rand.Rand) uint64 {
	areas := []uint64{
		0, 0x1234_5600, layout.Stub, layout.Frames, layout.Control, layout.SlotReturn, layout.SlotMXCSR, layout.Ops, layout.Samples, layout.Restore,
		layout.Code, layout.Log, layout.DryRunLoop, layout.DryRunOps, layout.DryRunCode, layout.End, layout.UserEnd - 64, 1 << 47, 1 << 63, ^uint64(0),
		0xffff_ffff_ff60_0000, // vsyscall
	}
	return areas[rng.IntN(len(areas))] + uint64(rng.IntN(64))
}

// Region gives random instructions with branches to anywhere among them, into the middle of others too, and the offset
// of one of them to start at.
func Region(rng *rand.Rand) (code []byte, header int) {
	var starts []int
	for range 2 + rng.IntN(10) {
		starts = append(starts, len(code))
		switch rng.IntN(4) {
		case 0:
			code = append(code, validInst(rng)...)
		case 1:
			code = append(code, 0x70|byte(rng.IntN(16)), byte(rng.IntN(80)-50)) // jcc
		case 2:
			code = append(code, [][]byte{{0x48, 0xff, 0xc9}, {0x48, 0x8b, 0x03}, {0x48, 0x89, 0x07}, {0x48, 0x83, 0xc3, 0x08}, {0x48, 0x8b, 0x1b},
				{0x84, 0xc0}, {0x48, 0x01, 0xd8}}[rng.IntN(7)]...)
		default:
			code = append(code, [][]byte{{0xeb, byte(rng.IntN(60) - 40)}, {0xe2, byte(-rng.IntN(40))}, {0xe3, byte(rng.IntN(40) - 20)},
				{0xe8, byte(rng.IntN(40)), 0, 0, 0}, {0xff, 0xd0}, {0xff, 0xc9}, {0xff, 0xc9}, {0xff, 0xc9}}[rng.IntN(8)]...)
		}
	}
	header = starts[rng.IntN(len(starts))]
	return append(code, 0x75, byte(header-len(code)-2)), header // jnz to it
}
