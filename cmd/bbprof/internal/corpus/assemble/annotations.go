package assemble

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/initial"
)

// A Start is what the annotations of llvm-exegesis in a block's comments say of the state that it starts from
// (llvm/docs/CommandGuide/llvm-exegesis.rst, "Snippet annotations").
type Start struct {
	Set    initial.Set
	Memory initial.Memory // words that differ from the fill word in Set
	At     *uint64        // nil if that is not said
}

// AnnotationMark begins each annotation, behind # and blanks.
const AnnotationMark = "LLVM-EXEGESIS-"

// StartOf reads a block's annotations. What is wrong with them is an *Error.
func StartOf(text string) (Start, error) {
	a := annotations{memory: map[string]memory{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		_, comment, _ := strings.Cut(line, "#")
		words := strings.Fields(comment)
		if len(words) == 0 || !strings.HasPrefix(words[0], AnnotationMark) {
			continue
		}
		if err := a.read(strings.TrimPrefix(words[0], AnnotationMark), words[1:], number); err != nil {
			return Start{}, &Error{Tool: words[0], Line: number, Message: err.Error()}
		}
	}
	if err := a.fill(); err != nil {
		return Start{}, err
	}
	return a.Start, nil
}

type annotations struct {
	Start
	memory map[string]memory // by name
	mapped []mapped
}

// memory is bytes that are repeated up to a size.
type memory struct {
	value []byte // the lowest first
	size  uint64
}

type mapped struct {
	memory
	address uint64
	line    int
}

// count is how many parameters each annotation has.
var count = map[string]int{"DEFREG": 2, "LIVEIN": 1, "LOOP-REGISTER": 1, "SNIPPET-ADDRESS": 1, "MEM-DEF": 3, "MEM-MAP": 2}

func (a *annotations) read(name string, words []string, line int) (err error) {
	n, known := count[name]
	switch {
	case !known:
		return errors.New("this annotation is not known; there are DEFREG, LIVEIN, LOOP-REGISTER, MEM-DEF, MEM-MAP and SNIPPET-ADDRESS")
	case len(words) != n:
		return fmt.Errorf("it takes %d parameters and has %d", n, len(words))
	}
	switch name {
	case "DEFREG":
		return a.register(words[0], words[1])
	case "SNIPPET-ADDRESS":
		at, err := strconv.ParseUint(words[0], 16, 64)
		a.At = &at
		return err
	case "MEM-DEF":
		return a.define(words[0], words[1], words[2])
	case "MEM-MAP":
		m, defined := a.memory[words[0]]
		if !defined {
			return fmt.Errorf("no MEM-DEF before it defines %s", words[0])
		}
		address, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			return fmt.Errorf("the address is %q; write a decimal number", words[1])
		}
		a.mapped = append(a.mapped, mapped{m, address, line})
	}
	return nil // LIVEIN, LOOP-REGISTER: every register has a value, and bbprof takes a free one to count
}

// register sets one as llvm-exegesis does: a value of fewer bits is extended by zeros in general registers, by its
// highest bit in vectors.
func (a *annotations) register(name, digits string) error {
	v, ok := new(big.Int).SetString(digits, 16)
	if !ok || v.Sign() < 0 {
		return fmt.Errorf("the value is %q; write hexadecimal digits without 0x", digits)
	}
	name = strings.ToLower(name)
	set := name + "="
	bits := map[byte]int{'x': 128, 'y': 256, 'z': 512}[name[0]]
	switch short := 4 * len(digits); {
	case name == "eflags":
		set = ""
		for i, flag := range []string{"cf", "", "pf", "", "af", "", "zf", "sf", "", "", "", "of"} {
			if flag != "" {
				set += fmt.Sprintf("%s=%d,", flag, v.Bit(i))
			}
		}
		if v.Bit(10) != 0 {
			return errors.New("df cannot be set; let the block begin with std")
		}
	case strings.HasPrefix(name[1:], "mm") && short < bits && v.Bit(short-1) == 1:
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(short)))
		v.Add(v, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
		fallthrough
	default:
		set += fmt.Sprintf("%#x", v)
	}
	more, err := initial.ParseSet(set)
	if err == nil {
		a.Set, err = a.Set.And(more)
	}
	return err
}

func (a *annotations) define(name, size, digits string) (err error) {
	m := memory{}
	if m.value, err = hex.DecodeString(digits); err != nil {
		return fmt.Errorf("the value is %q; write two hexadecimal digits for each byte", digits)
	}
	slices.Reverse(m.value)
	if m.size, err = strconv.ParseUint(size, 10, 64); err != nil || m.size == 0 {
		return fmt.Errorf("the size is %q; write a decimal number of bytes", size)
	}
	a.memory[name] = m
	return nil
}

// word is the 64 bits from a byte on.
func (m memory) word(at uint64) (w uint64) {
	for i := range uint64(8) {
		if at+i < m.size {
			w |= uint64(m.value[(at+i)%uint64(len(m.value))]) << (8 * i)
		}
	}
	return w
}

// uniform reports whether all words are one.
func (m memory) uniform() bool { return 8%len(m.value) == 0 && m.size%8 == 0 }

// mostWords is how much memory may differ from the fill word: a page.
const mostWords = 4096 / 8

// fill fills all memory with the word of the most bytes. What holds another is set word by word.
func (a *annotations) fill() error {
	if len(a.mapped) == 0 {
		return nil
	}
	bytes := map[uint64]uint64{}
	most := uint64(0)
	for _, m := range a.mapped {
		if w := m.word(0); m.uniform() {
			if bytes[w] += m.size; bytes[w] > bytes[most] {
				most = w
			}
		}
	}
	if len(bytes) > 0 {
		set, err := initial.ParseSet(fmt.Sprintf("fill=%#x", most))
		if err == nil {
			a.Set, err = a.Set.And(set)
		}
		if err != nil {
			return err
		}
	}
	for _, m := range a.mapped {
		if m.uniform() && m.word(0) == most {
			continue
		}
		bad := func(what string) error {
			return &Error{Tool: AnnotationMark + "MEM-MAP", Line: m.line, Message: what}
		}
		if m.address%8 != 0 {
			return bad("the address is not a multiple of 8, as that of memory with values of its own must be")
		}
		if len(a.Memory)+int(min(m.size, 1<<32)+7)/8 > mostWords {
			return bad(fmt.Sprintf("bbprof fills memory with one word, and at most %d bytes can hold others; define a smaller size", 8*mostWords))
		}
		var words initial.Memory
		for at := uint64(0); at < m.size; at += 8 {
			words = append(words, initial.Word{Address: m.address + at, Value: m.word(at)})
		}
		var err error
		if a.Memory, err = a.Memory.And(words); err != nil {
			return bad(err.Error())
		}
	}
	return nil
}
