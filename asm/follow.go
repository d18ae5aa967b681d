package asm

import "encoding/binary"

// Start is the state in which a block's first copy begins.
type Start struct {
	Regs        // RIP is the address of the block's first instruction, in every copy
	Fill uint64 // every aligned word of memory
}

// Followed is where an access of a copy goes.
type Followed struct {
	Inst, Mem int
	Addr      uint64
	Known     bool // it follows from the start; else Addr means nothing
}

// Follow predicts the addresses of all accesses of copies, in program order. It follows the general registers through
// moves, sums and the like, and treats all else as unknown and all memory as one page.
func Follow(insts []Inst, copies int, start Start) (all []Followed) {
	f, each := newFollower(start), 0
	for i := range insts {
		each += len(insts[i].Mem)
	}
	all = make([]Followed, 0, copies*each)
	for range copies {
		for i := range insts {
			for k := range insts[i].Mem {
				at := f.address(&insts[i], &insts[i].Mem[k])
				all = append(all, Followed{i, k, at.v, at.ok})
			}
			f.step(&insts[i])
		}
	}
	return all
}

// Steps returns by how much a pass through instructions changes each general register, and which registers it changes
// by a constant, whatever they hold.
func Steps(insts []Inst) (steps [16]int64, constant uint16) {
	constant = 1<<16 - 1
	for pass, unit := range []uint64{0x1000_0000, 0x2345_0000} {
		var start Start
		for n := range start.GPR {
			start.GPR[n] = unit * uint64(n+1)
		}
		f := newFollower(start)
		for i := range insts {
			f.step(&insts[i])
		}
		constant &= f.known
		for n := range steps {
			step := int64(f.regs.GPR[n] - start.GPR[n])
			if pass > 0 && step != steps[n] {
				constant &^= 1 << n
			}
			steps[n] = step
		}
	}
	return steps, constant
}

// pageSize is the size of x86-64's smallest page.
const pageSize = 4096

// follower tracks known values of registers and memory.
type follower struct {
	start  Start
	regs   Regs
	known  uint16
	fill   [16]byte // any eight bytes of memory, by the low bits of the address
	stores []stored
	latest [pageSize]uint32 // of each byte of a page, the number of the last store to it, from 1, as if all pages were on one frame
}

// stored is the content of width bytes at the low bits of their address.
type stored struct {
	at, width uint64
	known
}

func newFollower(start Start) *follower {
	f := &follower{start: start, regs: start.Regs, known: 1<<16 - 1}
	binary.LittleEndian.PutUint64(f.fill[:], start.Fill)
	binary.LittleEndian.PutUint64(f.fill[8:], start.Fill)
	return f
}

// known is a number that may not be.
type known struct {
	v  uint64
	ok bool
}

// address is the address of an access, if the Mem describes a single one.
func (f *follower) address(in *Inst, m *Mem) known {
	if m.Mask != NoRegister || m.Elements > 0 || m.Repeat != Once {
		return known{}
	}
	for _, r := range [...]Register{m.Base, m.Index, m.BitOffset} {
		n, isGPR := r.GPR()
		if r == AL {
			n, isGPR = numAX, true
		}
		if isGPR && f.known>>n&1 == 0 {
			return known{}
		}
	}
	f.regs.RIP = f.start.RIP + uint64(in.Offset+len(in.Bytes))
	return known{m.Addr(&f.regs), true}
}

// load is a value from memory: as it was stored in one piece, or else as at first.
func (f *follower) load(in *Inst, m *Mem) known {
	addr := f.address(in, m)
	if !addr.ok || m.Width > 8 {
		return known{}
	}
	at, width := addr.v%pageSize, uint64(m.Width)
	latest := uint32(0)
	for i := range width {
		latest = max(latest, f.latest[(at+i)%pageSize])
	}
	if latest > 0 {
		if s := f.stores[latest-1]; s.at == at && s.width >= width {
			return known{s.v & ones(m.Width), s.ok}
		}
		return known{}
	}
	return known{binary.LittleEndian.Uint64(f.fill[at%8:]) & ones(m.Width), true}
}

// store leaves memory alone where the address is not known: it can be anywhere, and mostly is not where a pointer is.
func (f *follower) store(in *Inst, m *Mem, x known) {
	if addr := f.address(in, m); addr.ok {
		at, width := addr.v%pageSize, uint64(m.Width)
		f.stores = append(f.stores, stored{at, width, known{x.v, x.ok && m.Width <= 8}})
		for i := range width {
			f.latest[(at+i)%pageSize] = uint32(len(f.stores))
		}
	}
}

func (f *follower) reg(n int) known { return known{f.regs.GPR[n], f.known>>n&1 != 0} }

func (f *follower) setReg(n int, x known) {
	f.regs.GPR[n] = x.v
	f.known &^= 1 << n
	if x.ok {
		f.known |= 1 << n
	}
}

type change struct {
	reg int
	to  known
}

func (f *follower) step(in *Inst) {
	d := &in.raw
	_, writes := d.registers()
	var result known // of the first operand
	if d.enc == encLegacy {
		result = f.result(in)
	}
	for i := range in.Mem {
		if in.Mem[i].Write {
			f.store(in, &in.Mem[i], result)
		}
	}
	var changes [3]change // the stack pointer and a frame's, two strings' pointers, a register
	n := 0
	moves := func(reg int, from known, by int) {
		from.v += uint64(by)
		changes[n] = change{reg, from}
		n++
	}
	switch d.form.implicit {
	case implicitPush:
		moves(numSP, f.reg(numSP), -d.stackWidth())
	case implicitPop:
		moves(numSP, f.reg(numSP), d.stackWidth())
	case implicitLeave:
		moves(numSP, f.reg(numBP), d.stackWidth())
		moves(numBP, f.load(in, &in.Mem[0]), 0)
	}
	for k, o := range d.form.ops {
		switch reg, isReg := d.wholeRegister(o); {
		case o.kind == opX && d.rep == 0: // upwards
			moves(numSI, f.reg(numSI), d.width(o.size))
		case o.kind == opY && d.rep == 0:
			moves(numDI, f.reg(numDI), d.width(o.size))
		case k == 0 && isReg && o.access&accWrite != 0:
			if width := d.width(o.size); width < 4 { // the rest keeps its value
				old := f.reg(reg)
				result = known{old.v&^ones(width) | result.v&ones(width), result.ok && old.ok}
			} else {
				result.v &= ones(width)
			}
			moves(reg, result, 0)
		}
	}
	if d.mnemonic() == "cdqe" {
		rax := f.reg(numAX)
		moves(numAX, known{uint64(int64(int32(rax.v))), rax.ok}, 0)
	}
	f.known &^= writes.GPR
	for _, c := range changes[:n] {
		f.setReg(c.reg, c.to)
	}
}

// result is the value that an instruction computes from its operands, if this follows it.
func (f *follower) result(in *Inst) known {
	d := &in.raw
	ops := d.form.ops
	operand := func(k int) known {
		if k >= len(ops) {
			return known{}
		}
		return f.operand(in, k)
	}
	a, b, c := operand(0), operand(1), operand(2)
	x := known{ok: a.ok && b.ok}
	switch d.form.name {
	case "mov", "movzx", "movs", "stos", "lods":
		return b
	case "movsx", "movsxd":
		return known{uint64(signExtend(b.v, 8*d.width(ops[1].size))), b.ok}
	case "push":
		return a
	case "pop":
		return f.load(in, &in.Mem[0])
	case "lea":
		return f.address(in, &Mem{Base: d.base, Index: d.index, Scale: d.scale, Disp: d.disp, AddrSize: d.addrSize()})
	case "sub", "xor":
		n, isReg := d.wholeRegister(ops[0])
		if m, ok := d.wholeRegister(ops[1]); ok && isReg && m == n {
			return known{0, true}
		}
		x.v = a.v - b.v
		if d.form.name == "xor" {
			x.v = a.v ^ b.v
		}
	case "add":
		x.v = a.v + b.v
	case "and":
		x.v = a.v & b.v
	case "or":
		x.v = a.v | b.v
	case "shl":
		x.v = a.v << (b.v % max(32, uint64(8*d.width(ops[0].size))))
	case "shr":
		x.v = a.v >> (b.v % max(32, uint64(8*d.width(ops[0].size))))
	case "inc":
		x = known{a.v + 1, a.ok}
	case "dec":
		x = known{a.v - 1, a.ok}
	case "neg":
		x = known{-a.v, a.ok}
	case "not":
		x = known{^a.v, a.ok}
	case "imul":
		x.v = a.v * b.v
		if len(ops) == 3 {
			x = known{b.v * c.v, b.ok && c.ok}
		}
	default:
		return known{}
	}
	return x
}

func (f *follower) operand(in *Inst, k int) known {
	d := &in.raw
	o := d.form.ops[k]
	width := d.width(o.size)
	if n, ok := d.wholeRegister(o); ok {
		x := f.reg(n)
		return known{x.v & ones(width), x.ok}
	}
	switch o.kind {
	case opImm, opImmS:
		return known{uint64(d.imm[0]), true}
	case opFixed:
		return known{1, o.name == "1"}
	}
	if m, ok := d.operandAccess(o); ok {
		return f.load(in, &m)
	}
	return known{}
}

// wholeRegister is the general register that an operand is, or is the low part of.
func (d *rawInst) wholeRegister(o operand) (n int, ok bool) {
	k := o.kind
	if k.class != GPROperand || k.memory && d.hasMem {
		return 0, false
	}
	return d.number(o.kind), d.highByte(o) == d.number(o.kind)
}

func ones(width int) uint64 {
	if width >= 8 {
		return ^uint64(0)
	}
	return 1<<(8*width) - 1
}
