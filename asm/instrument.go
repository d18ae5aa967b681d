package asm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Access is one memory access that a block made.
type Access struct {
	Copy  int    // which copy of the block, from 0
	Inst  int    // which instruction of the block, from 0
	Mem   int    // which of its Mem
	Addr  uint64 // linear address of the lowest byte
	Width int    // bytes from there on
	Elem  int    // bytes at a time: less than Width for a rep string operation
	Read  bool
	Write bool
}

// Probe turns a block into an instrumented one, which logs what its effective addresses are made of just before each
// instruction. It changes no register and no flag: one register is saved to a slot, takes the address by lea, goes to
// the log, and is loaded back; mov and lea leave flags alone. Every copy logs to places of its own, so no log pointer
// is needed.
type Probe struct {
	insts    []Inst
	plan     [][]capture // per instruction
	size     int         // bytes of log a copy
	features Features
	scratch  uint64
}

// capture is a value that is logged for a Mem.
type capture struct {
	role captureRole
	mem  int
	reg  Register // NoRegister for an address
	at   int      // offset in the copy's log
}

type captureRole uint8

const (
	roleAddress captureRole = iota // base + index·scale + displacement
	roleIndex
	roleBits
	roleMask
	roleCount
	roleLeft // of roleCount's register, after the instruction
)

// bytes is how much of the log it takes.
func (c capture) bytes() int {
	if _, ok := c.reg.Vector(); ok {
		return 64
	}
	return 8
}

// NewProbe plans the instrumentation of a block; its error says why addresses cannot be logged. The borrowed register
// is saved to the 8 bytes at scratch.
func NewProbe(insts []Inst, features Features, scratch uint64) (*Probe, error) {
	p := &Probe{insts: insts, plan: make([][]capture, len(insts)), features: features, scratch: scratch}
	flagsLoaded := StateOf(insts).FlagsLoaded
	for i := range insts {
		in := &insts[i]
		for k, m := range in.Mem {
			if m.String && flagsLoaded {
				return nil, fmt.Errorf("%s: the direction depends on flags that the block loads", in.Text())
			}
			p.planMem(i, k, m)
		}
		if flagsLoaded && slices.ContainsFunc(p.plan[i], func(c capture) bool { return c.bytes() > 8 }) {
			return nil, fmt.Errorf("%s: the block may switch alignment checks on, and what is logged of its vectors is not aligned", in.Text())
		}
	}
	return p, nil
}

func (p *Probe) planMem(i, k int, m Mem) {
	add := func(is bool, role captureRole, reg Register) {
		if is {
			c := capture{role, k, reg, p.size}
			p.plan[i] = append(p.plan[i], c)
			p.size += c.bytes()
		}
	}
	_, gathers := m.Index.Vector()
	repeats := m.String && m.Repeat != Once
	add(!static(m), roleAddress, NoRegister)
	add(gathers, roleIndex, m.Index)
	add(m.BitOffset != NoRegister, roleBits, m.BitOffset)
	add(m.Mask != NoRegister, roleMask, m.Mask)
	add(repeats, roleCount, GPR(numCX))
	add(repeats && m.Repeat != Rep, roleLeft, GPR(numCX))
}

func static(m Mem) bool {
	return (m.Base == NoRegister || m.Base == RIP) && m.Index == NoRegister
}

// LogSize is how many bytes of log a copy of the block fills.
func (p *Probe) LogSize() int { return p.size }

// Before appends what goes ahead of instruction i in a copy whose log is at log.
func (p *Probe) Before(e *Emitter, i int, log uint64) {
	saved := false
	for _, c := range p.plan[i] {
		at := log + uint64(c.at)
		if c.role == roleAddress {
			if !saved {
				e.Store(p.scratch, RAX)
				saved = true
			} else {
				e.Load(RAX, p.scratch) // the operand may use it
			}
			m := p.insts[i].Mem[c.mem]
			if m.Index == AL {
				e.Raw(0x0f, 0xb6, 0xc0) // movzx eax, al
			}
			e.memOp(RAX, m, true, 0x8d) // lea, with rax for al
			e.Store(at, RAX)
		} else if n, ok := c.reg.GPR(); ok && c.role != roleLeft {
			if saved && n == numAX {
				e.Load(RAX, p.scratch)
			}
			e.Store(at, Reg(n))
		} else if n, ok := c.reg.Opmask(); ok {
			e.storeOpmask(at, byte(n), p.features.AVX512BW)
		} else if n, ok := c.reg.Vector(); ok {
			bits := 256 // what VEX and legacy instructions see
			if p.insts[i].raw.enc == encEVEX {
				bits = 512
			}
			e.moveVector(0x11, n, bits, p.features, at)
		} else if c.reg >= firstMMX {
			e.relative32(at, 0x0f, 0x7f, ripModRM(byte(c.reg-firstMMX))) // movq [rip+…], mm
		}
	}
	if saved {
		e.Load(RAX, p.scratch)
	}
}

// After appends what goes after the instruction.
func (p *Probe) After(e *Emitter, i int, log uint64) {
	for _, c := range p.plan[i] {
		if c.role == roleLeft {
			e.Store(log+uint64(c.at), RCX)
		}
	}
}

// Clflush is clflush of the line of the byte that comes offset bytes after an access's first. It faults as a load of
// that byte does (SDM vol. 2, CLFLUSH), and changes neither registers nor flags. The byte is at target if its address
// is relative to rip.
func (e *Emitter) Clflush(m Mem, offset int64, target uint64) {
	switch m.Segment {
	case FS:
		e.Raw(0x64)
	case GS:
		e.Raw(0x65)
	}
	if m.Base == RIP {
		if m.AddrSize == 32 {
			e.Raw(0x67)
		}
		e.Raw(0x0f, 0xae, 0x3d)
		e.rel32(target + uint64(offset))
		return
	}
	m.Disp += offset
	e.memOp(7, m, false, 0x0f, 0xae)
}

// memOp is an instruction with ModRM for an access that is not relative to rip, but for segment prefixes.
func (e *Emitter) memOp(r Reg, m Mem, wide bool, opcode ...byte) {
	at := m.Operand()
	if m.Index == AL {
		at.Index = numAX
	}
	if m.AddrSize == 32 {
		e.Raw(0x67)
	}
	rex := 0x40 | byte(r>>3)<<2 | byte(at.Base>>3&1)
	if wide {
		rex |= 8
	}
	if at.Index >= 0 {
		rex |= byte(at.Index>>3) << 1
	}
	e.Raw(rex)
	e.Raw(opcode...)
	e.code = at.append(e.code, byte(r&7), false)
}

// Operand is the part of the access's address that consists of general registers, with a displacement of 32 bits.
func (m *Mem) Operand() Address {
	at := Address{Base: NoBase, Index: -1, Scale: m.Scale, Disp: int32(m.Disp), Long: true}
	if n, ok := m.Base.GPR(); ok {
		at.Base = Reg(n)
	}
	if n, ok := m.Index.GPR(); ok {
		at.Index = n
	}
	return at
}

// storeOpmask is kmovq or, on a CPU without AVX512BW, kmovw to memory (VEX.L0.0F 91).
func (e *Emitter) storeOpmask(at uint64, k byte, quad bool) {
	if quad {
		e.relative32(at, 0xc4, 0xe1, 0xf8, 0x91, ripModRM(k))
	} else {
		e.relative32(at, 0xc5, 0xf8, 0x91, ripModRM(k))
	}
}

// Accesses reads the log of a run of copies and lists what they accessed, in program order. Of start only the segment
// bases and rip, the address of the block's first instruction, are used.
func (p *Probe) Accesses(log []byte, copies int, start *Regs) []Access {
	return p.accesses(log, copies, start, false)
}

// Suppressed reads from the log what Accesses leaves out because a mask suppressed it.
func (p *Probe) Suppressed(log []byte, copies int, start *Regs) []Access {
	if !slices.ContainsFunc(p.insts, func(in Inst) bool { return slices.ContainsFunc(in.Mem, Mem.CanBeSuppressed) }) {
		return nil
	}
	return p.accesses(log, copies, start, true)
}

func (p *Probe) accesses(log []byte, copies int, start *Regs, suppressed bool) []Access {
	mems := 0
	for i := range p.insts {
		mems += max(len(p.insts[i].Mem), 1)
	}
	all := make([]Access, 0, copies*mems) // a guess: gathers make more, masks fewer
	var values []logged
	down := false // the direction flag
	for c := range copies {
		part := log[c*p.size:][:p.size]
		for i := range p.insts {
			in := &p.insts[i]
			values = p.values(values[:0], i, part, start.RIP)
			for k, m := range in.Mem {
				if suppressed == (m.Mask == NoRegister || m.Masked(values[k].mask)) {
					continue
				}
				all = expand(all, Access{Copy: c, Inst: i, Mem: k}, m, values[k], down, start)
			}
			switch in.Mnemonic {
			case "std":
				down = true
			case "cld":
				down = false
			}
		}
	}
	return all
}

// Steady is the first copy from which on all logged the same; the last if no two did. The direction flag, which is
// not logged, is that of the copies that follow from the second on.
func (p *Probe) Steady(log []byte, copies int) int {
	first := 0
	if slices.ContainsFunc(p.insts, func(in Inst) bool { return in.Mnemonic == "std" }) {
		first = 1
	}
	row := func(c int) []byte { return log[c*p.size:][:p.size] }
	steady := copies - 1
	for steady > first && bytes.Equal(row(steady-1), row(steady)) {
		steady--
	}
	return steady
}

// logged holds the values captured for one Mem of an instruction.
type logged struct {
	address, bits, count, left uint64
	index, mask                []byte
}

// values appends what was captured for each Mem of an instruction.
func (p *Probe) values(out []logged, i int, part []byte, rip uint64) []logged {
	in := &p.insts[i]
	for _, m := range in.Mem { // those of static addresses
		v := logged{address: uint64(m.Disp)}
		if m.Base == RIP {
			v.address += rip + uint64(in.Offset+len(in.Bytes))
		}
		v.address = m.truncated(v.address)
		out = append(out, v)
	}
	for _, c := range p.plan[i] {
		v, bytes := &out[c.mem], part[c.at:][:c.bytes()]
		switch word := binary.LittleEndian.Uint64(bytes); c.role {
		case roleAddress:
			v.address = word
		case roleIndex:
			v.index = bytes
		case roleBits:
			v.bits = word
		case roleMask:
			v.mask = bytes
		case roleCount:
			v.count = word
		case roleLeft:
			v.left = word
		}
	}
	return out
}

// expand appends the accesses that a Mem stands for.
func expand(all []Access, a Access, m Mem, v logged, down bool, start *Regs) []Access {
	a.Width, a.Elem, a.Read, a.Write = m.Width, m.Width, m.Read, m.Write
	if m.Elements > 0 {
		for n := range m.Elements {
			if m.Mask == NoRegister || m.enabled(v.mask, n) {
				a.Addr = m.linear(m.truncated(v.address+m.element(v.index, n)*uint64(m.Scale)), 0, start)
				all = append(all, a)
			}
		}
		return all
	}
	a.Addr = m.linear(v.address, v.bits, start)
	if m.String && m.Repeat != Once {
		rounds := m.truncated(v.count) - m.truncated(v.left)
		if rounds == 0 {
			return all
		}
		a.Width = int(rounds) * m.Width
		if down {
			a.Addr -= (rounds - 1) * uint64(m.Width)
		}
	}
	return append(all, a)
}

// CanBeSuppressed reports whether a mask can suppress all of an access that counts as one. The CPU then looks up its
// pages all the same, and takes long where one is not mapped or, of a store, not written before (Intel Optimization
// Manual, "Masked loads and stores"). The elements of gathers and scatters it looks up one by one, only those that
// are enabled.
func (m Mem) CanBeSuppressed() bool { return m.Mask != NoRegister && m.Elements == 0 }

// Masked reports whether a mask of these bytes enables anything. Of a masked access that is not a gather all bytes
// count if any is enabled.
func (m Mem) Masked(mask []byte) bool {
	if m.Elements > 0 {
		return true // each element by itself
	}
	if _, ok := m.Mask.Opmask(); ok {
		bits := binary.LittleEndian.Uint64(mask)
		if m.lanes > 0 {
			bits &= 1<<m.lanes - 1 // the others belong to wider vectors
		}
		return bits != 0
	}
	size := m.Width / int(m.lanes)
	for top := size - 1; top < m.Width; top += size {
		if mask[top]&0x80 != 0 {
			return true
		}
	}
	return false
}

// enabled reports whether element n of a gather or scatter is made.
func (m Mem) enabled(mask []byte, n int) bool {
	if _, ok := m.Mask.Opmask(); ok {
		return mask[n/8]>>(n%8)&1 != 0
	}
	return mask[(n+1)*m.Width-1]&0x80 != 0 // the top bit of the element
}

// element is the sign-extended index of element n.
func (m Mem) element(index []byte, n int) uint64 {
	if m.IndexSize == 4 {
		return uint64(int64(int32(binary.LittleEndian.Uint32(index[4*n:]))))
	}
	return binary.LittleEndian.Uint64(index[8*n:])
}
