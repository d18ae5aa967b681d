package instructions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/resources"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// SimpleForMix reports whether a mix can hold any number of the form's instructions: they overwrite their destinations,
// and read nothing that a mix writes.
func SimpleForMix(f *asm.Form) bool {
	if reason, _ := f.Refused(); reason != "" || f.X87() || f.Masked() || f.Decorated() || f.EVEX() {
		return false
	}
	read, written := f.Implicit()
	flagsRead, _ := f.Flags()
	if read.Or(written) != (asm.Values{}) || flagsRead != 0 {
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

type mixer struct {
	fixed   map[class][]int64 // registers reserved for some form
	written map[class]int
	updated map[class]int
	disp    int32
	set     initial.Set
}

// Mix makes a block of instructions that wait for nothing, each form spread over it.
func Mix(parts []resources.Copies) (b profiler.Block, err error) {
	m := &mixer{fixed: map[class][]int64{}, written: map[class]int{}, updated: map[class]int{}}
	planners := make([]*planner, len(parts))
	for i, part := range parts {
		form := asm.FormNamed(part.Form)
		if form == nil {
			return b, fmt.Errorf("no instruction form is called %q", part.Form)
		}
		p := newPlanner(form)
		switch {
		case p.Refused != "":
			return b, errors.New(p.Refused)
		case p.advances() || form.X87():
			return b, errors.New("it moves rsi, rdi or the x87 stack, by which the mix would change")
		}
		planners[i] = p
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
			code, err := m.one(planners[k])
			if err != nil {
				return b, err
			}
			insts, _ := asm.Decode(code)
			count += len(insts)
			wide = max(wide, asm.StateOf(insts).VectorBits)
			pieces = append(pieces, piece{(float64(i) + 0.5) / float64(part.N), code})
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	var code body
	for _, p := range pieces {
		code.Code = append(code.Code, p.code...)
	}
	last := len(parts) - 1
	planners[last].balance(&code, parts[last].N)
	// As for one form alone: few copies, so that the decoders do not count.
	b.Code = code.Code
	b.Setup = profiler.Setup{Set: m.set, Tolerate: []verdict.Reason{verdict.Unstable, verdict.Nonlinear}}
	if wide == 512 {
		const short, long = 480, 1440
		b.Setup.Unroll = &unroll.Factors{Short: max(4, short/count), Long: max(12, long/count)}
	}
	return b, nil
}

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
func (m *mixer) one(p *planner) ([]byte, error) {
	width := int32(8)
	for _, operand := range p.operands {
		if operand.Class == asm.MemoryOperand && operand.Index == 0 && operand.Width <= 64 {
			width = max(width, int32(operand.Width))
		}
	}
	m.disp = (m.disp + width - 1) / width * width // aligned, like the base
	o := operands{at: asm.Address{Base: baseRegister, Index: -1, Disp: m.disp}, mask: maskRegister}
	sources := map[class]int{}
	o.values = p.values(func(c class, operand asm.Operand) int64 {
		switch {
		case operand.Index > 0:
			o.at.Index = 0
			fallthrough
		case c == memory:
			if operand.Width > 0 && !operand.Implicit {
				m.disp = (m.disp + width) % 0x800
			}
			return 0
		case operand.Write && (operand.Read || c == general && operand.Width < 4 || p.mergesMask()):
			return m.next(c, mixUpdated, m.updated, p.Form.EVEX())
		case operand.Write:
			return m.next(c, mixOverwritten, m.written, false)
		}
		return m.next(c, mixSources, sources, false)
	})
	var b body
	if p.mergesMask() {
		p.renewMask(&b, o)
	}
	if divides(p.Form.Mnemonic()) {
		if err := m.divide(p, &b); err != nil {
			return nil, err
		}
		o.values[0] = divisorRegister
	}
	if p.countInCL() && len(m.set) == 0 {
		m.add("rcx=%d", shiftCount)
	}
	b.add(p.Form, o)
	return b.Code, b.err
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
	p.renewDividend(b)
	return nil
}

// Companions lists what a mix has beside one instruction of a form.
func Companions(f *asm.Form) []resources.Copies {
	p := newPlanner(f)
	switch {
	case divides(f.Mnemonic()) && p.operands[0].Width == 1:
		return []resources.Copies{{Form: "mov r64, r64", N: 1}}
	case divides(f.Mnemonic()):
		return []resources.Copies{{Form: "mov r64, r64", N: 2}}
	case p.mergesMask() && f.EVEX():
		return []resources.Copies{{Form: "kxnorw k, k, k", N: 1}}
	case p.mergesMask():
		return []resources.Copies{{Form: "vpcmpeqd ymm, ymm, ymm", N: 1}}
	case p.stackBytes() != 0:
		return []resources.Copies{{Form: "lea r64, m", N: 1}}
	}
	return nil
}
