package asm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var prefixNames = map[string]mandatory{
	"np": noPrefix, "66": prefix66, "f3": prefixF3, "f2": prefixF2, "nf": noRepeat,
}

type opcodeSpec struct {
	code, spread, stride int
	digit                int8
	modrm                int16
}

func parseOpcode(s string) (opcodeSpec, error) {
	op := opcodeSpec{spread: 1, stride: 1, digit: -1, modrm: -1}
	code, rest := s[:min(2, len(s))], s[min(2, len(s)):]
	n, err := strconv.ParseUint(code, 16, 8)
	if err != nil {
		return op, err
	}
	op.code = int(n)
	if rest == "" {
		return op, nil
	}
	switch mark, arg := rest[0], rest[1:]; mark {
	case '+':
		op.spread, op.stride = 8, 8
	case '/':
		n, err = strconv.ParseUint(arg, 10, 3)
		op.digit = int8(n)
	case '=':
		n, err = strconv.ParseUint(arg, 16, 8)
		op.modrm = int16(n)
	case ':':
		op.stride, err = strconv.Atoi(arg)
	default:
		err = fmt.Errorf("opcode %q", s)
	}
	return op, err
}

// sizes are the operand sizes by letter; a number is a size in bytes.
var sizes = map[string]operandSize{
	"b": 1, "w": 2, "d": 4, "q": 8, "t": 10,
	"v": sizeV, "z": sizeZ, "y": sizeY, "u": sizeU, "p": sizeP,
	"x": sizeX, "h": sizeH, "f": sizeF, "e": sizeE,
	"env": sizeEnv, "fpu": sizeFPU,
}

func parseOperands(s string) ([]operand, error) {
	if s == "-" {
		return nil, nil
	}
	var ops []operand
	for i, field := range strings.Split(s, ",") {
		o := operand{access: accRead}
		if i == 0 {
			o.access = accWrite
		}
		switch field[0] {
		case '+':
			o.access, field = accBoth, field[1:]
		case '-':
			o.access, field = accRead, field[1:]
		case '>':
			o.access, field = accWrite, field[1:]
		}
		if err := o.parse(field); err != nil {
			return nil, err
		}
		ops = append(ops, o)
	}
	return ops, nil
}

func (o *operand) parse(s string) error {
	if idx, ok := strings.CutPrefix(s, "vsib"); ok && len(idx) == 2 {
		o.kind, o.index, o.size = opVSIB, uint8(sizes[idx[:1]]), sizes[idx[1:]]
		return nil
	}
	for _, k := range operandKinds {
		letters, ok := strings.CutPrefix(s, k.letters)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(letters)
		size, known := sizes[letters]
		switch {
		case err == nil && n > 0 && n < int(sizeV):
			size = operandSize(n)
		case letters == "" && k == opImmS:
			size = 1
		case letters != "" && !known:
			continue
		}
		o.kind, o.size = k, size
		return nil
	}
	if _, ok := fixedOperands[s]; !ok {
		return fmt.Errorf("operand %q", s)
	}
	o.kind, o.name = opFixed, s
	return nil
}

// fixedOperands are the operands that an opcode implies and assembly spells, each with the general register that it
// stands for, or -1.
var fixedOperands = map[string]int{
	"al": numAX, "ax": numAX, "eax": numAX, "rax": numAX, "cl": numCX, "dx": numDX,
	"1": -1, "st": -1, "fs": -1, "gs": -1, "xmm0": -1,
}

// broadcastByW is the attribute bw until the mnemonic says what W is.
const broadcastByW = 255

func (f *form) attribute(a string) error {
	for _, flag := range [...]struct {
		name  string
		field *bool
	}{
		{"fp", &f.fp}, {"aligned", &f.aligned}, {"unaligned", &f.unaligned}, {"agen", &f.agen}, {"er", &f.er}, {"sae", &f.sae},
		{"bignored", &f.bIgnored}, {"distinct", &f.distinct}, {"nomask", &f.noMask}, {"norexb", &f.notREXB},
		{"cachectl", &f.cacheControl}, {"x87", &f.isX87}, {"mmx", &f.isMMX}, {"vec", &f.isVec},
	} {
		if flag.name == a {
			*flag.field = true
			return nil
		}
	}
	switch a {
	case "reg":
		f.mod = modReg
		return nil
	case "bw":
		f.broadcast = broadcastByW
		return nil
	}
	if m, ok := implicitNames[a]; ok {
		f.implicit = m
		return nil
	}
	if r, ok := refusals[strings.TrimPrefix(a, "!")]; ok && a[0] == '!' {
		f.refusal = r
		return nil
	}
	if n, err := strconv.ParseUint(a[1:], 10, 8); err == nil {
		switch a[0] {
		case 'b':
			f.broadcast = uint8(n)
			return nil
		case 'n':
			f.dispScale = uint8(n)
			return nil
		case 'a':
			f.align = int(n)
			return nil
		}
	}
	registers := Values{Vector: implicitVectors[a[1:]]}
	if n := slices.Index(gprNames[3][:], a[1:]); n >= 0 {
		registers.GPR = 1 << n
	}
	if registers != (Values{}) && strings.ContainsRune("<>+", rune(a[0])) {
		if a[0] != '>' {
			f.reads = f.reads.Or(registers)
		}
		if a[0] != '<' {
			f.writes = f.writes.Or(registers)
		}
		return nil
	}
	return fmt.Errorf("attribute %q", a)
}

var implicitVectors = map[string]uint32{"xmm0": 1, "xmms": 1<<16 - 1}

var implicitNames = map[string]implicitMem{
	"push": implicitPush, "pop": implicitPop, "xlat": implicitXlat, "leave": implicitLeave,
	"maskmov": implicitMaskmov, "movdir": implicitMovdir,
}
