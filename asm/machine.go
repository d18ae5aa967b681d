package asm

import "encoding/binary"

// Machine is a state that an instruction is about to run in.
type Machine struct {
	Regs    // RIP is the address of the instruction itself
	Vectors [32][64]byte
	Opmasks [8]uint64
	MMX     [8]uint64
	Down    bool // the direction flag
}

// AccessesFrom lists what an instruction accesses that runs from a state: of a string instruction with a
// rep prefix, one round. Of an access that a mask reduces, suppressed says that nothing is left.
func (in *Inst) AccessesFrom(s *Machine, yield func(a Access, m Mem, suppressed bool)) {
	regs := s.Regs
	regs.RIP += uint64(len(in.Bytes))
	for k, m := range in.Mem {
		if m.String && m.Repeat != Once && m.truncated(regs.GPR[numCX]) == 0 {
			continue // no round at all
		}
		a := Access{Mem: k, Width: m.Width, Elem: m.Width, Read: m.Read, Write: m.Write}
		mask := s.mask(m)
		if m.Elements == 0 {
			a.Addr = m.Addr(&regs)
			yield(a, m, mask != nil && !m.Masked(mask))
			continue
		}
		n, _ := m.Index.Vector()
		for i := range m.Elements {
			if mask == nil || m.enabled(mask, i) {
				a.Addr = m.addrAt(&regs, m.element(s.Vectors[n][:], i))
				yield(a, m, false)
			}
		}
	}
}

// Compares reports whether how many rounds an instruction makes depends on what it finds.
func (in *Inst) Compares() bool {
	for _, m := range in.Mem {
		if m.Repeat > Rep {
			return true
		}
	}
	return false
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
	for _, m := range in.Mem {
		if _, ok := m.Index.Vector(); ok || m.Mask != NoRegister {
			return true
		}
	}
	return false
}
