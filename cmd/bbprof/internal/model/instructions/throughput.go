package instructions

import (
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
)

// mostCopies limits the instructions of a throughput block: as many as there are destinations that are not sources, and
// enough to hide a latency of a few cycles.
const mostCopies = 12

// spacing is the distance of a block's memory operands: Redwood Cove makes two loads a cycle of the same eight bytes,
// three of others; two stores a cycle only go to one line.
func spacing(width int) int { return max(8, width) }

// rotated returns operands of n instructions: each destination is another register or line; sources stay. high are more
// vector destinations.
func (p *planner) rotated(o operands, n int, high []int64) []operands {
	free := func(c class) []int64 {
		pool := slices.DeleteFunc(p.pool(c), func(v int64) bool {
			source := c == vector && v == int64(o.at.Index)
			for i, operand := range p.operands {
				oc, ok := classOf(operand)
				source = source || ok && oc == c && !operand.Write && o.values[i] == v
			}
			return source
		})
		if c == vector {
			pool = append(pool, high...)
		}
		return pool
	}
	next := map[class]int{}
	var list []operands
	for k := range n {
		t := operands{values: slices.Clone(o.values), at: o.at, mask: o.mask}
		for i, operand := range p.operands {
			c, ok := classOf(operand)
			if ok && operand.Write && operand.Fixed < 0 {
				pool := free(c)
				t.values[i] = pool[next[c]%len(pool)]
				next[c]++
			}
			if operand.Class == asm.MemoryOperand && operand.Width > 0 && !operand.Implicit {
				t.at.Disp = int32(k * spacing(operand.Width))
			}
		}
		list = append(list, t)
	}
	return list
}

// spreadCopies counts the destinations.
func (p *planner) spreadCopies() int {
	written, readOnly := map[class]int{}, map[class]int{}
	for _, operand := range p.operands {
		switch c, ok := classOf(operand); {
		case !ok || operand.Fixed >= 0:
		case operand.Write:
			written[c]++
		default:
			readOnly[c]++
		}
	}
	n := mostCopies
	for c := range written {
		n = min(n, (len(p.pool(c))-readOnly[c])/written[c])
	}
	return max(1, n)
}

// throughputs plans blocks of independent instructions. If an instruction always depends on its predecessor, a second
// block breaks that; the faster counts.
func (p *planner) throughputs() {
	high := p.high()
	list := p.rotated(p.independent(), p.spreadCopies()+len(high), high)
	p.Probes = append(p.Probes, p.parallel("", list, nil))
	if breaks, names := p.breakers(); len(breaks) > 0 {
		p.Probes = append(p.Probes, p.parallel("dependencies through "+names+" broken", list, breaks))
	}
}

// high returns more destinations for slow forms that merge into theirs.
func (p *planner) high() (list []int64) {
	if !p.Form.EVEX() || len(p.operands) == 0 {
		return nil
	}
	if first := p.operands[0]; first.Class == asm.VectorOperand && first.Read && first.Write {
		for n := int64(16); n < 28; n++ {
			list = append(list, n)
		}
	}
	return list
}

func (p *planner) parallel(note string, list []operands, breaks []int64) Probe {
	probe := Probe{Kind: Throughput, Links: len(list), Note: note, Breaks: len(breaks) > 0}
	p.setup(&probe)
	for _, t := range list {
		for _, b := range breaks {
			probe.breakDependency(b)
		}
		p.restore(&probe, t)
		probe.add(p.Form, t)
	}
	p.balance(&probe.body, len(list))
	return probe
}

// stackBytes returns how far an instruction moves the stack pointer down.
func (p *planner) stackBytes() int {
	width := 8
	if strings.Contains(p.Form.Name(), "16") {
		width = 2
	}
	switch p.Form.Mnemonic() {
	case "push", "pushf":
		return width
	case "pop", "popf":
		return -width
	}
	return 0
}

// balance restores the stack pointer after n pushes or pops.
func (p *planner) balance(code *body, n int) {
	if bytes := p.stackBytes(); bytes != 0 {
		code.namedAt("lea r64, m", asm.Address{Base: asm.RSP, Index: -1, Disp: int32(n * bytes)}, int64(asm.RSP), 0)
	}
}

// brokenFlags stands for the flags among registers.
const brokenFlags = -1

// breakers lists the registers that every instruction of the form reads and writes, and the flags.
func (p *planner) breakers() (list []int64, names string) {
	add := func(n int64, name string) {
		if !slices.Contains(list, n) {
			list, names = append(list, n), names+" and "+name
		}
	}
	for n := range int64(16) {
		if p.readImplicit.And(p.writtenImplicit).GPR>>n&1 != 0 && n != int64(asm.RSP) {
			add(n, asm.Reg(n).String())
		}
	}
	for _, o := range p.operands {
		if o.Fixed >= 0 && o.Class == asm.GPROperand && o.Write && (o.Read || o.Width < 4) {
			add(int64(o.Fixed), asm.Reg(o.Fixed).String())
		}
	}
	if p.flagsRead&p.flagsWritten != 0 {
		add(brokenFlags, "flags")
	}
	return list, strings.TrimPrefix(names, " and ")
}

// breakDependency appends an instruction that sets a register or the flags without waiting.
func (b *body) breakDependency(n int64) {
	if n == brokenFlags {
		b.named("test r64, r64", int64(baseRegister), int64(baseRegister))
	} else {
		b.named("mov r64, r64", n, other) // after a zero idiom cwde takes a cycle, not a third
	}
}
