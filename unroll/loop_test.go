package unroll

import (
	"bytes"
	"fmt"
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

// TestChooseLoop: both bodies have as many turns and differ by whole groups of the instructions that the core renames in a cycle, so that
// the turn itself cancels, whatever the block's size; the op cache holds the longer.
func TestChooseLoop(t *testing.T) {
	for _, c := range []struct {
		name   string
		insts  []asm.Inst
		width  int
		bodies Factors
		fits   bool
	}{
		{"one instruction", decode(t, nop...), 6, Factors{96, 192}, true},
		{"two", repeat(t, 2, nop...), 6, Factors{48, 96}, true},
		{"three", repeat(t, 3, nop...), 6, Factors{32, 62}, true},
		{"three, of a core that renames four", repeat(t, 3, nop...), 4, Factors{32, 64}, true},
		{"three, of an unknown core", repeat(t, 3, nop...), 0, Factors{32, 56}, true},
		{"15: fewer in both, and a whole group", repeat(t, 15, nop2...), 6, Factors{5, 11}, true},
		{"48: each copy is whole groups", repeat(t, 48, nop2...), 6, Factors{2, 4}, true},
		{"20: three copies are", repeat(t, 20, nop2...), 6, Factors{4, 7}, true},
		{"37: as many as there is room for", repeat(t, 37, nop2...), 6, Factors{2, 5}, true},
		{"one more at least", repeat(t, 120, nop2...), 6, Factors{1, 2}, true},
		// 14 bytes: about 2.3 of them start in a window, so 76 windows hold 174.
		{"87 of 14 bytes: two copies fit", repeat(t, 87, nop14...), 6, Factors{1, 2}, true},
		{"88 of them: only one does", repeat(t, 88, nop14...), 6, Factors{1, 2}, false},
	} {
		l, fits := ChooseLoop(c.insts, front, c.width, false)
		if l.Bodies != c.bodies || fits != c.fits || l.Turns != (Factors{CountedTurns, CountedTurns}) {
			t.Errorf("%s: %v, fits %v; want %v, %v", c.name, l, fits, c.bodies, c.fits)
		}
		if it := l.Iterations(); it.Short != CountedTurns*c.bodies.Short || it.Long != CountedTurns*c.bodies.Long {
			t.Errorf("%s: %v iterations", c.name, it)
		}
	}
	for n, copies := range map[int]int{1: 24, 11: 3, 12: 2, 23: 2, 24: 1} {
		if l, _ := ChooseLoop(repeat(t, n, nop...), front, 6, true); l.Bodies != (Factors{copies, copies}) || l.Turns.Short == l.Turns.Long {
			t.Errorf("%d instructions whose stores feed loads: %v, want %d copies in both bodies", n, l, copies)
		}
	}
}

// TestChooseLoopByPlace: on a core whose loops run as fast as their place allows, both images are one code, of which the longer turns twice as
// often, and the branch takes at most a place in rename of each turn. A block whose stores feed its loads has the same loop as on any core.
func TestChooseLoopByPlace(t *testing.T) {
	front := front
	front.ByPlace = true
	for n, copies := range map[int]int{1: 96, 2: 48, 5: 20, 96: 1, 120: 1} {
		for width, renames := range map[int]float64{6: 6, 0: anyWidth} {
			l, fits := ChooseLoop(repeat(t, n, nop...), front, width, false)
			want := Loop{Bodies: Factors{copies, copies}, Turns: Factors{CountedTurns, 2 * CountedTurns}, Counter: l.Counter, Own: 1 / (renames * float64(copies))}
			if l != want || !fits {
				t.Errorf("%d instructions, width %d: %+v, fits %v; want %+v", n, width, l, fits, want)
			}
		}
	}
	var every []asm.Inst // all registers but rsp
	for r := range byte(16) {
		every = append(every, decode(t, 0x48|r>>3<<2, 0x8d, r&7<<3|0x40|5, 0)...) // lea r, [rbp]
	}
	for name, l := range map[string]func() (Loop, bool){
		"stores that feed loads": func() (Loop, bool) { return ChooseLoop(repeat(t, 3, nop...), front, 6, true) },
		"counted in memory":      func() (Loop, bool) { return ChooseLoop(every, front, 6, false) },
	} {
		if l, _ := l(); l.OneCode() || name == "counted in memory" && !l.Counter.Memory {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// A short loop runs exactly as often as the copies, whatever their number: a block with advancing addresses must not
// go one step further.
func TestChooseShortLoop(t *testing.T) {
	for _, c := range []struct {
		insts  int
		copies Factors
		bodies Factors
		turns  int
	}{
		{1, Factors{128, 384}, Factors{64, 192}, 2},
		{2, Factors{32, 160}, Factors{16, 80}, 2},
		{47, Factors{8, 24}, Factors{1, 3}, 8},
		{48, Factors{8, 24}, Factors{1, 3}, 8},
		{1, Factors{100, 200}, Factors{50, 100}, 2},
		{1, Factors{7, 10}, Factors{7, 10}, 1}, // nothing divides both
		{1, Factors{1, 3}, Factors{1, 3}, 1},
	} {
		got := ChooseShortLoop(repeat(t, c.insts, nop...), c.copies)
		if got.Bodies != c.bodies || got.Turns != (Factors{c.turns, c.turns}) {
			t.Errorf("%d instructions, %v copies: %v, want %v and %d turns", c.insts, c.copies, got, c.bodies, c.turns)
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

// TestSplit: an image between those of a loop has the body that both share, or else their number of turns.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		l                         Loop
		iterations, copies, turns int
	}{
		{Loop{Bodies: Factors{48, 96}, Turns: Factors{16, 16}}, 768, 48, 16},
		{Loop{Bodies: Factors{48, 96}, Turns: Factors{16, 16}}, 1152, 72, 16},
		{Loop{Bodies: Factors{48, 96}, Turns: Factors{16, 16}}, 1159, 72, 16}, // whole turns
		{Loop{Bodies: Factors{5, 5}, Turns: Factors{32, 64}}, 160, 5, 32},
		{Loop{Bodies: Factors{5, 5}, Turns: Factors{32, 64}}, 243, 5, 48},
		{Loop{Bodies: Factors{5, 5}, Turns: Factors{32, 64}}, 320, 5, 64},
	} {
		copies, turns := c.l.Split(c.iterations)
		require.Equal(t, fmt.Sprintf("%v, %d iterations", c.l, c.iterations), [2]int{c.copies, c.turns}, [2]int{copies, turns})
	}
}
