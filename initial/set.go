package initial

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/layout"
)

// Set holds the user's changes to the initial state: one value for each register named, in a fixed order. nil changes
// nothing.
type Set []assignment

// assignment is one register's value. Only a vector has more than one word.
type assignment struct {
	place
	words [vectorWords]uint64
}

const (
	vectorWords = 8 // of 64 bits, in a zmm register
	vectorRegs  = 32
	opmaskRegs  = 8
)

// place is the register or part of a register that a name denotes.
type place struct {
	name string
	kind kind
	n    int // which of its kind; of a flag, its bit
	bits int // of a vector
}

type kind int

const (
	general kind = iota
	flag
	fs
	gs
	vector
	opmask
	mxcsr
	fill
)

// places are all that can be set, by name.
var places = func() map[string]place {
	m := map[string]place{}
	add := func(p place) { m[p.name] = p }
	for r := asm.RAX; r <= asm.R15; r++ {
		add(place{name: r.String(), kind: general, n: int(r)})
	}
	for name, bit := range map[string]int{"cf": 0, "pf": 2, "af": 4, "zf": 6, "sf": 7, "of": 11} { // SDM vol. 1, 3.4.3.1
		add(place{name: name, kind: flag, n: bit})
	}
	for n := range opmaskRegs {
		add(place{name: fmt.Sprintf("k%d", n), kind: opmask, n: n})
	}
	for n := range vectorRegs {
		for bits := 128; bits <= 512; bits *= 2 {
			add(place{Vector{Reg: n, Bits: bits}.Name(), vector, n, bits})
		}
	}
	for k, name := range map[kind]string{fs: "fs_base", gs: "gs_base", mxcsr: "mxcsr", fill: "fill"} {
		add(place{name: name, kind: k})
	}
	return m
}()

// ParseSet reads REG=VALUE with commas or semicolons between several.
func ParseSet(text string) (s Set, err error) {
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not REGISTER=VALUE, such as rdi=0x12346600", strings.TrimSpace(one))
		}
		a := assignment{}
		if a.place, err = placeOf(strings.ToLower(strings.TrimSpace(name))); err != nil {
			return nil, err
		}
		if a.words, err = a.parse(strings.TrimSpace(value)); err != nil {
			return nil, err
		}
		if s, err = s.And(Set{a}); err != nil {
			return nil, err
		}
	}
	if len(s) == 0 {
		return nil, errors.New("write REGISTER=VALUE, such as rdi=0x12346600")
	}
	return s, nil
}

// And adds another user's Set, which must not name a register of this one.
func (s Set) And(more Set) (Set, error) {
	s = slices.Clone(s)
	for _, a := range more {
		i, there := slices.BinarySearchFunc(s, a, assignment.compare)
		switch {
		case there && s[i].name == a.name:
			return nil, fmt.Errorf("%s is set twice", a.name)
		case there:
			return nil, fmt.Errorf("%s and %s are one register; set it once", s[i].name, a.name)
		}
		s = slices.Insert(s, i, a)
	}
	return s, nil
}

// With merges two Sets; where both name a register, the other's value wins.
func (s Set) With(other Set) Set {
	all := slices.Clone(other)
	for _, a := range s {
		if i, there := slices.BinarySearchFunc(all, a, assignment.compare); !there {
			all = slices.Insert(all, i, a)
		}
	}
	return all
}

// Names reports whether a general register is among what is set.
func (s Set) Names(r asm.Reg) bool {
	return slices.ContainsFunc(s, func(a assignment) bool { return a.kind == general && a.n == int(r) })
}

// SetsMXCSR reports whether MXCSR is among what is set.
func (s Set) SetsMXCSR() bool {
	return slices.ContainsFunc(s, func(a assignment) bool { return a.kind == mxcsr })
}

// Over is a state with these values.
func (s Set) Over(state State) State {
	state.Vectors = slices.Clone(state.Vectors)
	for _, a := range s {
		v := a.words[0]
		switch a.kind {
		case general:
			state.GPR[a.n] = v
		case flag:
			state.Flags = state.Flags&^(1<<a.n) | v<<a.n
		case fs:
			state.FSBase = v
		case gs:
			state.GSBase = v
		case opmask:
			state.Opmasks[a.n] = v
		case mxcsr:
			state.MXCSR = uint32(v)
		case fill:
			state.Fill = v
		case vector:
			state.Vectors = slices.DeleteFunc(state.Vectors, func(v Vector) bool { return v.Reg == a.n })
			state.Vectors = append(state.Vectors, Vector{a.n, a.bits, a.words})
		}
	}
	if len(s) > 0 {
		state.Set = s.String()
	}
	return state
}

// String is what ParseSet reads.
func (s Set) String() string {
	var list []string
	for _, a := range s {
		list = append(list, a.name+"="+hexadecimal(a.words))
	}
	return strings.Join(list, ",")
}

// MarshalText writes a Set as String does.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// compare orders registers, whatever part of one is named.
func (a assignment) compare(b assignment) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.n, b.n))
}

func placeOf(name string) (place, error) {
	if p, ok := places[name]; ok {
		return p, nil
	}
	for r := asm.RAX; r <= asm.R15; r++ {
		if slices.Contains(partsOf(r), name) {
			return place{}, fmt.Errorf("%s is part of %s; set all 64 bits of that, such as %s=0x1", name, r, r)
		}
	}
	switch name {
	case "fs", "gs":
		return place{}, fmt.Errorf("%s is a segment; set its base, %s_base", name, name)
	case "df":
		return place{}, errors.New("df cannot be set; let the block begin with std")
	case "flags", "eflags", "rflags":
		return place{}, errors.New("set flags one by one: cf, pf, af, zf, sf, of, such as cf=1")
	case "rip":
		return place{}, errors.New("rip follows from where the block stands; see -address")
	}
	return place{}, fmt.Errorf("%q cannot be set: there are rax to r15, cf pf af zf sf of, xmm0 to zmm31, k0 to k7, "+
		"mxcsr, fs_base, gs_base and fill, the word that fills memory", name)
}

// partsOf are the names of parts of a register.
func partsOf(r asm.Reg) []string {
	full := r.String()
	if r >= asm.R8 {
		return []string{full + "d", full + "w", full + "b"}
	}
	word := full[1:]
	parts := []string{"e" + word, word}
	if word[1] == 'x' {
		return append(parts, word[:1]+"l", word[:1]+"h")
	}
	return append(parts, word+"l")
}

func (p place) parse(value string) (words [vectorWords]uint64, err error) {
	name := p.name
	if p.kind == vector {
		return parseVector(name, value, p.bits)
	}
	v, err := strconv.ParseUint(value, 0, 64)
	if signed, failed := strconv.ParseInt(value, 0, 64); err != nil && failed == nil {
		v, err = uint64(signed), nil
	}
	switch {
	case err != nil:
		return words, fmt.Errorf("%s=%s: write a number of at most 64 bits, such as %s=0x1", name, value, name)
	case p.kind == flag && v > 1:
		return words, fmt.Errorf("%s=%s: a flag is 0 or 1", name, value)
	case p.kind == mxcsr && v > 0xffff: // bits 31 to 16 are reserved (SDM vol. 1, 10.2.3)
		return words, fmt.Errorf("%s=%s: mxcsr has 16 bits, such as 0x1f80", name, value)
	case (p.kind == fs || p.kind == gs) && v >= layout.UserEnd:
		return words, fmt.Errorf("%s=%s: a segment's base is below %#x", name, value, uint64(layout.UserEnd))
	}
	words[0] = v
	return words, nil
}

// parseVector reads one hexadecimal number as wide as a register, its lowest element last.
func parseVector(name, value string, bits int) (words [vectorWords]uint64, err error) {
	digits, ok := strings.CutPrefix(strings.ToLower(value), "0x")
	v, valid := new(big.Int).SetString(digits, 16)
	if !ok || !valid || v.Sign() < 0 || digits[0] == '+' {
		return words, fmt.Errorf("%s=%.40s: write the register as one hexadecimal number, its lowest element last, such as "+
			"%s=0x3f8000003f800000", name, value, name)
	}
	if v.BitLen() > bits {
		return words, fmt.Errorf("%s=%.40s…: %s has %d hexadecimal digits, and there are %d", name, value, name, bits/4, len(strings.TrimLeft(digits, "0")))
	}
	var bytes [8 * vectorWords]byte
	v.FillBytes(bytes[:])
	for i := range words {
		words[i] = binary.BigEndian.Uint64(bytes[len(bytes)-8*(i+1):])
	}
	return words, nil
}

// hexadecimal is a number of many words, the lowest first.
func hexadecimal(words [vectorWords]uint64) string {
	v := new(big.Int)
	for _, w := range slices.Backward(words[:]) {
		v.Or(v.Lsh(v, 64), new(big.Int).SetUint64(w))
	}
	return fmt.Sprintf("%#x", v)
}
