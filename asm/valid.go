package asm

// check rejects what raises #UD whatever the processor (Intel SDM vol. 2, 2.4 to 2.7.11).
func (d *rawInst) check() error {
	f := d.form
	if d.enc == encLegacy {
		for _, o := range f.ops {
			if o.kind == opSeg && d.modrm>>3&7 > 5 { // there are six
				return errReserved
			}
		}
		return nil
	}
	if !f.usesVVVV && d.vvvv&15 != 0 {
		return errReserved
	}
	if d.enc == encEVEX && !d.evexValid() {
		return errReserved
	}
	if f.distinct && d.overlaps() {
		return errOverlap
	}
	for _, o := range f.ops {
		k := o.kind
		if k.field == inReg && int(d.r|d.r4) >= k.registers || k.field == inVVVV && int(d.vvvv) >= k.registers ||
			o.kind == opTile && d.hasMem && d.modrm&7 != 4 { // rows at a stride: SIB is a must
			return errReserved
		}
	}
	return nil
}

// overlaps reports whether the destination of an instruction that forbids it is one of its sources: gathers (SDM vol.
// 2, VGATHERDPS) and complex products (VFMULCPH).
func (d *rawInst) overlaps() bool {
	dst := d.number(opV)
	if d.form.vsib {
		index, _ := d.index.Vector()
		mask := int(d.vvvv)
		return dst == index || d.enc == encVEX && (mask == dst || mask == index)
	}
	return dst == d.number(opH) || !d.hasMem && dst == d.number(opW)
}

// evexValid checks the last payload byte (Intel SDM vol. 2, 2.7.11).
func (d *rawInst) evexValid() bool {
	f := d.form
	if d.v4 != 0 && !f.usesVVVV && !f.vsib {
		return false
	}
	if d.evexB && d.hasMem && f.broadcast == 0 || d.evexB && !d.hasMem && !f.rounds() && !f.bIgnored {
		return false
	}
	switch {
	case d.opmask != 0 && f.noMask:
		return false
	case f.vsib && d.opmask == 0: // k0 would enable all, and there would be no end to record
		return false
	case d.evexZ && (d.opmask == 0 || f.vsib):
		return false
	case d.evexZ: // zeroing is for vector registers
		k := f.ops[0].kind
		return k == opV || k == opH || k == opW && !d.hasMem
	}
	return true
}
