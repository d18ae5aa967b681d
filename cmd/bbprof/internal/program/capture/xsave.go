package capture

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
)

// Offsets in the legacy area (Intel SDM vol. 1, 10.5.1).
const (
	atControl = 0
	atStatus  = 2
	atTags    = 4
	atMXCSR   = 24
	atX87     = 32
	atXMM     = 160
	legacy    = 512
)

// xsaveLayout holds the offsets of the other components, 0 if the CPU lacks one (Intel SDM vol. 1, 13.4.3).
type xsaveLayout struct{ avx, opmask, zmmLow, zmmHigh int }

// xsaveLayoutOf reads CPUID's leaf for processor extended state (Intel SDM vol. 2, CPUID leaf 0DH).
func xsaveLayoutOf(id host.CPUID) xsaveLayout {
	const leaf = 0xd
	if highest, _, _, _ := id(0, 0); highest < leaf {
		return xsaveLayout{}
	}
	at := func(component uint32) int {
		size, offset, _, _ := id(leaf, component)
		if size == 0 {
			return 0
		}
		return int(offset)
	}
	return xsaveLayout{avx: at(2), opmask: at(5), zmmLow: at(6), zmmHigh: at(7)}
}

type vectorFile struct {
	words   [32][8]uint64
	opmasks [8]uint64
	mxcsr   uint32
	x87     initial.X87
}

// parse reads an area in which the kernel has filled in what XSAVE omits.
func (l xsaveLayout) parse(area []byte) (v vectorFile) {
	if len(area) < legacy {
		return v
	}
	le := binary.LittleEndian
	v.mxcsr = le.Uint32(area[atMXCSR:])
	v.x87 = initial.X87{Control: le.Uint16(area[atControl:]), Status: le.Uint16(area[atStatus:]), Tags: area[atTags]}
	for i := range v.x87.Registers {
		copy(v.x87.Registers[i][:], area[atX87+16*i:])
	}
	// words copies n words of each of several consecutive registers.
	words := func(offset, first, registers, word, n int) {
		if offset == 0 || len(area) < offset+registers*n*8 {
			return
		}
		for r := range registers {
			for w := range n {
				v.words[first+r][word+w] = le.Uint64(area[offset+8*(r*n+w):])
			}
		}
	}
	words(atXMM, 0, 16, 0, 2)
	words(l.avx, 0, 16, 2, 2)
	words(l.zmmLow, 0, 16, 4, 4)
	words(l.zmmHigh, 16, 16, 0, 8)
	if l.opmask > 0 && len(area) >= l.opmask+64 {
		for i := range v.opmasks {
			v.opmasks[i] = le.Uint64(area[l.opmask+8*i:])
		}
	}
	return v
}

// keptFlags are the user-mode flags (Intel SDM vol. 1, 3.4.3): arithmetic, DF, NT, AC and ID.
const (
	direction = 1 << 10
	keptFlags = 0x8d5 | direction | 1<<14 | 1<<18 | 1<<21
)

func (l xsaveLayout) captured(s debuggee.State) initial.Captured {
	v := l.parse(s.XSave)
	return initial.Captured{
		State: initial.State{Name: "captured", GPR: s.GPR, FSBase: s.FSBase, GSBase: s.GSBase, Fill: initial.Paper().Fill,
			MXCSR: v.mxcsr, Opmasks: v.opmasks, Flags: s.Flags & keptFlags, Vectors: initial.VectorsOf(&v.words)},
		Address: s.RIP,
		X87:     v.x87,
	}
}

func (l xsaveLayout) machine(s debuggee.State) (m asm.Machine) {
	v := l.parse(s.XSave)
	m.Regs, m.Opmasks, m.Down = s.Regs, v.opmasks, s.Flags&direction != 0
	for i, words := range v.words {
		for k, w := range words {
			binary.LittleEndian.PutUint64(m.Vectors[i][8*k:], w)
		}
	}
	for i := range m.MMX { // with the top of the stack at 0, as MMX instructions leave it
		m.MMX[i] = binary.LittleEndian.Uint64(v.x87.Registers[i][:])
	}
	return m
}
