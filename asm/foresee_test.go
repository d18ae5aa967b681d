package asm

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The start of all these tests: the paper's word everywhere, at an address apart from it.
const (
	paperWord  = 0x1234_5600
	testFSBase = 0x2345_6800
	testHome   = 0x6000_1000_0000
	testOwn    = 0x6000_0000_0000 // a page that cannot be mapped
	testEnd    = 1<<47 - pageSize
)

func testStart() Start {
	s := Start{Regs: Regs{RIP: testHome, FSBase: testFSBase}, Fill: paperWord}
	for i := range s.GPR {
		s.GPR[i] = paperWord
	}
	s.Mappable = func(addr, n uint64) bool {
		return addr >= 64<<10 && addr < testEnd-n && pageOf(addr) != testOwn
	}
	return s
}

// What is foreseen of pages, as "copy.instruction+address", from the paper's state.
func TestForesee(t *testing.T) {
	const fill = paperWord // of registers and memory
	step := func(copy, inst int, addr uint64) string { return fmt.Sprintf("%d.%d+%x", copy, inst, addr) }
	for _, c := range []struct {
		name, hex string
		copies    int
		want      []string
	}{
		{"no access", "4801c0", 9, nil},
		{"mov rax, [rbx]", "488b03", 9, []string{step(0, 0, fill)}},
		{"two pages, the upper first", "8b8b00100000 8b0b", 9, []string{step(0, 0, fill+0x1000), step(0, 1, fill)}},
		{"mov rcx, [rip+0x1000]", "488b0d00100000", 9, []string{step(0, 0, testHome+7+0x1000)}},
		{"fs:[0x28]", "64488b042528000000", 9, []string{step(0, 0, testFSBase+0x28)}},
		{"mov rbx, rax; lea rcx, [rbx+rbx*2+0x1000]; mov rax, [rcx]", "4889c3 488d8c5b00100000 488b01", 1, []string{step(0, 2, 3*fill+0x1000)}},
		{"a pointer from memory: mov rax, [rbx]; mov ecx, [rax+0x2000]", "488b03 8b8800200000", 9, []string{step(0, 0, fill), step(0, 1, fill+0x2000)}},
		{"half of one: mov eax, [rbx+4]; mov cl, [rax+0x20000]", "8b4304 8a8800000200", 1, []string{step(0, 0, fill+4), step(0, 1, 0x20000)}},
		{"one that was stored: mov [rbx], rsp with rsp changed", "4881c400200000 488923 488b0b 8b01", 1, []string{step(0, 1, fill), step(0, 3, fill+0x2000)}},
		{"one of which half was overwritten by who knows what", "660fd603 488b0b 8b01", 1, []string{step(0, 0, fill)}},
		{"32 bits clear the rest: mov rax, -1; mov eax, ebx; mov cl, [rax]", "48c7c0ffffffff 89d8 8a08", 1, []string{step(0, 2, fill)}},
		{"8 bits keep it: mov al, 0x10; mov cl, [rax]", "b010 8a08", 1, []string{step(0, 1, fill&^0xff|0x10)}},
		{"ah is not followed: mov ah, 0x10; mov cl, [rax]", "b410 8a08", 1, nil},
		{"xor ecx, ecx; mov al, [rcx+rbx]", "31c9 8a0419", 1, []string{step(0, 1, fill)}},
		{"imul is: imul rcx, rbx, 2; mov al, [rcx]", "486bcb02 8a01", 1, []string{step(0, 1, 2*fill)}},
		{"rdx of a product is not: mul rbx; mov al, [rdx]", "48f7e3 8a02", 1, nil},
		{"push and pop", "50 58", 9, []string{step(0, 0, fill-8)}},
		{"push rcx; pop rbx; mov al, [rbx+0x1000]", "51 5b 8a8300100000", 1, []string{step(0, 0, fill-8), step(0, 2, fill+0x1000)}},
		{"lodsq; stosd: upwards", "48ad ab", 1, nil}, // string operations are not given, but claim their page
		{"cdqe", "4898 8a00", 1, []string{step(0, 1, fill)}},

		// Copies that walk.
		{"add rbx, 0x1000 after a load", "488b03 4881c300100000", 5, []string{step(0, 0, fill), step(1, 0, fill+0x1000), step(2, 0, fill+0x2000), step(3, 0, fill+0x3000), step(4, 0, fill+0x4000)}},
		{"downwards, by a line", "488b03 4883eb40", 64, []string{step(0, 0, fill), step(25, 0, fill-25*0x40)}},
		{"push rax: 192 until the page's start", "50", 193, []string{step(0, 0, fill-8), step(192, 0, fill-8-192*8)}},
		{"push rax: one copy less", "50", 192, []string{step(0, 0, fill-8)}},
		{"inc rbx in other copies", "8a03 48ffc3", 0xa00 + 1, []string{step(0, 0, fill), step(0xa00, 0, fill+0xa00)}},

		// Who crosses into a page or is not alone with it does not tell where it asks for it.
		{"across two pages", "488b83fc090000", 9, nil},
		{"and then within the second", "488b83fc090000 8b8b00100000", 9, nil},
		{"movsq, and a load of its page", "48a5 488b03", 1, nil},
		{"a load with movsq after it", "488b03 48a5", 1, []string{step(0, 0, fill)}},

		// What faults whatever is mapped.
		{"not canonical: shl rbx, 20", "48c1e314 488b03", 1, nil},
		{"the lowest pages: xor ebx, ebx", "31db 488b03", 1, nil},
		{"bbprof's own: mov rbx, …", "48bb0000000000600000 488b03", 1, nil},
		{"movaps that is not aligned", "0f284308", 1, nil},
		{"std", "fd 488b03", 1, nil},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		insts, err := Decode(code)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, a := range Foresee(insts, c.copies, testStart()) {
			got = append(got, step(a.Copy, a.Inst, a.Addr))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever the bytes are, there is an end to it, and each page comes once.
func FuzzForesee(f *testing.F) {
	for _, seed := range []string{"488b03", "50", "c9", "8f03", "48a5", "f3a4", "4898", "480fc1c3", "62f27d0990444b10", "d7"} {
		code, err := hex.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(code, 5)
	}
	f.Fuzz(func(t *testing.T, code []byte, copies int) {
		insts, err := Decode(code)
		if err != nil {
			return
		}
		copies = min(max(copies, 1), 600)
		seen := map[uint64]bool{}
		for _, a := range Foresee(insts, copies, testStart()) {
			page := a.Addr &^ (pageSize - 1)
			if seen[page] || a.Copy >= copies || a.Inst >= len(insts) || a.Addr >= testEnd {
				t.Errorf("%x: %+v", code, a)
			}
			seen[page] = true
		}
	})
}
