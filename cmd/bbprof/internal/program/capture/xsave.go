package capture

import (
	"encoding/binary"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/initial"
)

// xsaveLayout holds the offset of each component, 0 if the CPU lacks it (Intel SDM vol. 1, 13.4.3).
type xsaveLayout [32]int

// keptFlags are the user-mode flags (Intel SDM vol. 1, 3.4.3): arithmetic, DF, NT, AC and ID.
const (
	direction = 1 << 10
	keptFlags = 0x8d5 | direction | 1<<14 | 1<<18 | 1<<21
)

func (l xsaveLayout) captured(s debuggee.State) initial.Captured {
	c := initial.Captured{
		State: initial.State{Name: initial.CapturedName, GPR: s.GPR, FSBase: s.FSBase, GSBase: s.GSBase,
			Fill: initial.Paper().Fill, Flags: s.Flags & keptFlags},
		Address: s.RIP,
	}
	c.SetXSave(s.XSave, l)
	return c
}

func (l xsaveLayout) machine(s debuggee.State) (m asm.Machine) {
	c := l.captured(s)
	m.Regs, m.Opmasks, m.Down = s.Regs, c.Opmasks, s.Flags&direction != 0
	for _, v := range c.Vectors {
		for k, w := range v.Words {
			binary.LittleEndian.PutUint64(m.Vectors[v.Reg][8*k:], w)
		}
	}
	for i := range m.MMX { // with the top of the stack at 0, as MMX instructions leave it
		m.MMX[i] = binary.LittleEndian.Uint64(c.X87.Registers[i][:])
	}
	return m
}
