package initial

import (
	"encoding/binary"
	"slices"
)

// State components of XSAVE (SDM vol. 1, 13.1), and the offsets that are the same on all CPUs (13.4.1, 13.4.2).
const (
	xsaveAVX       = 2 // the upper halves of ymm0 to ymm15
	xsaveOpmask    = 5
	xsaveZMMHi256  = 6 // the upper halves of zmm0 to zmm15
	xsaveHi16ZMM   = 7 // zmm16 to zmm31
	xsaveStatus    = 2
	xsaveTags      = 4
	xsaveMXCSR     = 24
	xsaveST        = 32
	xsaveXMM       = 160
	xsaveComponent = 512 // XSTATE_BV: a component whose bit is clear holds its initial value
	xsaveHeaderEnd = 576
)

// SetXSave takes in an area that XSAVE has written in its standard format, as ptrace(2) gives it for NT_X86_XSTATE:
// x87, MXCSR, opmasks, and the vector registers that are not zero. offsets are where the components begin (CPUID
// leaf 0xd), 0 for those that the CPU lacks; the area may lack some, too. It is false if the area is too short for any.
func (c *Captured) SetXSave(area []byte, offsets [32]int) bool {
	le := binary.LittleEndian
	if len(area) < xsaveHeaderEnd {
		return false
	}
	c.X87 = X87{Control: le.Uint16(area), Status: le.Uint16(area[xsaveStatus:]), Tags: area[xsaveTags]}
	for i := range c.X87.Registers {
		copy(c.X87.Registers[i][:], area[xsaveST+16*i:])
	}
	c.MXCSR = le.Uint32(area[xsaveMXCSR:])
	has := le.Uint64(area[xsaveComponent:])
	// part is element i of a component; zero where it is in its initial state or the CPU has none.
	part := func(component, i, size int) []byte {
		at := offsets[component] + i*size
		if has>>component&1 == 0 || offsets[component] < xsaveHeaderEnd || at+size > len(area) {
			return make([]byte, size)
		}
		return area[at:][:size]
	}
	for i := range c.Opmasks {
		c.Opmasks[i] = le.Uint64(part(xsaveOpmask, i, 8))
	}
	var vectors [vectorRegs][vectorWords]uint64
	for reg := range vectors {
		value := part(xsaveHi16ZMM, max(reg-16, 0), 64)
		if reg < 16 {
			value = slices.Concat(area[xsaveXMM+16*reg:][:16], part(xsaveAVX, reg, 16), part(xsaveZMMHi256, reg, 32))
		}
		for i := range vectors[reg] {
			vectors[reg][i] = le.Uint64(value[8*i:])
		}
	}
	c.Vectors = VectorsOf(&vectors)
	return true
}

// FSave is the unit's state as FRSTOR loads it (SDM vol. 1, 8.1.10, figure 8-9), without the pointers to the last instruction.
func (x X87) FSave() (area [108]byte) {
	le := binary.LittleEndian
	le.PutUint16(area[0:], x.Control)
	le.PutUint16(area[4:], x.Status)
	tags := uint16(0)
	for r := range 8 {
		if x.Tags>>r&1 == 0 {
			tags |= 3 << (2 * r) // empty; of the others the CPU finds the kind by itself
		}
	}
	le.PutUint16(area[8:], tags)
	for i, r := range x.Registers {
		copy(area[28+10*i:], r[:])
	}
	return area
}
