package instructions

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// advances reports whether it is a string instruction, which reads by rsi (lods, movs, cmps), reads or writes by rdi
// (the others, too), and advances these.
func (p *planner) advances() bool {
	return slices.Contains([]string{"movs", "cmps", "stos", "lods", "scas"}, p.Form.Mnemonic())
}

// moves sets where movs writes: for throughput, beyond what the next 128 read; through memory, what the next one reads.
func (p *planner) moves() {
	const apart = 128
	width := p.operands[0].Width
	s, _ := initial.Named("distinct")
	chain := Probe{Kind: StoreToLoad, Pair: "2 to 1", body: p.Probes[0].body, Links: p.Probes[0].Links}
	p.Probes[0].set("rdi=%#x", s.GPR[asm.RSI]+uint64(apart*width))
	chain.set("rdi=%#x", s.GPR[asm.RSI]+uint64(width))
	p.Probes = append(p.Probes, chain)
}

// openMasks lets vmaskmovps and the like access all elements. With a zero mask no page is mapped, and each instruction
// takes 260 cycles.
func (p *planner) openMasks() {
	name := p.Form.Mnemonic()
	if !strings.HasPrefix(name, "vmaskmovp") && !strings.HasPrefix(name, "vpmaskmov") {
		return
	}
	mask := p.independent().values[1]
	for i := range p.Probes {
		p.hold(&p.Probes[i], map[int64]uint64{mask: math.MaxUint64}, nil, 0)
	}
}

// divides reports an integer division, which faults on the initial register values.
func divides(name string) bool { return name == "div" || name == "idiv" }

// A dividend has an upper and lower half, and a divisor.
type dividend struct {
	name               string
	high, low, divisor int64
}

// dividends are values by bytes of the divisor: one quotient of one bit, and one as wide as the operand. Those for
// memory divide by the content of every word, 0x12345600.
var dividends = map[bool]map[int][]dividend{
	false: {
		1: {{"small quotient", 0, 1, 1}, {"large quotient", 0, 0x3f01, 0x7f}},
		2: {{"small quotient", 0, 1, 1}, {"large quotient", 0x1ffe, 0x7001, 0x4001}},
		4: {{"small quotient", 0, 1, 1}, {"large quotient", 0x1fff_fffe, 0x7000_0001, 0x4000_0001}},
		8: {{"small quotient", 0, 1, 1}, {"large quotient", 0x1fff_ffff_ffff_fffe, 0x7000_0001, 0x4000_0000_0000_0001}},
	},
	true: {
		2: {{"small quotient", 0, 0x5601, 0}, {"large quotient", 0x2000, 1, 0}},
		4: {{"small quotient", 0, 0x12345601, 0}, {"large quotient", 0x0800_0000, 1, 0}},
		8: {{"small quotient", 0, 0x12345601, 0}, {"large quotient", 0x0800_0000, 1, 0}},
	},
}

// Registers of a division's values.
const (
	divisorRegister = int64(asm.RBX)
	lowRegister     = int64(asm.R8)
	highRegister    = int64(asm.R9)
	divisorAgain    = int64(asm.R10)
)

// division plans a division of stated values, which are set before each.
func (p *planner) division() {
	o := p.independent()
	inMemory := p.operands[0].Class == asm.MemoryOperand
	o.values[0] = divisorRegister
	stated := dividends[inMemory][p.operands[0].Width]
	if len(stated) == 0 {
		p.Missing = append(p.Missing, "what memory holds ends in a zero byte, by which nothing can be divided")
	}
	pairs := []string{"rax to rax", "rax to rdx", "1 to rax"}
	if p.operands[0].Width == 1 { // ax holds quotient and remainder
		pairs = []string{"rax to rax", "1 to rax"}
	}
	if inMemory {
		pairs = pairs[:len(pairs)-1]
	}
	for _, d := range stated {
		for _, pair := range pairs {
			p.Probes = append(p.Probes, p.divide(d, pair, o))
		}
		const divisions = 4
		probe := Probe{Kind: Throughput, Links: divisions, Note: d.name, Stated: true}
		d.state(&probe)
		probe.named("mov r64, r64", divisorRegister, divisorAgain)
		for range divisions {
			p.renewDividend(&probe.body)
			probe.add(p.Form, o)
		}
		p.Probes = append(p.Probes, probe)
	}
}

// state starts a block with the values.
func (d *dividend) state(probe *Probe) {
	probe.named("mov r64, i64", lowRegister, d.low)
	probe.named("mov r64, i64", highRegister, d.high)
	probe.named("mov r64, i64", divisorAgain, d.divisor)
}

// renewDividend sets the dividend, which the quotient overwrites.
func (p *planner) renewDividend(code *body) {
	code.named("mov r64, r64", int64(asm.RAX), lowRegister)
	if p.operands[0].Width > 1 {
		code.named("mov r64, r64", int64(asm.RDX), highRegister)
	}
}

// divide makes a chain through one source and one result. The source is cleared and set again, a cycle each.
func (p *planner) divide(d dividend, pair string, o operands) Probe {
	probe := Probe{Pair: pair + ", " + d.name, Links: 1, Others: 2}
	d.state(&probe)
	from, to := int64(asm.RAX), int64(asm.RAX)
	if pair == "1 to rax" {
		to = divisorRegister
		probe.putBack(divisorRegister, divisorAgain)
		probe.named("mov r64, r64", int64(asm.RAX), lowRegister)
	} else {
		probe.putBack(int64(asm.RAX), lowRegister)
		probe.named("mov r64, r64", divisorRegister, divisorAgain)
	}
	if pair == "rax to rdx" {
		from = int64(asm.RDX)
	}
	probe.named("mov r64, r64", int64(asm.RDX), highRegister)
	probe.add(p.Form, o)
	if from != to {
		p.cross(&probe, general, general, from, to)
	}
	return probe
}

// floatNumbers have all fraction bits in use, as every element of eight bytes.
type floatNumbers struct{ dividend, divisor, nearOne, belowOne uint64 }

// floatValues are values for divisions and square roots by element size: 4/3, 8/5 and 65/64 or so, and the largest
// number below 1, which is its own root. The other value is 0, the initial one.
var floatValues = map[byte]floatNumbers{
	'h': {0x3d553d553d553d55, 0x3e663e663e663e66, 0x3c113c113c113c11, 0x3bff3bff3bff3bff},
	's': {0x3faaaaab3faaaaab, 0x3fcccccd3fcccccd, 0x3f8199993f819999, 0x3f7fffff3f7fffff},
	'd': {0x3ff5555555555555, 0x3ff999999999999a, 0x3ff0333333333333, 0x3fefffffffffffff},
}

// dividesFloats reports a floating-point division or square root in registers.
func (p *planner) dividesFloats() bool {
	name := strings.TrimPrefix(p.Form.Mnemonic(), "v")
	for _, o := range p.operands {
		if o.Class != asm.VectorOperand {
			return false
		}
	}
	return strings.HasPrefix(name, "div") || strings.HasPrefix(name, "sqrt")
}

// floats plans them with zeros, like any form, and with numbers that take longer on some processors.
func (p *planner) floats() {
	p.latencies()
	for i := range p.Probes {
		p.Probes[i].Pair += ", of zeros"
	}
	o := p.independent()
	last := len(p.operands) - 1
	list := p.rotated(o, p.spreadCopies(), nil)
	divided := map[int64]bool{o.values[max(0, last-1)]: true}
	for _, t := range list {
		divided[t.values[0]] = true
	}
	long, zeros := p.parallel("of "+longFractions, list, nil), p.parallel("of zeros", list, nil)
	long.Stated, zeros.Stated = true, true
	numbers := p.numbers()
	p.hold(&long, map[int64]uint64{o.values[last]: numbers.nearOne}, divided, numbers.dividend)
	p.Probes = append(p.Probes, long, p.floatChain(o), zeros)
}

const longFractions = "numbers with long fractions"

// floatChain makes a chain of numbers with long fractions: roots of a number that is its own root; quotients of a number
// and the last quotient, which alternate; or, if the dividend is the destination, quotients by nearOne, which stay
// normal for over 5,600 divisions.
func (p *planner) floatChain(o operands) Probe {
	numbers := p.numbers()
	last := len(p.operands) - 1
	chain := p.first(slot{class: vector, fixed: -1})
	hold := map[int64]uint64{chain: numbers.dividend, o.values[last]: numbers.nearOne}
	at := last
	switch {
	case !strings.Contains(p.Form.Mnemonic(), "div"):
		hold[chain] = numbers.belowOne
	case last == 1:
		at = 0
	default:
		hold[o.values[1]] = numbers.divisor
	}
	o.values[0], o.values[at] = chain, chain
	probe := Probe{Pair: fmt.Sprintf("%d to 1, of %s", at+1, longFractions), Links: 1}
	probe.add(p.Form, o)
	p.hold(&probe, hold, nil, 0)
	return probe
}

// numbers returns those for the form's element size, its mnemonic's ending.
func (p *planner) numbers() floatNumbers {
	name := p.Form.Mnemonic()
	return floatValues[name[len(name)-1]]
}

// hold sets every element of registers: some to their own number, others to the same.
func (p *planner) hold(probe *Probe, own map[int64]uint64, others map[int64]bool, same uint64) {
	kind, words := "xmm", 2
	switch {
	case p.Form.EVEX():
		kind, words = "zmm", 8
	case p.Form.VEX():
		kind, words = "ymm", 4
	}
	for register := range others {
		if _, has := own[register]; !has {
			own[register] = same
		}
	}
	var list []string
	for register, value := range own {
		list = append(list, fmt.Sprintf("%s%d=0x%s", kind, register, strings.Repeat(fmt.Sprintf("%016x", value), words)))
	}
	slices.Sort(list)
	probe.set("%s", strings.Join(list, ","))
}

// x87Unary implicitly read and write the top of the stack.
var x87Unary = []string{"fabs", "fchs", "fsqrt", "fsin", "fcos", "frndint", "f2xm1", "fscale", "fprem", "fprem1"}

// x87 plans what a stack allows: a chain through the destination, and independent ones into other registers or, by
// exchanges, through the top.
func (p *planner) x87() {
	name := p.Form.Mnemonic()
	unary := slices.Contains(x87Unary, name)
	o := p.independent()
	registers := len(p.operands) > 0 && !slices.ContainsFunc(p.operands, func(o asm.Operand) bool { return o.Class != asm.X87Operand })
	chain := Probe{Pair: "1 to 1", Links: 1}
	switch {
	case unary:
		chain.Pair = "st to st"
		fallthrough
	case registers && len(p.operands) == 2 && p.deepens(o) == 0 && !strings.Contains(name, "com") && !strings.HasPrefix(name, "fcmov"):
		chain.add(p.Form, o)
		p.Probes = append(p.Probes, chain)
	default:
		p.Missing = append(p.Missing, "latency: it changes the x87 stack, or has no register for its result")
	}
	list := p.rotated(o, min(6, p.spreadCopies()), nil)
	if registers && len(p.operands) == 2 && p.operands[0].Fixed < 0 { // written, though no table says so
		for i := range list {
			list[i].values[0] = pools[x87][i]
		}
	}
	p.Probes = append(p.Probes, p.stacked(list))
	onTop := unary || len(p.operands) > 0 && p.operands[0].Fixed == 0 || len(p.operands) == 1 && !p.operands[0].Write
	if onTop && p.deepens(o) == 0 {
		probe := Probe{Kind: Throughput, Links: 6, Note: "an fxch after each"}
		for i := range probe.Links {
			probe.add(p.Form, o)
			probe.named("fxch st(i)", int64(i+1))
		}
		p.Probes = append(p.Probes, probe)
	}
}

// deepens returns how far an instruction deepens the x87 stack.
func (p *planner) deepens(o operands) (net int) {
	code, _ := p.Form.Encode(o.values, o.at, o.mask)
	if insts, err := asm.Decode(code); err == nil {
		_, net, _ = asm.X87Stack(insts)
	}
	return net
}

// stacked keeps the stack as deep as it was around each instruction: fldz before, or fld1, which takes longer, if 0
// would be an exception; fstp st(0) after.
func (p *planner) stacked(list []operands) Probe {
	net := p.deepens(list[0])
	push := "fldz"
	if name := p.Form.Mnemonic(); strings.HasPrefix(name, "fdiv") || name == "fyl2x" {
		push = "fld1"
	}
	probe := Probe{Kind: Throughput, Links: len(list)}
	for _, t := range list {
		for range -net {
			probe.named(push)
		}
		probe.add(p.Form, t)
		for range net {
			probe.named("fstp st(i)", 0)
		}
	}
	if net < 0 {
		probe.Note = "with " + push + " before each"
	} else if net > 0 {
		probe.Note = "with fstp st(0) after each"
	}
	return probe
}
