package instructions

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// Copies is a number of instructions of a form in a mix.
type Copies struct {
	Form *asm.Form
	N    int
}

// Companion is a number of other instructions that a mix needs for one of a form.
type Companion struct {
	Form string
	N    float64
}

// SimpleForMix reports whether a mix can hold any number of the form's instructions: they overwrite their destinations,
// and read nothing that a mix writes.
func SimpleForMix(f *asm.Form) bool {
	if reason, _ := f.Refused(); reason != "" || f.X87() || f.Masking() != asm.Unmasked || f.Decorated() || f.EVEX() {
		return false
	}
	read, written := f.Implicit()
	flagsRead, _ := f.Flags()
	if read|written != 0 || flagsRead != 0 {
		return false
	}
	moves := slices.Contains([]string{"mov", "vmovups", "vmovdqu"}, f.Mnemonic())
	for _, o := range f.Operands() {
		switch {
		case o.Class == asm.MemoryOperand && o.Width > 0 && !moves, // two operations, which would hide each other
			o.Class == asm.ImmediateOperand && o.Width > 1: // may take more of the op cache
			return false
		}
		if o.Class == asm.VectorOperand && !f.VEX() { // some cores merge legacy destinations
			return false
		}
		plain := o.Class == asm.GPROperand && o.Width == 8 || o.Class == asm.VectorOperand && o.Width == 16 ||
			o.Class == asm.MemoryOperand && (o.Width == 8 || o.Width == 16) && !o.Implicit && o.Index == 0 || o.Class == asm.ImmediateOperand
		if !plain || o.Fixed >= 0 || o.Read && o.Write {
			return false
		}
	}
	return len(f.Operands()) > 0
}

// Registers of mixes. Overwritten destinations need few, since cores rename them; what is read and written needs one per
// instruction, so that none waits.
var (
	mixSources     = map[class][]int64{general: {int64(asm.RSI), other, int64(movedAddress)}, vector: {1, 2, 3}, mmx: {0, 1}, opmask: {2, 3}}
	mixOverwritten = map[class][]int64{general: {15, 13, 12}, vector: {15, 14, 13}, mmx: {2, 3}, opmask: {4, 5}}
	mixUpdated     = map[class][]int64{general: {3, 8, 9, 10, 11, 5, 1, 2, 0}, vector: {4, 5, 6, 7, 8, 9, 10, 11, 12}, mmx: {4, 5, 6, 7}, opmask: {6, 7}}
)

// mixer chooses the operands of a mix.
type mixer struct {
	fixed   map[class][]int64 // registers reserved for some form
	written map[class]int
	updated map[class]int
	disp    int32
	set     initial.Set
}

// Mix makes a block of instructions that wait for nothing, each form spread over it. beside are the additions needed for
// one instruction of the last part.
func Mix(parts []Copies) (b profiler.Block, beside []Companion, err error) {
	m := &mixer{fixed: map[class][]int64{}, written: map[class]int{}, updated: map[class]int{}}
	var planners []*planner
	for _, part := range parts {
		p := &planner{Plan: Plan{Name: part.Form.Name(), Form: part.Form}, operands: part.Form.Operands()}
		if reason, why := part.Form.Refused(); reason != "" {
			return b, nil, fmt.Errorf("%s: %s", reason, why)
		}
		p.flagsRead, p.flagsWritten = part.Form.Flags()
		p.readImplicit, p.writtenImplicit = part.Form.Implicit()
		if p.advances() || part.Form.X87() {
			return b, nil, errors.New("it moves rsi, rdi or the x87 stack, by which the mix would change")
		}
		planners = append(planners, p)
		m.reserve(p)
	}
	type piece struct {
		at   float64
		code []byte
	}
	var pieces []piece
	count, wide := 0, 0
	for k, part := range parts {
		for i := range part.N {
			code, n, err := m.one(planners[k])
			if err != nil {
				return b, nil, err
			}
			count += n
			pieces = append(pieces, piece{(float64(i) + 0.5) / float64(part.N), code})
			insts, _ := asm.Decode(code)
			wide = max(wide, asm.StateOf(insts).VectorBits)
		}
	}
	sort.SliceStable(pieces, func(i, j int) bool { return pieces[i].at < pieces[j].at })
	for _, p := range pieces {
		b.Code = append(b.Code, p.code...)
	}
	last := planners[len(planners)-1]
	beside = last.companions()
	if stack := last.stackBytes(); stack != 0 {
		var code body
		last.balance(&code, parts[len(parts)-1].N)
		b.Code = append(b.Code, code.code...)
		beside = append(beside, Companion{"lea r64, m", 1 / float64(parts[len(parts)-1].N)})
	}
	// As for one form alone: few copies, so that the decoders do not count.
	b.Setup = profiler.Setup{Set: m.set, FewCopies: true, Tolerate: []verdict.Reason{verdict.Unstable, verdict.Nonlinear}}
	if wide == 512 {
		const short, long = 480, 1440
		b.Setup.Unroll = &unroll.Factors{Short: max(4, short/count), Long: max(12, long/count)}
	}
	return b, beside, nil
}

// reserve reserves a form's fixed registers.
func (m *mixer) reserve(p *planner) {
	for n := range int64(16) {
		if p.taken(general, n) {
			m.fixed[general] = append(m.fixed[general], n)
		}
	}
	if p.taken(vector, 0) {
		m.fixed[vector] = append(m.fixed[vector], 0)
	}
	if divides(p.Form.Mnemonic()) {
		m.fixed[general] = append(m.fixed[general], divisorRegister, lowRegister, highRegister)
	}
}

func (m *mixer) next(c class, pool map[class][]int64, used map[class]int, evex bool) int64 {
	list := slices.DeleteFunc(slices.Clone(pool[c]), func(n int64) bool { return slices.Contains(m.fixed[c], n) })
	if evex && c == vector {
		for n := int64(16); n < 32; n++ {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return 0
	}
	n := list[used[c]%len(list)]
	used[c]++
	return n
}

// one adds an instruction and what must precede it.
func (m *mixer) one(p *planner) (code []byte, instructions int, err error) {
	width := int32(8)
	for _, operand := range p.operands {
		if operand.Class == asm.MemoryOperand && operand.Index == 0 && operand.Width <= 64 {
			width = max(width, int32(operand.Width))
		}
	}
	m.disp = (m.disp + width - 1) / width * width // aligned, like the base
	o := operands{values: make([]int64, len(p.operands)), at: asm.Address{Base: baseRegister, Index: -1, Disp: m.disp}, mask: maskRegister}
	sources := map[class]int{}
	for i, operand := range p.operands {
		c, isRegister := classOf(operand)
		switch {
		case operand.Fixed >= 0:
			o.values[i] = int64(operand.Fixed)
		case isRegister && operand.Write && (operand.Read || c == general && operand.Width < 4 || p.mergesMask()):
			o.values[i] = m.next(c, mixUpdated, m.updated, p.Form.EVEX())
		case isRegister && operand.Write:
			o.values[i] = m.next(c, mixOverwritten, m.written, false)
		case isRegister:
			o.values[i] = m.next(c, mixSources, sources, false)
		case operand.Class == asm.ImmediateOperand:
			o.values[i] = p.immediate(operand)
		case operand.Class == asm.OtherOperand:
			o.values[i] = 3
		}
		if operand.Index > 0 {
			o.at.Index = 0
		}
		if operand.Class == asm.MemoryOperand && operand.Width > 0 && !operand.Implicit {
			m.disp = (m.disp + width) % 0x800
		}
	}
	var b body
	if p.mergesMask() {
		p.renewMask(&b, o)
	}
	if divides(p.Form.Mnemonic()) {
		if err := m.divide(p, &b); err != nil {
			return nil, 0, err
		}
		o.values[0] = divisorRegister
	}
	if p.countInCL() && len(m.set) == 0 {
		m.add("rcx=%d", shiftCount)
	}
	b.add(p.Form, o)
	insts, _ := asm.Decode(b.code)
	return b.code, len(insts), b.err
}

func (m *mixer) add(format string, values ...any) error {
	set, err := initial.ParseSet(fmt.Sprintf(format, values...))
	m.set = append(m.set, set...)
	return err
}

// divide restores the dividend before a division by a register.
func (m *mixer) divide(p *planner, b *body) error {
	stated := dividends[p.operands[0].Class == asm.MemoryOperand][p.operands[0].Width]
	if len(stated) == 0 || p.operands[0].Class == asm.MemoryOperand {
		return errors.New("what memory holds divides nothing")
	}
	d := stated[len(stated)-1]
	if len(m.set) == 0 {
		if err := m.add("rbx=%#x,r8=%#x,r9=%#x", uint64(d.divisor), uint64(d.low), uint64(d.high)); err != nil {
			return err
		}
	}
	b.named("mov r64, r64", int64(asm.RAX), lowRegister)
	if p.operands[0].Width > 1 {
		b.named("mov r64, r64", int64(asm.RDX), highRegister)
	}
	return nil
}

// companions lists what one puts before an instruction.
func (p *planner) companions() []Companion {
	switch {
	case divides(p.Form.Mnemonic()) && p.operands[0].Width == 1:
		return []Companion{{"mov r64, r64", 1}}
	case divides(p.Form.Mnemonic()):
		return []Companion{{"mov r64, r64", 2}}
	case p.mergesMask() && p.Form.EVEX():
		return []Companion{{"kxnorw k, k, k", 1}}
	case p.mergesMask():
		return []Companion{{"vpcmpeqd ymm, ymm, ymm", 1}}
	}
	return nil
}

// stackBytes returns how far an instruction moves the stack pointer, which must be restored.
func (p *planner) stackBytes() int {
	switch name := p.Form.Mnemonic(); {
	case strings.HasPrefix(name, "push"), strings.HasPrefix(name, "pop") && name != "popcnt":
		return 8
	}
	return 0
}
