package asm

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// The start of all these tests: the paper's word everywhere, at an address apart from it.
const (
	paperWord  = 0x1234_5600
	testFSBase = 0x2345_6800
	testHome   = 0x6000_1000_0000
)

func testStart() Start {
	s := Start{Regs: Regs{RIP: testHome, FSBase: testFSBase}, Fill: paperWord}
	for i := range s.GPR {
		s.GPR[i] = paperWord
	}
	return s
}

// The known ones among the accesses of copies, as "instruction+address", from the paper's state.
func TestFollow(t *testing.T) {
	const fill = paperWord // of registers and memory
	at := func(inst int, addr uint64) string { return fmt.Sprintf("%d+%x", inst, addr) }
	for _, c := range []struct {
		name, hex string
		copies    int
		want      []string
	}{
		{"no access", "4801c0", 9, nil},
		{"mov rax, [rbx]", "488b03", 2, []string{at(0, fill), at(0, fill)}},
		{"two pages, the upper first", "8b8b00100000 8b0b", 1, []string{at(0, fill+0x1000), at(1, fill)}},
		{"mov rcx, [rip+0x1000]", "488b0d00100000", 1, []string{at(0, testHome+7+0x1000)}},
		{"fs:[0x28]", "64488b042528000000", 1, []string{at(0, testFSBase+0x28)}},
		{"mov rbx, rax; lea rcx, [rbx+rbx*2+0x1000]; mov rax, [rcx]", "4889c3 488d8c5b00100000 488b01", 1, []string{at(2, 3*fill+0x1000)}},
		{"a pointer from memory: mov rax, [rbx]; mov ecx, [rax+0x2000]", "488b03 8b8800200000", 1, []string{at(0, fill), at(1, fill+0x2000)}},
		{"half of one: mov eax, [rbx+4]; mov cl, [rax+0x20000]", "8b4304 8a8800000200", 1, []string{at(0, fill+4), at(1, 0x20000)}},
		{"one that was stored: mov [rbx], rsp with rsp changed", "4881c400200000 488923 488b0b 8b01", 1,
			[]string{at(1, fill), at(2, fill), at(3, fill+0x2000)}},
		{"one of which half was overwritten by who knows what", "660fd603 488b0b 8b01", 1, []string{at(0, fill), at(1, fill)}},
		{"32 bits clear the rest: mov rax, -1; mov eax, ebx; mov cl, [rax]", "48c7c0ffffffff 89d8 8a08", 1, []string{at(2, fill)}},
		{"8 bits keep it: mov al, 0x10; mov cl, [rax]", "b010 8a08", 1, []string{at(1, fill&^0xff|0x10)}},
		{"ah is not followed: mov ah, 0x10; mov cl, [rax]", "b410 8a08", 1, nil},
		{"xor ecx, ecx; mov al, [rcx+rbx]", "31c9 8a0419", 1, []string{at(1, fill)}},
		{"imul is: imul rcx, rbx, 2; mov al, [rcx]", "486bcb02 8a01", 1, []string{at(1, 2*fill)}},
		{"rdx of a product is not: mul rbx; mov al, [rdx]", "48f7e3 8a02", 1, nil},
		{"shl rbx, 4; shr rbx, 3; mov rax, [rbx]", "48c1e304 48c1eb03 488b03", 1, []string{at(2, 2*fill)}},
		{"push and pop", "50 58", 2, []string{at(0, fill-8), at(1, fill-8), at(0, fill-8), at(1, fill-8)}},
		{"push rcx; pop rbx; mov al, [rbx+0x1000]", "51 5b 8a8300100000", 1, []string{at(0, fill-8), at(1, fill-8), at(2, fill+0x1000)}},
		{"lodsq; stosd: upwards", "48ad ab", 2, []string{at(0, fill), at(1, fill), at(0, fill+8), at(1, fill+4)}},
		{"rep stosb is not", "f3aa", 1, nil},
		{"cdqe", "4898 8a00", 1, []string{at(1, fill)}},
		{"add rbx, 0x1000 after a load", "488b03 4881c300100000", 4, []string{at(0, fill), at(0, fill+0x1000), at(0, fill+0x2000), at(0, fill+0x3000)}},
		{"downwards, by a line", "488b03 4883eb40", 3, []string{at(0, fill), at(0, fill-0x40), at(0, fill-0x80)}},
	} {
		var got []string
		for _, a := range Follow(mustDecode(t, c.hex), c.copies, testStart()) {
			if a.Known {
				got = append(got, at(a.Inst, a.Addr))
			}
		}
		require.Equal(t, c.name, c.want, got)
	}
}

// Whatever the bytes are, each access of each copy comes once, in order.
func FuzzFollow(f *testing.F) {
	for _, seed := range []string{"488b03", "50", "c9", "8f03", "48a5", "f3a4", "4898", "480fc1c3", "62f27d0990444b10", "d7"} {
		code := require.Hex(f, seed)
		f.Add(code, 5)
	}
	f.Fuzz(func(t *testing.T, code []byte, copies int) {
		insts, err := Decode(code)
		if err != nil {
			return
		}
		copies = min(max(copies, 1), 600)
		all := Follow(insts, copies, testStart())
		for c := range copies {
			for i := range insts {
				for k := range insts[i].Mem {
					if len(all) == 0 || all[0].Inst != i || all[0].Mem != k {
						t.Fatalf("%x: access %d of instruction %d of copy %d is missing", code, k, i, c)
					}
					all = all[1:]
				}
			}
		}
	})
}
