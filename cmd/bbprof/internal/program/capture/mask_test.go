package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
)

// A page in which each word has a value of its own, and registers that point to words of it.
const maskPage = 0x7000

func unmasked() *initial.Captured {
	c := &initial.Captured{State: initial.State{MXCSR: 0x1f80, Flags: 0x246}, Address: 0x4000, Pages: []initial.Page{{Address: maskPage, Writable: true}}}
	for i := range 512 {
		binary.LittleEndian.PutUint64(c.Pages[0].Data[8*i:], uint64(i+1)*0x0101)
	}
	for i := range c.GPR {
		c.GPR[i] = maskPage + 0x40*uint64(i)
	}
	c.GPR[1] = 3 // rcx: a count, an index
	for i := range 4 {
		c.Vectors = append(c.Vectors, initial.Vector{Reg: i, Bits: 256, Words: [8]uint64{1, 2, 3, 4}})
	}
	c.X87.Registers[0] = [10]byte{1, 2, 3}
	return c
}

// accessesOf are those of one copy, all of whose addresses follow from the first registers.
func accessesOf(insts []asm.Inst, c *initial.Captured) (list []asm.Access) {
	for i := range insts {
		m := asm.Machine{Regs: asm.Regs{GPR: c.GPR, RIP: c.Address + uint64(insts[i].Offset)}}
		insts[i].AccessesFrom(&m, func(a asm.Access, mem asm.Mem, _ bool) {
			a.Inst = i
			if mem.Repeat != asm.Once {
				a.Width = a.Elem * int(c.GPR[1])
			}
			list = append(list, a)
		})
	}
	return list
}

// TestMask: what decides about time is kept, the rest is not. rax is the page, each next register 0x40 on; rcx is 3.
func TestMask(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		change    func(*initial.Captured)
		registers string // that are kept, beside rsp
		bytes     string // of the page, as from-to by offset
	}{
		{"a load that nothing uses", "488b03", nil, "rbx", ""},
		{"a pointer", "488b03" + "488b08", nil, "rbx", "c0-c8"}, // mov rax,[rbx]; mov rcx,[rax]
		{"a pointer of the next copy", "488b1b", nil, "rbx", "c0-c8"},
		{"in a chain of registers", "488b03" + "4889d3" + "4889f2", nil, "rdx rbx rsi", ""}, // mov rax,[rbx]; mov rbx,rdx; mov rdx,rsi
		{"an index", "8b03" + "8a0c06", nil, "rbx rsi", "c0-c4"},                            // mov eax,[rbx]; mov cl,[rsi+rax]
		{"a shift count", "8a0b" + "48d3e2", nil, "rcx rbx", "c0-c1"},                       // mov cl,[rbx]; shl rdx,cl
		{"what is divided, and by what", "48f733", nil, "rax rdx rbx", "c0-c8"},
		{"a root", "f20f5103", nil, "rbx xmm0", "c0-c8"},
		{"a sum of numbers", "f20f5803", nil, "rbx", ""},
		{"one that may be subnormal", "f20f5803", func(c *initial.Captured) { c.MXCSR |= 1 << 1 }, "rbx xmm0", "c0-c8"},
		{"an x87 sum", "dc03", nil, "rbx", ""},
		{"an x87 sum that may be subnormal", "dc03", func(c *initial.Captured) { c.X87.Status |= 1 << 1 }, "rbx x87", "c0-c8"},
		{"by memory", "488b03" + "488902" + "488b32" + "4c8b06", nil, "rdx rbx", "c0-c8"}, // mov rax,[rbx]; mov [rdx],rax; mov rsi,[rdx]; mov r8,[rsi]
		{"a stored value", "48890b", nil, "rbx", ""},
		{"a push moves rsp, of rax nothing is needed", "50", nil, "", ""},
		{"a pop moves rsp", "58", nil, "", ""},
		{"a popped pointer", "58" + "488b18", nil, "", "100-108"},
		{"a moved string", "f3a4", nil, "rcx rsi rdi", ""},
		{"a moved pointer", "f348a5" + "488b1f", nil, "rcx rsi rdi", ""}, // rep movsq; mov rbx,[rdi]: rdi as before, in this test
		{"a compared string", "f3a6", nil, "rcx rsi rdi", "180-183 1c0-1c3"},
		{"a condition of a value", "4839d8" + "480f44d1", nil, "", ""}, // cmp rax,rbx; cmove rdx,rcx
		{"a condition of an address", "4839d8" + "480f44d1" + "488b32", nil, "rax rcx rdx rbx", ""},
		{"a zero of nothing", "31c0" + "488b0403", nil, "rbx", ""}, // xor eax,eax; mov rax,[rbx+rax]
	} {
		t.Run(c.name, func(t *testing.T) {
			code, err := asm.ParseHex(c.hex, 100)
			if err != nil {
				t.Fatal(err)
			}
			insts, err := asm.Decode(code)
			if err != nil {
				t.Fatal(err)
			}
			from := unmasked()
			if c.change != nil {
				c.change(from)
			}
			m := Mask(insts, accessesOf(insts, from), from)
			registers, kept := keptOf(from, &m)
			if diff := cmp.Diff([]string{strings.TrimSpace("rsp " + c.registers), c.bytes}, []string{registers, kept}); diff != "" {
				t.Error(diff)
			}
			if m.Flags != from.Flags || m.MXCSR != from.MXCSR || m.Address != from.Address || !m.Pages[0].Writable {
				t.Error("flags, control or the address are others")
			}
		})
	}
}

// keptOf says which registers and which bytes are the same in both; the order of registers is that of their numbers,
// but rsp's, which is the first.
func keptOf(from, m *initial.Captured) (registers, kept string) {
	list := []string{"rsp"}
	if m.GPR[4] != from.GPR[4] {
		list = nil
	}
	for i := range m.GPR {
		if m.GPR[i] == from.GPR[i] && i != 4 {
			list = append(list, asm.Reg(i).String())
		} else if i != 4 && m.GPR[i] != 0x40404040 {
			list = append(list, "other")
		}
	}
	for i, v := range m.Vectors {
		switch want := from.Vectors[i]; {
		case v == want:
			list = append(list, fmt.Sprintf("xmm%d", v.Reg))
		case v.Words != [8]uint64{maskWord, maskWord, maskWord, maskWord}:
			list = append(list, "wider")
		}
	}
	if m.X87.Registers[0] == from.X87.Registers[0] {
		list = append(list, "x87")
	}
	var ranges []string
	was, data := from.Pages[0].Data, m.Pages[0].Data
	for i := 0; i < len(data); i++ {
		n := i
		for n < len(data) && data[n] == was[n] && data[n] != MaskByte {
			n++
		}
		if n > i {
			ranges = append(ranges, fmt.Sprintf("%x-%x", i, n))
			i = n
		}
	}
	return strings.Join(list, " "), strings.Join(ranges, " ")
}

// TestMaskX87: a number of 80 bits is replaced by a number.
func TestMaskX87(t *testing.T) {
	insts, err := asm.Decode([]byte{0xdb, 0x2b, 0xdd, 0xd8}) // fld tbyte [rbx]; fstp st(0)
	if err != nil {
		t.Fatal(err)
	}
	from := unmasked()
	m := Mask(insts, accessesOf(insts, from), from)
	if got := m.Pages[0].Data[0xc0:0xca]; !bytes.Equal(got, maskX87[:]) || m.X87.Registers[0] != maskX87 {
		t.Errorf("% x", got)
	}
}

// TestMaskedWord: a masked register takes as much code to set.
func TestMaskedWord(t *testing.T) {
	for _, v := range []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1<<31 - 1, 1<<64 - 1<<31, 1<<64 - 1} {
		was, masked := asm.NewEmitter(0), asm.NewEmitter(0)
		was.MovImm(asm.RAX, v)
		masked.MovImm(asm.RAX, maskedWord(v))
		if len(was.Bytes()) != len(masked.Bytes()) || maskedWord(v) == v {
			t.Errorf("%#x becomes %#x, which takes %d bytes, not %d", v, maskedWord(v), len(masked.Bytes()), len(was.Bytes()))
		}
	}
}
