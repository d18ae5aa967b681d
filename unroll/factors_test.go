package unroll

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// decode decodes valid instruction bytes.
func decode(t testing.TB, code ...byte) []asm.Inst {
	t.Helper()
	return require.Get(asm.Decode(code))(t)
}

// repeat returns n copies of an instruction.
func repeat(t testing.TB, n int, inst ...byte) []asm.Inst {
	t.Helper()
	return decode(t, bytes.Repeat(inst, n)...)
}

var (
	nop  = []byte{0x90}
	nop2 = []byte{0x66, 0x90}
	nop4 = []byte{0x0f, 0x1f, 0x40, 0x00}
	nop5 = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
	nop8 = []byte{0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0}
)

func TestLinesOf(t *testing.T) {
	narrow := OpCache{Lines: 256, OpsPerLine: 6, Window: 32}
	wide := OpCache{Lines: 512, OpsPerLine: 8, Window: 64}
	for _, c := range []struct {
		name   string
		insts  []asm.Inst
		copies int
		cache  OpCache
		want   int
	}{
		{"nothing", nil, 100, narrow, 0},
		{"one instruction", decode(t, nop...), 1, narrow, 1},
		{"a line's worth", decode(t, nop...), 6, narrow, 1},
		{"one more", decode(t, nop...), 7, narrow, 2},
		{"a window of one-byte instructions: 32 in lines of 6", decode(t, nop...), 32, narrow, 6},
		{"and the next window", decode(t, nop...), 33, narrow, 7},
		{"64 in lines of 8", decode(t, nop...), 64, wide, 8},
		{"four to a window", decode(t, nop8...), 4, narrow, 1},
		{"five take a second", decode(t, nop8...), 5, narrow, 2},
		{"100 windows of four", decode(t, nop8...), 400, narrow, 100},
		// 5 bytes: the seventh starts at 30, in the first window, which then needs a second line. The next window has
		// 35, 40, …, 60: six.
		{"an instruction across a window counts where it starts", decode(t, nop5...), 7, narrow, 2},
		{"and the next window's five", decode(t, nop5...), 12, narrow, 3}, // counted by their ends, six and six would take 2
		{"or six", decode(t, nop5...), 13, narrow, 3},
		{"a block of several is the same", repeat(t, 4, nop8...), 100, narrow, 100},
		{"mixed", decode(t, append(nop5, nop...)...), 6, narrow, 3}, // 36 bytes: 11 start below 32, one after
	} {
		require.Equal(t, c.name, c.want, c.cache.counter(c.insts).upTo(c.copies))
	}
}

// A front end limited by the op cache: 256 lines, of which 76 may be used.
var front = FrontEnd{L1I: 1 << 20, OpCache: OpCache{Lines: 256, OpsPerLine: 6, Window: 32}}

func choose(t *testing.T, insts []asm.Inst, fe FrontEnd) (Factors, bool) {
	t.Helper()
	f, fits := require.Get2(Choose(insts, fe))(t)
	return f, fits
}

// The smallest pair needs four copies in L1I.
func TestChooseRejectsWhatExceedsL1I(t *testing.T) {
	fe := front
	fe.L1I = 4096
	if _, fits := choose(t, repeat(t, 128, nop8...), fe); fits { // 4 × 1,024
		t.Error("a block of a quarter of L1I fits the half")
	}
	for _, insts := range [][]asm.Inst{
		decode(t, append(bytes.Repeat(nop8, 128), nop...)...), // one byte more
		repeat(t, 129, nop8...),
	} {
		_, fits, err := Choose(insts, fe)
		if verdict.ReasonOf(err) != verdict.CodeExceedsL1I || fits {
			t.Errorf("%d bytes: %v, fits %v", length(insts), err, fits)
		}
	}
}

func TestPairs(t *testing.T) {
	for i, p := range pairs {
		if p.Short < 1 || p.Long <= p.Short || i > 0 && p.Long <= pairs[i-1].Long {
			t.Errorf("%v after %v: the grid must ascend", p, pairs[max(i-1, 0)])
		}
		if p.Short >= 16 && (p.Long-p.Short)%32 != 0 {
			t.Errorf("%v: the ends of the images stand at different offsets in their lines", p)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		f      Factors
		copies int
		want   Factors
		ok     bool
	}{
		{Factors{128, 512}, 512, Factors{128, 384}, true}, // must be smaller
		{Factors{128, 512}, 384, Factors{128, 384}, true},
		{Factors{128, 512}, 383, Factors{64, 320}, true},
		{Factors{128, 512}, 3, Factors{1, 3}, true},
		{Factors{128, 512}, 2, Factors{128, 512}, false},
		{Factors{1, 3}, 100, Factors{1, 3}, false},
	} {
		got, ok := c.f.Within(c.copies)
		require.Equal(t, fmt.Sprintf("%v within %d copies", c.f, c.copies), []any{c.want, c.ok}, []any{got, ok})
	}
	for copies, want := range map[int]Factors{2: {1, 3}, 30: {8, 24}} {
		require.Equal(t, copies, want, Factors{128, 512}.AtMost(copies))
	}
}

// TestWithoutOpCache: without op cache, only L1I limits the copies.
func TestWithoutOpCache(t *testing.T) {
	fe := FrontEnd{L1I: 64 << 10}
	for code, want := range map[string]Factors{
		"4801c0":                               pairs[len(pairs)-1],
		strings.Repeat("4801c0", 100):          {32, 96}, // 300 bytes: half of L1I holds 109
		strings.Repeat("4801c0", 64<<10/3/8):   {1, 3},
		strings.Repeat("90", 100):              {64, 320},
		strings.Repeat("0f1f8000000000", 1000): {1, 3},
	} {
		insts := require.Get(asm.DecodeHex(code))(t)
		if got, fits, err := Choose(insts, fe); err != nil || got != want || !fits {
			t.Errorf("%d bytes: %v, %v, %v, want %v", len(code)/2, got, fits, err, want)
		}
	}
}
