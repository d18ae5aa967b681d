package instructions

import (
	"github.com/bbprof/bbprof/asm"
)

// divides reports whether the mnemonic is an integer division, which raises an exception for the values
// that registers start with.
func divides(name string) bool { return name == "div" || name == "idiv" }

// A dividend is what a division divides: upper and lower half, and what by.
type dividend struct {
	name               string
	high, low, divisor int64
}

// dividends are stated values by bytes of the divisor: a quotient of one bit, and one as wide as the operand.
// Those for memory divide by what every word of memory holds, 0x12345600.
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

// division plans a division of stated values, which are put into their registers before each.
func (p *planner) division() {
	o := p.independent()
	inMemory := p.operands[0].Class == asm.MemoryOperand
	o.values[0] = divisorRegister
	stated := dividends[inMemory][p.operands[0].Width]
	if len(stated) == 0 {
		p.Missing = append(p.Missing, "what memory holds ends in a zero byte, by which nothing can be divided")
	}
	for _, d := range stated {
		pairs := []string{"rax to rax", "rax to rdx", "1 to rax"}
		if p.operands[0].Width == 1 { // the quotient and the remainder are in ax
			pairs = []string{"rax to rax", "1 to rax"}
		}
		if inMemory {
			pairs = pairs[:len(pairs)-1]
		}
		for _, pair := range pairs {
			p.Probes = append(p.Probes, p.divide(d, pair, o))
		}
		code := p.dividing(d)
		code.named("mov r64, r64", divisorRegister, divisorAgain)
		const divisions = 4
		for range divisions {
			code.named("mov r64, r64", int64(asm.RAX), lowRegister)
			if p.operands[0].Width > 1 {
				code.named("mov r64, r64", int64(asm.RDX), highRegister)
			}
			code.add(p.Form, o)
		}
		p.Probes = append(p.Probes, Probe{Kind: Throughput, Code: code.code, Links: divisions, Note: d.name, Stated: true, err: code.err})
	}
}

// dividing begins a block with the values.
func (p *planner) dividing(d dividend) (code body) {
	code.named("mov r64, i64", lowRegister, d.low)
	code.named("mov r64, i64", highRegister, d.high)
	code.named("mov r64, i64", divisorAgain, d.divisor)
	return code
}

// divide is a chain by way of one source and one result. The source is cleared and its value put there again,
// a cycle each.
func (p *planner) divide(d dividend, pair string, o operands) Probe {
	probe := Probe{Pair: pair + ", " + d.name, Links: 1, Others: 2}
	code := p.dividing(d)
	again := func(register, value int64) {
		code.named("and r64, i8", register, 0)
		code.named("or r64, r64", register, value)
	}
	from, to := int64(asm.RAX), int64(asm.RAX)
	if pair == "1 to rax" {
		to = divisorRegister
		again(divisorRegister, divisorAgain)
		code.named("mov r64, r64", int64(asm.RAX), lowRegister)
	} else {
		again(int64(asm.RAX), lowRegister)
		code.named("mov r64, r64", divisorRegister, divisorAgain)
	}
	if pair == "rax to rdx" {
		from = int64(asm.RDX)
	}
	code.named("mov r64, r64", int64(asm.RDX), highRegister)
	code.add(p.Form, o)
	if from != to {
		b := newBridge(general, general, false)
		b.emit(&code, to, from)
		probe.Bridges = []bridge{b}
	}
	probe.Code, probe.err = code.code, code.err
	return probe
}

// x87Unary are those that read and write the top of the stack, which no operand shows.
var x87Unary = []string{"fabs", "fchs", "fsqrt", "fsin", "fcos", "frndint", "f2xm1", "fscale", "fprem", "fprem1"}

// x87 plans what a stack allows: a chain through the destination, and independent ones into other
// registers or, by exchanges, through the top.
func (p *planner) x87() {
	name := p.Form.Mnemonic()
	var code body
	unary := false
	for _, u := range x87Unary {
		unary = unary || name == u
	}
	o := p.independent()
	registers := len(p.operands) > 0
	for _, operand := range p.operands {
		registers = registers && operand.Class == asm.X87Operand
	}
	onTop := unary || len(p.operands) > 0 && p.operands[0].Fixed == 0 || len(p.operands) == 1 && !p.operands[0].Write
	switch {
	case unary:
		code.add(p.Form, o)
		p.Probes = append(p.Probes, Probe{Pair: "st to st", Code: code.code, Links: 1, err: code.err})
	case registers && len(p.operands) == 2 && p.operands[0].Read && p.operands[0].Write:
		p.Probes = append(p.Probes, p.chain(slot{"1", x87, 0, p.operands[0].Fixed}, slot{"1", x87, 0, p.operands[0].Fixed}))
	default:
		p.Missing = append(p.Missing, "latency: it changes the x87 stack, or has no register for its result")
	}
	list := p.rotated(o, min(6, max(1, p.spreadCopies())), nil)
	p.Probes = append(p.Probes, p.parallel("", list, nil))
	if onTop && (unary || registers) {
		var code body
		for i := range 6 {
			code.add(p.Form, o)
			code.named("fxch st(i)", int64(i+1))
		}
		p.Probes = append(p.Probes, Probe{Kind: Throughput, Code: code.code, Links: 6, Note: "an fxch after each", err: code.err})
	}
}
