package asm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The instruction tables are text, close to the opcode maps of Intel SDM vol. 2 appendix A and of AMD APM vol. 3
// appendix A, so that a line can be compared with the manual's:
//
//	opcode [prefix] [encodings] mnemonic operands [attributes …]
//
// The opcode is its last byte, in hexadecimal, and may be followed by
//
//	/n   ModRM.reg is n
//	=hh  the ModRM byte is hh
//	+    the low three bits are a register
//	:n   stride: of the mnemonics a|b|c the second has an opcode n higher, and so on
//
// Several opcodes of one kind are separated by commas, and so are their mnemonics. For a|b|c the stride is 1; after /n
// or =hh that number counts up, and _ leaves one out. Mnemonics a/b/c are those of 16, 32
// and 64 bits operand size, a~b those of W 0 and W 1.
//
// The prefix is np (neither 66, f2 nor f3), 66, f3, f2 or nf (neither f2 nor f3); without one, none tells instructions apart.
//
// Encodings are some of S (legacy), N (the MMX form of a 66 instruction: no prefix, and MMX registers for V, W and
// U), V (VEX) and E (EVEX), each with 0 or 1 if W is fixed and with the vector lengths that are allowed (.0 is 128
// bits, .12 is 256 or 512) if not all are; S if there are none. A line with S or N names the legacy mnemonic, which
// VEX and EVEX prefix with v; the legacy form has no H operand, and reads its first operand as well as writing it.
//
// Operands are separated by commas, each a letter (see operandKinds) and a size (see sizes). The first is written and
// the others read unless + (both), - (read) or > (written) says otherwise.
//
// Attributes: fp (may raise an SSE exception flag), aligned (to the width of its memory, in any encoding), unaligned (though
// legacy SSE), a16 (aligned to 16 bytes), agen (an address, not accessed), er and sae (EVEX.b in the register form), b4
// (broadcasts elements of 4 bytes; bw: of 4 or 8, by W), bignored (EVEX.b does nothing in the register form), nomask (no
// opmask), distinct (the destination must not be a source), n4 (disp8 counts in 4 bytes), cachectl (moves lines into or out of
// the caches beside what it accesses), x87, mmx, vec (uses that state without an operand that shows it), norexb, reg (mod is
// 3), push, pop, xlat and so on (implicitMem), implicit registers (<rax read, >xmm0 written, +rcx both; xmms are xmm0 to
// xmm15), and !ring0 and its like: must not run, for that of the refusals. A mnemonic may have one of its own: cli!ring0.
type table struct {
	forms [numEncodings][8][256][]*form
	errs  []error
}

// each calls visit with every form once, at its first opcode.
func (t *table) each(visit func(enc encoding, opcodeMap, opcode int, f *form)) {
	seen := map[*form]bool{}
	for enc := range t.forms {
		for opcodeMap := range t.forms[enc] {
			for opcode, forms := range t.forms[enc][opcodeMap] {
				for _, f := range forms {
					if !seen[f] {
						seen[f] = true
						visit(encoding(enc), opcodeMap, opcode, f)
					}
				}
			}
		}
	}
}

// tables are the parsed tables. A test checks that they hold no error.
var tables = sync.OnceValue(buildTables)

func buildTables() *table {
	t := new(table)
	t.parse(0, tableOneByte)
	t.parse(1, table0F)
	t.parse(2, table0F38)
	t.parse(3, table0F3A)
	t.parse(0, tableX87)
	t.parse(1, tableVector0F)
	t.parse(2, tableVector0F38)
	t.parse(3, tableVector0F3A)
	t.parse(3, tableFP16Map3)
	t.parse(5, tableFP16Map5)
	t.parse(6, tableFP16Map6)
	return t
}

func (t *table) parse(opcodeMap int, text string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if err := t.parseLine(opcodeMap, fields); err != nil {
			t.errs = append(t.errs, fmt.Errorf("%q: %w", strings.TrimSpace(line), err))
		}
	}
}

func (t *table) parseLine(opcodeMap int, fields []string) error {
	opcodes := strings.Split(fields[0], ",")
	fields = fields[1:]
	f := form{w: -1, mod: modAny}
	if len(fields) > 0 {
		if p, ok := prefixNames[fields[0]]; ok {
			f.prefix, fields = p, fields[1:]
		}
	}
	encodings := "S"
	if len(fields) > 0 && strings.ContainsRune("NSVE", rune(fields[0][0])) {
		encodings, fields = fields[0], fields[1:]
	}
	if len(fields) < 2 {
		return fmt.Errorf("no mnemonic and operands")
	}
	var err error
	if f.ops, err = parseOperands(fields[1]); err != nil {
		return err
	}
	for _, a := range fields[2:] {
		if err := f.attribute(a); err != nil {
			return err
		}
	}
	names := strings.Split(fields[0], ",")
	if len(names) != len(opcodes) {
		return fmt.Errorf("%d opcodes of %d instructions", len(opcodes), len(names))
	}
	for i, opcode := range opcodes {
		op, err := parseOpcode(opcode)
		if err != nil {
			return err
		}
		f.digit, f.modrm = op.digit, op.modrm
		if err := t.addNames(opcodeMap, op, f, names[i], encodings); err != nil {
			return err
		}
	}
	return nil
}

// addNames files the instructions a|b|c from one opcode on.
func (t *table) addNames(opcodeMap int, op opcodeSpec, f form, names, encodings string) error {
	for i, name := range strings.Split(names, "|") {
		if name == "_" {
			continue
		}
		g, code := f, op.code
		switch {
		case op.modrm >= 0:
			g.modrm += int16(i)
		case op.digit >= 0:
			g.digit += int8(i)
		default:
			code += i * op.stride
		}
		name, refused, ok := strings.Cut(name, "!")
		if ok {
			if err := g.attribute("!" + refused); err != nil {
				return err
			}
		}
		byW := strings.Split(name, "~")
		for w, name := range byW {
			g.name = name
			if f.broadcast == broadcastByW {
				g.broadcast = 4 << w
			}
			for enc := range strings.SplitSeq(encodings, ",") {
				if len(byW) > 1 {
					enc = enc[:1] + strconv.Itoa(w) + enc[1:]
				}
				if err := t.add(opcodeMap, code, op.spread, g, enc, encodings); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add files one encoding of one line's instruction.
func (t *table) add(opcodeMap, code, spread int, f form, enc, all string) error {
	kind := enc[0]
	wl, lengths, _ := strings.Cut(enc[1:], ".")
	if wl != "" {
		w, err := strconv.Atoi(wl)
		if err != nil || w > 1 {
			return fmt.Errorf("encoding %q", enc)
		}
		f.w = int8(w)
	}
	for _, l := range cmp.Or(lengths, "012") {
		f.lengths |= 1 << (l - '0')
	}
	class := map[byte]encoding{'N': encLegacy, 'S': encLegacy, 'V': encVEX, 'E': encEVEX}[kind]
	if (kind == 'V' || kind == 'E') && strings.ContainsAny(all, "SN") {
		f.name = "v" + f.name
	}
	if strings.Contains(f.name, "/") {
		f.byWidth = strings.Split(f.name, "/")
		if len(f.byWidth) != 3 {
			return fmt.Errorf("%d names by width", len(f.byWidth))
		}
	}
	switch kind {
	case 'N':
		if f.prefix != prefix66 {
			return fmt.Errorf("the MMX form of an instruction without 66")
		}
		f.prefix = noPrefix
		f.ops = mmxOperands(legacyOperands(f.ops))
	case 'S':
		f.ops = legacyOperands(f.ops)
	}
	f.isX87 = f.isX87 || opcodeMap == 0 && code&^7 == 0xd8
	f.finish()
	for i := range spread {
		t.forms[class][opcodeMap][code+i] = append(t.forms[class][opcodeMap][code+i], &f)
	}
	return nil
}

// finish derives what follows from the operands.
func (f *form) finish() {
	f.hasModRM = f.digit >= 0 || f.modrm >= 0
	for _, o := range f.ops {
		k := o.kind
		f.hasModRM = f.hasModRM || k.field == inReg || k.field == inRM || k.memory
		switch {
		case o.kind == opCR || o.kind == opDR:
			f.mod = modIgnored
		case o.kind == opM || o.kind == opVSIB:
			f.mod = modMem
		case k.field == inRM && !k.memory && f.mod == modAny:
			f.mod = modReg
		}
		f.usesVVVV = f.usesVVVV || k.field == inVVVV
		f.vsib = f.vsib || o.kind == opVSIB
		f.isMMX = f.isMMX || k.class == MMXOperand
		f.isVec = f.isVec || k.class == VectorOperand || f.vsib
	}
	switch f.implicit {
	case implicitPush, implicitPop:
		f.reads.GPR |= 1 << numSP
		f.writes.GPR |= 1 << numSP
	case implicitLeave:
		f.reads.GPR |= 1 << numBP
	}
	f.bitOffset = strings.HasPrefix(f.name, "bt") && len(f.ops) == 2 && f.ops[1].kind == opG
	f.maskedByVector = strings.HasPrefix(f.name, "vmaskmovp") || strings.HasPrefix(f.name, "vpmaskmov")
}

// legacyOperands leaves out the operand that only VEX.vvvv can hold: the first is then source and destination.
func legacyOperands(ops []operand) []operand {
	out := slices.DeleteFunc(slices.Clone(ops), func(o operand) bool { return o.kind == opH })
	if len(out) < len(ops) && (out[0].access == accWrite || ops[0].kind == opH) {
		out[0].access = accBoth
	}
	return out
}

// mmxOperands turns the operands of an SSE instruction into those of its MMX original.
func mmxOperands(ops []operand) []operand {
	kinds := map[*operandKind]*operandKind{opV: opP, opW: opQ, opU: opN}
	for i, o := range ops {
		if k, ok := kinds[o.kind]; ok {
			ops[i].kind, ops[i].size = k, 8
		}
	}
	return ops
}
