package capture

import (
	"math/bits"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// What masked contents are replaced by. A byte of 0x40 in any place makes integers above 0 and, however wide
// and whatever they are aligned to, normal floating-point numbers above 2 (half 2.1, single 3.0, double 32.5):
// products of them grow towards infinity, which costs nothing, and away from subnormals, which do.
const (
	MaskByte = 0x40
	maskWord = 0x4040404040404040
)

// maskX87 is 3.0 as the x87 unit has it: bytes of 0x40 have no integer bit there, which makes them no number.
var maskX87 = [10]byte{7: 0xc0, 8: 0x00, 9: 0x40}

// Mask gives a state with which a block does what it does with c, as far as time can tell, and which holds
// no other contents of the program. Kept is what feeds an address, a mask, a number of rounds, a shift count
// or a division (asm.Inst.Decisive) of any copy of the block, found backwards from the accesses of
// copies in a row; and rsp, flags, control words and segment bases.
//
// Where the program has met a subnormal number, which the sticky flags tell, all that floating-point
// instructions read is kept: an assist would come or go with it.
func Mask(insts []asm.Inst, accesses []asm.Access, c *initial.Captured) initial.Captured {
	n := needs{insts: insts, accesses: accesses, memory: map[uint64]*[pageSize]bool{}, subnormals: metSubnormals(c)}
	for i := range c.Pages {
		n.memory[c.Pages[i].Address] = new([pageSize]bool)
	}
	// What the first copy needs, one after the last would need of what that leaves.
	for size := -1; size < n.size(); {
		size = n.size()
		n.again()
	}
	return n.masked(c)
}

// metSubnormals reports whether the sticky flags DE or UE are set in MXCSR or in the x87 status word (SDM
// vol. 1, 8.1.3.3 and 10.2.3).
func metSubnormals(c *initial.Captured) bool {
	const denormal, underflow = 1 << 1, 1 << 4
	return (c.MXCSR|uint32(c.X87.Status))&(denormal|underflow) != 0
}

// needs are what has to keep its value, before some instruction.
type needs struct {
	insts      []asm.Inst
	accesses   []asm.Access // in program order
	subnormals bool

	values asm.Values
	memory map[uint64]*[pageSize]bool // of captured pages, which bytes
	bytes  int                        // how many of them are needed
}

// size grows with what is needed.
func (n *needs) size() int {
	size := n.bytes + bits.OnesCount16(n.values.GPR) + bits.OnesCount32(n.values.Vector) + bits.OnesCount8(n.values.Opmask) + bits.OnesCount8(uint8(n.values.Flags))
	if n.values.X87 {
		size++
	}
	return size
}

// again goes back through all copies once more: what is needed at their beginning stays needed at their end.
func (n *needs) again() {
	atEnd := *n
	atEnd.memory = map[uint64]*[pageSize]bool{}
	for addr, page := range n.memory {
		one := *page
		atEnd.memory[addr] = &one
	}
	rest := n.accesses
	copies := 1
	if len(rest) > 0 {
		copies = rest[len(rest)-1].Copy + 1
	}
	for c := copies - 1; c >= 0; c-- {
		for i := len(n.insts) - 1; i >= 0; i-- {
			first := len(rest)
			for first > 0 && rest[first-1].Copy == c && rest[first-1].Inst == i {
				first--
			}
			n.before(&n.insts[i], rest[first:])
			rest = rest[:first]
		}
	}
	n.values = n.values.Or(atEnd.values)
	for addr, page := range atEnd.memory {
		for i, needed := range page {
			if needed {
				n.set(addr+uint64(i), true)
			}
		}
	}
}

// before goes from what is needed after an instruction to what is needed before it.
func (n *needs) before(in *asm.Inst, accesses []asm.Access) {
	reads, writes := in.Dataflow()
	decisive, memory := in.Decisive()
	if n.subnormals {
		if s := asm.StateOf([]asm.Inst{*in}); s.MXCSRSticky || s.X87 {
			decisive, memory = decisive.Or(reads), true
		}
	}
	steps := in.Steps()
	computed := writes.Without(steps)
	wanted := n.values.And(computed) != asm.Values{}
	n.values = n.values.Without(computed)
	if from, to, ok := stringMove(in, accesses); ok {
		n.moved(from, to)
		accesses = nil
	}
	for _, a := range accesses {
		if a.Write {
			wanted = n.any(a) || wanted
		}
	}
	for _, a := range accesses {
		if a.Write && in.Mem[a.Mem].Mask == asm.NoRegister {
			n.mark(a, false)
		}
	}
	for _, a := range accesses {
		if a.Read && (wanted || memory) {
			n.mark(a, true)
		}
	}
	if wanted {
		n.values = n.values.Or(reads.Without(steps))
	}
	n.values = n.values.Or(decisive)
}

// stringMove are the accesses of a movs if each byte comes from one other: if they do not overlap.
func stringMove(in *asm.Inst, accesses []asm.Access) (from, to asm.Access, ok bool) {
	if len(accesses) != 2 || !in.Mem[0].String || !in.Mem[1].String || accesses[0].Write == accesses[1].Write {
		return from, to, false
	}
	from, to = accesses[0], accesses[1]
	if from.Write {
		from, to = to, from
	}
	apart := from.Addr+uint64(from.Width) <= to.Addr || to.Addr+uint64(to.Width) <= from.Addr
	return from, to, apart && from.Width == to.Width
}

// moved goes back from where a string was moved to where it came from.
func (n *needs) moved(from, to asm.Access) {
	for i := range uint64(to.Width) {
		if n.needed(to.Addr + i) {
			n.set(to.Addr+i, false)
			n.set(from.Addr+i, true)
		}
	}
}

func (n *needs) any(a asm.Access) bool {
	for i := range uint64(a.Width) {
		if n.needed(a.Addr + i) {
			return true
		}
	}
	return false
}

func (n *needs) mark(a asm.Access, needed bool) {
	for i := range uint64(a.Width) {
		n.set(a.Addr+i, needed)
	}
}

func (n *needs) needed(addr uint64) bool {
	page := n.memory[addr&^(pageSize-1)]
	return page != nil && page[addr%pageSize]
}

func (n *needs) set(addr uint64, needed bool) {
	page := n.memory[addr&^(pageSize-1)]
	if page == nil || page[addr%pageSize] == needed {
		return
	}
	page[addr%pageSize] = needed
	if needed {
		n.bytes++
	} else {
		n.bytes--
	}
}

// masked is the state with all replaced that is not needed.
func (n *needs) masked(c *initial.Captured) initial.Captured {
	m := *c
	const rsp = 4 // by hardware number
	keep := n.values
	keep.GPR |= 1 << rsp
	for i := range m.GPR {
		if keep.GPR>>i&1 == 0 {
			m.GPR[i] = maskedWord(m.GPR[i])
		}
	}
	for i := range m.Opmasks {
		if keep.Opmask>>i&1 == 0 {
			m.Opmasks[i] = maskedWord(m.Opmasks[i])
		}
	}
	m.Vectors = slices.Clone(c.Vectors)
	for i := range m.Vectors {
		v := &m.Vectors[i]
		if keep.Vector>>v.Reg&1 != 0 {
			continue
		}
		for w := range v.Bits / 64 { // as wide as it was: what is above was clean
			v.Words[w] = maskWord
		}
	}
	for i := range m.X87.Registers {
		if !keep.X87 && m.X87.Registers[i] != [10]byte{} {
			m.X87.Registers[i] = maskX87
		}
	}
	m.Pages = slices.Clone(c.Pages)
	for i := range m.Pages {
		p := &m.Pages[i]
		needed := n.memory[p.Address]
		for at := range p.Data {
			if !needed[at] {
				p.Data[at] = MaskByte
			}
		}
	}
	n.fillX87(&m)
	return m
}

// maskedWord replaces a register by one that takes as many bytes of code to set (asm.Emitter.MovImm): the copies of
// the block stand after that code, and where they stand can decide how fast they are decoded.
func maskedWord(v uint64) uint64 {
	switch {
	case v == uint64(uint32(v)):
		return maskWord & 0xffff_ffff
	case v == uint64(int64(int32(v))):
		return maskWord | 0xffff_ffff_8000_0000
	}
	return maskWord
}

// fillX87 puts numbers where x87 instructions read ones of 80 bits.
func (n *needs) fillX87(m *initial.Captured) {
	for _, a := range n.accesses {
		if !a.Read || a.Width != len(maskX87) {
			continue
		}
		for i, b := range maskX87 {
			addr := a.Addr + uint64(i)
			if at := slices.IndexFunc(m.Pages, func(p initial.Page) bool { return p.Address == addr&^(pageSize-1) }); at >= 0 && !n.needed(addr) {
				m.Pages[at].Data[addr%pageSize] = b
			}
		}
	}
}
