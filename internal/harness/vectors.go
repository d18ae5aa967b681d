package harness

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// dataOffset is the offset in an image of the values of vector registers: a line after the jump over
// them.
const dataOffset = 64

// firstHigh is the first vector register that only EVEX reaches.
const firstHigh = 16

// DataOf returns offset and size of the data in an image: the values of vector registers that do not start at
// zero, then a program's x87 state.
func DataOf(init initial.State, reset Reset) (at, bytes uint64) {
	bytes = 64 * uint64(vectorsOf(init, reset))
	if init.X87 != nil && (reset.X87 || reset.MMX) {
		bytes += uint64(len(init.X87.FSave()))
	}
	return dataOffset, bytes
}

// vectorsOf returns the number of vector registers with values in an image's data.
func vectorsOf(init initial.State, reset Reset) int {
	if !reset.Vector && !reset.High {
		return 0
	}
	return len(init.Vectors)
}

// emitData appends the data and a jump over it, and returns its address. The data is part of the image
// because a dry run sees no other memory of bbprof.
func emitData(e *asm.Emitter, init initial.State, reset Reset) uint64 {
	if _, bytes := DataOf(init, reset); bytes == 0 {
		return 0
	}
	over := e.ForwardJmp()
	e.Align(64)
	at := e.PC()
	for _, v := range init.Vectors[:vectorsOf(init, reset)] {
		for _, w := range v.Words {
			e.Raw(binary.LittleEndian.AppendUint64(nil, w)...)
		}
	}
	if init.X87 != nil && (reset.X87 || reset.MMX) {
		area := init.X87.FSave()
		e.Raw(area[:]...)
	}
	e.Bind(over)
	return at
}

// loadVectors loads the vector registers that do not start at zero, if the CPU has them, from the values
// at an address. The others are zero already.
func loadVectors(e *asm.Emitter, init initial.State, at uint64, reset Reset, features asm.Features) {
	for i, v := range init.Vectors[:vectorsOf(init, reset)] {
		if v.Reg < firstHigh || reset.High && features.AVX512 {
			e.LoadVector(v.Reg, v.Bits, features, at+64*uint64(i))
		}
	}
}

// clearVectors zeroes xmm0–15, ymm0–15 and zmm0–15.
func clearVectors(e *asm.Emitter, features asm.Features) {
	if features.AVX {
		e.Vzeroall()
		return
	}
	for r := byte(0); r < firstHigh; r++ { // pxor xmm, xmm
		e.Raw(0x66, 0x40|r>>3<<2|r>>3, 0x0f, 0xef, 0xc0|r&7<<3|r&7)
	}
}

// resetHigh zeroes zmm16–31, which vzeroall does not, and sets the opmasks. It changes rax.
func resetHigh(e *asm.Emitter, opmasks [8]uint64, features asm.Features) {
	for r := byte(0); r < 16; r++ {
		// vpxord zmm, zmm, zmm for 16+r: EVEX.512.66.0F.W0 EF; R', X (as bit 4 of rm) and V'
		// are inverted and so 0 for registers 16–31, R and B take bit 3 (SDM vol. 2, 2.7.1).
		low := r & 7
		hi := (r >> 3) ^ 1
		e.Raw(0x62, 0x01|hi<<7|hi<<5, 0x05|(^r&15)<<3, 0x40, 0xef, 0xc0|low<<3|low)
	}
	for k, mask := range opmasks {
		if k == 0 || mask != opmasks[k-1] {
			e.MovImm(asm.RAX, mask)
		}
		if features.AVX512BW {
			e.Raw(0xc4, 0xe1, 0xfb, 0x92, 0xc0|byte(k)<<3) // kmovq k, rax: VEX.L0.F2.0F.W1 92
		} else {
			e.Raw(0xc5, 0xf8, 0x92, 0xc0|byte(k)<<3) // kmovw k, eax: VEX.L0.0F.W0 92
		}
	}
}
