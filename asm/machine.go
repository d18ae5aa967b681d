package asm

import (
	"encoding/binary"
	"slices"
)

// Machine is a state that an instruction is about to run in.
type Machine struct {
	Regs    // RIP is the address of the instruction itself
	Vectors [32][64]byte
	Opmasks [8]uint64
	MMX     [8]uint64
	Down    bool // the direction flag
}

// AccessesFrom lists what an instruction accesses that runs from a state: of a string instruction with a rep prefix,
// one round. Of an access that a mask reduces, suppressed says that nothing is left.
func (in *Inst) AccessesFrom(s *Machine, yield func(a Access, m Mem, suppressed bool)) {
	regs := s.Regs
	regs.RIP += uint64(len(in.Bytes))
	for k, m := range in.Mem {
		if m.String && m.Repeat != Once && m.truncated(regs.GPR[numCX]) == 0 {
			continue // no round at all
		}
		v := logged{address: m.offset(&regs), count: 1, mask: s.mask(m)}
		if n, ok := m.BitOffset.GPR(); ok {
			v.bits = regs.GPR[n]
		}
		if n, ok := m.Index.Vector(); ok {
			v.index = s.Vectors[n][:]
		}
		for _, a := range expand(nil, Access{Mem: k}, m, v, s.Down, &regs) {
			yield(a, m, m.Mask != NoRegister && !m.Masked(v.mask))
		}
	}
}

// Compares reports whether how many rounds an instruction makes depends on what it finds.
func (in *Inst) Compares() bool {
	return slices.ContainsFunc(in.Mem, func(m Mem) bool { return m.Repeat > Rep })
}

// mask is the mask of an access, nil without one.
func (s *Machine) mask(m Mem) []byte {
	if n, ok := m.Mask.Opmask(); ok {
		return binary.LittleEndian.AppendUint64(nil, s.Opmasks[n])
	}
	if n, ok := m.Mask.Vector(); ok {
		return s.Vectors[n][:]
	}
	if m.Mask >= firstMMX {
		return binary.LittleEndian.AppendUint64(nil, s.MMX[m.Mask-firstMMX])
	}
	return nil
}

// NeedsVectors reports whether what an instruction accesses depends on vector, opmask or MMX registers.
func (in *Inst) NeedsVectors() bool {
	return slices.ContainsFunc(in.Mem, func(m Mem) bool {
		_, gathers := m.Index.Vector()
		return gathers || m.Mask != NoRegister
	})
}
