package asm

// prefixes reads everything before the opcode's last byte, and says in which map that is.
func (d *rawInst) prefixes(r *reader) (opcodeMap int, err error) {
	var rex byte
	for {
		c := r.byte()
		if r.err != nil {
			return 0, r.err
		}
		if c&0xf0 == 0x40 { // counts only right before the opcode (Intel SDM vol. 2, 2.2.1)
			rex = c
			continue
		}
		switch c {
		case 0x66:
			d.opsize16 = true
		case 0x67:
			d.addr32 = true
		case 0xf2, 0xf3:
			d.rep = c
		case 0xf0:
			d.lock = true
		case 0x64:
			d.segment = FS
		case 0x65:
			d.segment = GS
		case 0x2e, 0x36, 0x3e, 0x26: // the segments that do nothing in 64-bit mode
		case 0xc4, 0xc5, 0x62:
			if rex != 0 || d.opsize16 || d.rep != 0 || d.lock {
				return 0, errPrefix
			}
			if c == 0x62 {
				return d.evex(r)
			}
			return d.vex(c, r)
		default:
			d.setREX(rex)
			if c != 0x0f {
				r.pos--
				return 0, nil
			}
			switch c = r.byte(); c {
			case 0x38:
				return 2, r.err
			case 0x3a:
				return 3, r.err
			}
			r.pos--
			return 1, r.err
		}
		rex = 0
	}
}

// setREX takes 0100WRXB apart (Intel SDM vol. 2, 2.2.1.2).
func (d *rawInst) setREX(rex byte) {
	d.rex = rex != 0
	d.w = rex&8 != 0
	d.r, d.x, d.b = rex>>2&1<<3, rex>>1&1<<3, rex&1<<3
}

// vex reads the rest of a two- or three-byte VEX prefix (Intel SDM vol. 2, 2.3.5):
//
//	c5  R vvvv L pp
//	c4  R X B mmmmm  W vvvv L pp
//
// R, X, B and vvvv are stored inverted.
func (d *rawInst) vex(first byte, r *reader) (opcodeMap int, err error) {
	d.enc = encVEX
	p := r.byte()
	d.r = (^p >> 7 & 1) << 3
	opcodeMap = 1
	if first == 0xc4 {
		d.x, d.b = (^p>>6&1)<<3, (^p>>5&1)<<3
		opcodeMap = int(p & 31)
		p = r.byte()
		d.w = p&0x80 != 0
	}
	d.vvvv = ^p >> 3 & 15
	d.vl = p >> 2 & 1
	d.setPP(p & 3)
	if r.err == nil && (opcodeMap == 0 || opcodeMap > 3) {
		return 0, errOpcode
	}
	return opcodeMap, r.err
}

// evex reads the three payload bytes of an EVEX prefix (Intel SDM vol. 2, 2.7.1):
//
//	R X B R' 0 mmm   W vvvv 1 pp   z L'L b V' aaa
//
// R, X, B, R', vvvv and V' are stored inverted.
func (d *rawInst) evex(r *reader) (opcodeMap int, err error) {
	d.enc = encEVEX
	p := [3]byte{r.byte(), r.byte(), r.byte()}
	if r.err != nil {
		return 0, r.err
	}
	if p[0]&8 != 0 || p[1]&4 == 0 {
		return 0, errReserved
	}
	d.r, d.x, d.b = (^p[0]>>7&1)<<3, (^p[0]>>6&1)<<3, (^p[0]>>5&1)<<3
	d.r4 = (^p[0] >> 4 & 1) << 4
	d.w = p[1]&0x80 != 0
	d.v4 = (^p[2] >> 3 & 1) << 4
	d.vvvv = ^p[1]>>3&15 | d.v4
	d.setPP(p[1] & 3)
	d.evexZ = p[2]&0x80 != 0
	d.vl = p[2] >> 5 & 3
	d.evexB = p[2]&0x10 != 0
	d.opmask = p[2] & 7
	opcodeMap = int(p[0] & 7)
	if opcodeMap == 0 || opcodeMap == 4 || opcodeMap == 7 {
		return 0, errOpcode
	}
	return opcodeMap, nil
}

// setPP takes the prefix that VEX and EVEX hold in two bits.
func (d *rawInst) setPP(pp byte) {
	d.opsize16 = pp == 1
	d.rep = [4]uint8{0, 0, 0xf3, 0xf2}[pp]
}
