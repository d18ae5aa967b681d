package asm

// OperandValues are the operands of an instruction, as Form.Encode takes them: to encode another form with the
// same registers. ok is false of what Encode does not choose: prefixes, segments, addresses without a base
// or with a vector of indices, and the registers ah to bh.
func (in *Inst) OperandValues() (values []int64, at Address, mask int, ok bool) {
	d := &in.raw
	at.Index = -1
	repeats := d.rep != 0 && d.form.prefix == anyPrefix
	if d.lock || repeats || d.addr32 || d.segment != NoSegment || d.form.vsib || in.RIPDisp > 0 {
		return nil, at, 0, false
	}
	if d.hasMem {
		base, hasBase := d.base.GPR()
		if !hasBase {
			return nil, at, 0, false
		}
		at = Address{Base: Reg(base), Index: -1, Scale: d.scale, Disp: int32(d.disp)}
		if n, indexed := d.index.GPR(); indexed {
			at.Index = n
		}
	}
	imm := 0
	for _, o := range d.form.ops {
		n := int64(d.number(o.kind))
		switch o.kind {
		case opImm, opImmS:
			n = d.imm[imm]
			imm++
		case opX, opY, opMoffs, opRel:
			return nil, at, 0, false
		case opE, opR, opG, opZ:
			if d.highByte(o) != d.number(o.kind) && !(o.kind == opE && d.hasMem) {
				return nil, at, 0, false
			}
		}
		values = append(values, n)
	}
	return values, at, int(d.opmask), true
}
