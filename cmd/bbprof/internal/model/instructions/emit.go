package instructions

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
)

type class uint8

const (
	general class = iota
	vector
	mmx
	opmask
	flags
	x87
	memory
	address
)

func (c class) String() string {
	return [...]string{"general", "vector", "mmx", "opmask", "flags", "x87", "memory", "address"}[c]
}

// body is machine code under construction, with its first error.
type body struct {
	Code []byte
	err  error
}

func (b *body) add(f *asm.Form, o operands) {
	code, err := f.Encode(o.values, o.at, o.mask)
	if err != nil && b.err == nil {
		b.err = err
	}
	b.Code = append(b.Code, code...)
}

func (b *body) named(name string, values ...int64) {
	b.namedAt(name, asm.Address{Index: -1}, values...)
}

// putBack clears a register, which waits for its value, and sets it from another: a cycle each.
func (b *body) putBack(register, value int64) {
	b.named("and r64, i8", register, 0)
	b.named("or r64, r64", register, value)
}

func (b *body) namedAt(name string, at asm.Address, values ...int64) {
	f := asm.FormNamed(name)
	if f == nil {
		b.err = fmt.Errorf("no instruction form is called %q", name)
		return
	}
	b.add(f, operands{values: values, at: at, mask: 1})
}

type operands struct {
	values []int64
	at     asm.Address
	mask   int
}

// Registers with a purpose. The initial state distinct sets rsi to byte 0x680 of its own page, leaving room for 38 lines
// above it, and leaves opmasks all ones.
const (
	baseRegister = asm.RSI // holds an address, never written
	movedAddress = asm.RDI // the address of a dependent load
	scratch      = 15      // r15: between two bridges
	other        = 14      // r14: sets registers to break a dependency
	maskRegister = 1
)

// pools are the registers of each class for operands, in this order.
var pools = map[class][]int64{
	general: {3, 8, 9, 10, 11, 12, 13, 5, 0, 2, 1}, // not rsp or any above
	vector:  {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0},
	mmx:     {0, 1, 2, 3, 4, 5, 6, 7},
	opmask:  {2, 3, 4, 5, 6, 7},
	x87:     {1, 2, 3, 4, 5, 6},
	flags:   {0},
}

var registerClasses = map[asm.OperandClass]class{
	asm.GPROperand: general, asm.VectorOperand: vector, asm.MMXOperand: mmx, asm.OpmaskOperand: opmask, asm.X87Operand: x87,
}

func classOf(o asm.Operand) (class, bool) {
	c, ok := registerClasses[o.Class]
	return c, ok
}

// A bridge is an instruction that passes a value from one class to another, to close a chain whose source and
// destination differ in class. Its latency is subtracted.
type bridge struct {
	from, to  class
	vex       bool
	condition string // from flags: setcc's suffix
}

func (b bridge) String() string {
	name := fmt.Sprintf("%s to %s", b.from, b.to)
	if b.vex {
		name += ", VEX"
	}
	if b.condition != "" {
		name += " by " + b.condition
	}
	return name
}

// carry is adc's condition.
const carry = "b"

// bridgeForms are the instructions: legacy and VEX. The destination is the first operand.
var bridgeForms = map[[2]class][2]string{
	{general, general}: {"movsxd r64, r32", "movsxd r64, r32"}, // not eliminated
	{vector, vector}:   {"pshufd xmm, xmm, i8", "vpshufd xmm, xmm, i8"},
	{general, vector}:  {"movq xmm, r64", "vmovq xmm, r64"},
	{vector, general}:  {"movq r64, xmm", "vmovq r64, xmm"},
	{general, mmx}:     {"movq mm, r64", "movq mm, r64"},
	{mmx, general}:     {"movq r64, mm", "movq r64, mm"},
	{general, opmask}:  {"kmovq k, r64", "kmovq k, r64"},
	{opmask, general}:  {"kmovq r64, k", "kmovq r64, k"},
	{vector, opmask}:   {"vpmovd2m k, xmm", "vpmovd2m k, xmm"},
	{opmask, vector}:   {"vpmovm2d xmm, k", "vpmovm2d xmm, k"},
	{general, flags}:   {"cmp r64, r64", "cmp r64, r64"}, // Redwood Cove's cmovcc and setcc wait 0.7 cycles longer for test
	{flags, general}:   {"adc r64, r64", "adc r64, r64"}, // carry only; setcc for others
}

func newBridge(from, to class, vex bool) bridge {
	names := bridgeForms[[2]class{from, to}]
	return bridge{from: from, to: to, vex: vex && names[0] != names[1]}
}

func (b bridge) emit(code *body, dst, src int64) {
	names := bridgeForms[[2]class{b.from, b.to}]
	name := names[0]
	if b.vex {
		name = names[1]
	}
	switch {
	case b.to == flags:
		code.named(name, src, other)
	case b.from == flags && b.condition == carry:
		code.named(name, dst, other)
	case b.from == flags:
		code.named("set"+b.condition+" r8", dst)
	case b.from == vector && b.to == vector:
		code.named(name, dst, src, 0xe4) // identity shuffle
	default:
		code.named(name, dst, src)
	}
}

func way(from, to class) []class {
	if _, direct := bridgeForms[[2]class{from, to}]; direct {
		return []class{from, to}
	}
	return []class{from, general, to}
}

// bridgeProbe is the chain that measures a bridge: itself, or a round trip in halves. A condition other than carry comes
// back from a cmp, whose latency the chain through carry gives.
func bridgeProbe(b bridge) Probe {
	probe := Probe{Kind: Bridge, Pair: b.String(), Links: 2}
	emit := func(list ...bridge) {
		for _, x := range list {
			x.emit(&probe.body, pools[x.to][0], pools[x.from][0])
		}
	}
	back := newBridge(b.to, b.from, b.vex)
	if b.to == flags {
		back.condition = carry
	}
	switch {
	case b.from == b.to:
		emit(b)
		probe.Links = 1
	case b.from == flags:
		emit(back, b)
		if b.condition != carry {
			probe.Links, probe.Bridges = 1, []bridge{back}
		}
	default:
		emit(b, back)
	}
	return probe
}

// condition returns the suffix of a setcc that reads a flag of the set.
func condition(f asm.Flags) string {
	for _, c := range []struct {
		flag   asm.Flags
		suffix string
	}{{asm.Carry, carry}, {asm.Zero, "e"}, {asm.Overflow, "o"}, {asm.Sign, "s"}, {asm.Parity, "p"}} {
		if f&c.flag != 0 {
			return c.suffix
		}
	}
	return ""
}
