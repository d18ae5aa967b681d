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

// rotated returns operands of n instructions: each destination is another register or line; sources stay. extra are
// registers of a class to use first.
func (p *planner) rotated(o operands, n int, high []int64) []operands {
	sources := map[class]map[int64]bool{}
	note := func(c class, v int64) {
		if sources[c] == nil {
			sources[c] = map[int64]bool{}
		}
		sources[c][v] = true
	}
	for i, operand := range p.operands {
		if c, ok := classOf(operand); ok && !operand.Write {
			note(c, o.values[i])
		}
	}
	if o.at.Index >= 0 {
		note(vector, int64(o.at.Index))
	}
	next := map[class]int{}
	free := func(c class) []int64 {
		pool := slices.DeleteFunc(p.pool(c), func(v int64) bool { return sources[c][v] })
		if c == vector {
			pool = append(pool, high...)
		}
		return pool
	}
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
	n := mostCopies
	for _, operand := range p.operands {
		c, ok := classOf(operand)
		if !ok || !operand.Write || operand.Fixed >= 0 {
			continue
		}
		readOnly, written := 0, 0
		for _, other := range p.operands {
			if oc, ok := classOf(other); ok && oc == c && other.Fixed < 0 {
				if other.Write {
					written++
				} else {
					readOnly++
				}
			}
		}
		n = min(n, (len(p.pool(c))-readOnly)/max(1, written))
	}
	return max(1, n)
}

// throughputs plans blocks of independent instructions. If an instruction always depends on its predecessor, a second
// block breaks that; the faster counts.
func (p *planner) throughputs() {
	o := p.independent()
	high := p.high()
	n := p.spreadCopies() + len(high)
	p.Probes = append(p.Probes, p.parallel("", p.rotated(o, n, high), nil))
	if breaks := p.breakers(); len(breaks) > 0 {
		p.Probes = append(p.Probes, p.parallel("dependencies through "+strings.Join(breaks, " and ")+" broken", p.rotated(o, n, high), breaks))
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

func (p *planner) parallel(note string, list []operands, breaks []string) Probe {
	var code body
	p.setup(&code)
	for _, t := range list {
		for _, b := range breaks {
			p.breakDependency(&code, b)
		}
		p.restore(&code, t)
		code.add(p.Form, t)
	}
	if name := p.Form.Mnemonic(); name == "push" || name == "pop" || name == "pushf" || name == "popf" {
		p.balance(&code, len(list))
	}
	return Probe{Kind: Throughput, Code: code.code, Links: len(list), Note: note, Breaks: len(breaks) > 0, err: code.err}
}

// balance restores the stack pointer after n pushes or pops.
func (p *planner) balance(code *body, n int) {
	width := 8
	if strings.Contains(p.Form.Name(), "16") {
		width = 2
	}
	disp := int32(n * width)
	if strings.HasPrefix(p.Form.Mnemonic(), "pop") {
		disp = -disp
	}
	code.namedAt("lea r64, m", asm.Address{Base: asm.RSP, Index: -1, Disp: disp}, int64(asm.RSP), 0)
}

// breakers lists what every instruction of the form reads and writes.
func (p *planner) breakers() (list []string) {
	for n := range 16 {
		if p.readImplicit&p.writtenImplicit>>n&1 != 0 && n != int(asm.RSP) {
			list = append(list, asm.Reg(n).String())
		}
	}
	for _, o := range p.operands {
		if o.Fixed >= 0 && o.Class == asm.GPROperand && o.Write && (o.Read || o.Width < 4) && !slices.Contains(list, asm.Reg(o.Fixed).String()) {
			list = append(list, asm.Reg(o.Fixed).String())
		}
	}
	if p.flagsRead&p.flagsWritten != 0 {
		list = append(list, "flags")
	}
	return list
}

// breakDependency appends an instruction that sets a value without waiting.
func (p *planner) breakDependency(code *body, what string) {
	if what == "flags" {
		code.named("test r64, r64", int64(baseRegister), int64(baseRegister))
		return
	}
	for n := range 16 {
		if asm.Reg(n).String() == what {
			code.named("mov r64, r64", int64(n), other) // after a zero idiom cwde takes a cycle, not a third
		}
	}
}
