package unroll

import (
	"bytes"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
)

func TestFreeCounter(t *testing.T) {
	but := func(unused ...asm.Reg) []byte { // mov r, r: reads and writes it
		e := asm.NewEmitter(0)
		for r := asm.RAX; r <= asm.R15; r++ {
			if r != asm.RSP && !slices.Contains(unused, r) {
				e.Mov(r, r)
			}
		}
		return e.Bytes()
	}
	for _, c := range []struct {
		name string
		code []byte
		want string
	}{
		{"a nop", nop, "r15"},
		{"r15 read as an address", []byte{0x49, 0x8b, 0x07}, "r14"},
		{"r15 as an index", []byte{0x4a, 0x8b, 0x04, 0x3b}, "r14"}, // mov rax, [rbx+r15]
		{"its lowest byte", []byte{0x41, 0xb7, 0x01}, "r14"},
		{"all but rax", but(asm.RAX), "rax"},
		{"all but rbx", but(asm.RBX), "rbx"},
		{"all but rsp, which is never free", but(), "memory"},
		{"all but those that a division uses unnamed", append(but(asm.RAX, asm.RDX), 0x48, 0xf7, 0xf1), "memory"},
		{"or a string operation", append(but(asm.RCX, asm.RSI, asm.RDI), 0xf3, 0x48, 0xa5), "memory"},
	} {
		require.Equal(t, c.name, c.want, freeCounter(decode(t, c.code...)).String())
	}
}

var nop14 = append(bytes.Repeat([]byte{0x66}, 6), nop8...)

func TestChooseLoop(t *testing.T) {
	for _, c := range []struct {
		name   string
		insts  []asm.Inst
		copies int
		fits   bool
	}{
		{"one instruction", decode(t, nop...), 128, true},
		{"two", repeat(t, 2, nop...), 64, true},
		{"three", repeat(t, 3, nop...), 32, true}, // 96 instructions
		{"47: two are 94", repeat(t, 47, nop2...), 4, true},
		{"48: two are enough", repeat(t, 48, nop2...), 2, true},
		{"95", repeat(t, 95, nop2...), 2, true},
		{"96", repeat(t, 96, nop2...), 1, true},
		// 14 bytes: about 2.3 of them start in a window, so 76 windows hold 174.
		{"87 of 14 bytes: two copies fit", repeat(t, 87, nop14...), 2, true},
		{"88 of them: only one does", repeat(t, 88, nop14...), 1, true},
		{"the last that fits", repeat(t, 304, nop8...), 1, true},
		{"one instruction more", repeat(t, 305, nop8...), 1, false},
	} {
		l, fits := ChooseLoop(c.insts, front, false)
		if l.Copies != c.copies || fits != c.fits || l.LoopIterations != (Factors{32, 64}) {
			t.Errorf("%s: %v, fits %v; want %d copies, %v", c.name, l, fits, c.copies, c.fits)
		}
		if again, _ := ChooseLoop(c.insts, front, false); again != l {
			t.Errorf("%s: %v, and then %v", c.name, l, again)
		}
		if it := l.Iterations(); it.Short != 32*c.copies || it.Long != 64*c.copies {
			t.Errorf("%s: %v iterations", c.name, it)
		}
	}
	for n, copies := range map[int]int{1: 32, 11: 4, 12: 2, 23: 2, 24: 1} {
		if l, _ := ChooseLoop(repeat(t, n, nop...), front, true); l.Copies != copies {
			t.Errorf("%d instructions whose stores feed loads: %v, want %d copies", n, l, copies)
		}
	}
}

// A short loop runs exactly as often as the copies, whatever their number: a block with advancing addresses must not
// go one step further.
func TestChooseShortLoop(t *testing.T) {
	for _, c := range []struct {
		insts  int
		copies Factors
		want   Loop
	}{
		{1, Factors{128, 384}, Loop{Copies: 64, LoopIterations: Factors{2, 6}}},
		{2, Factors{32, 160}, Loop{Copies: 32, LoopIterations: Factors{1, 5}}},
		{47, Factors{8, 24}, Loop{Copies: 2, LoopIterations: Factors{4, 12}}},
		{48, Factors{8, 24}, Loop{Copies: 1, LoopIterations: Factors{8, 24}}},
		{1, Factors{100, 200}, Loop{Copies: 50, LoopIterations: Factors{2, 4}}},
		{1, Factors{7, 10}, Loop{Copies: 1, LoopIterations: Factors{7, 10}}}, // nothing divides both
		{1, Factors{1, 3}, Loop{Copies: 1, LoopIterations: Factors{1, 3}}},
	} {
		got := ChooseShortLoop(repeat(t, c.insts, nop...), c.copies)
		got.Counter = Counter{}
		if got != c.want {
			t.Errorf("%d instructions, %v copies: %v, want %v", c.insts, c.copies, got, c.want)
		}
	}
	for _, f := range pairs {
		for _, n := range []int{1, 3, 10, 60} {
			if l := ChooseShortLoop(repeat(t, n, nop...), f); l.Iterations() != f {
				t.Errorf("%d instructions: %v runs %v times, want %v", n, l, l.Iterations(), f)
			}
		}
	}
}
