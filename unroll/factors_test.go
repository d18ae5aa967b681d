package unroll

import (
	"bytes"
	"errors"
	"math"
	"slices"
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
	nop3 = []byte{0x0f, 0x1f, 0x00}
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
		var r *verdict.Rejection
		if !errors.As(err, &r) || r.Reason != verdict.CodeExceedsL1I || fits {
			t.Errorf("%d bytes: %v, fits %v", length(insts), err, fits)
		}
	}
}

func TestPairs(t *testing.T) {
	for _, list := range [][]Factors{pairs[:], densePairs[:], fewPairs[:], shortPairs[:]} {
		for i, p := range list {
			if p.Short < 1 || p.Long <= p.Short || i > 0 && p.Long <= list[i-1].Long {
				t.Errorf("%v after %v: the grid must ascend", p, list[max(i-1, 0)])
			}
			if p.Short >= 16 && (p.Long-p.Short)%32 != 0 {
				t.Errorf("%v: the ends of the images stand at different offsets in their lines", p)
			}
		}
	}
}

func TestLater(t *testing.T) {
	for _, c := range []struct {
		of, want Factors
		ok       bool
	}{
		{Factors{32, 96}, Factors{64, 96}, true},
		{Factors{64, 128}, Factors{96, 128}, true},
		{Factors{16, 48}, Factors{32, 48}, true},
		{Factors{2, 6}, Factors{4, 6}, true},
		{Factors{1, 3}, Factors{2, 3}, false},
		{Factors{32, 64}, Factors{48, 64}, false}, // 16 copies after 48 are too few
		{Factors{48, 80}, Factors{64, 80}, false},
	} {
		if got, ok := c.of.Later(); got != c.want || ok != c.ok {
			t.Errorf("after %v: %v, %v, want %v, %v", c.of, got, ok, c.want, c.ok)
		}
	}
}

// A front end with a large op cache: of its 512 lines short and dense blocks may use 102, others 153.
var large = FrontEnd{L1I: 1 << 20, OpCache: OpCache{Lines: 512, OpsPerLine: 8, Window: 64}}

func TestChooseOfALargeOpCache(t *testing.T) {
	narrow := OpCache{Lines: 511, OpsPerLine: 8, Window: 64}
	for _, c := range []struct {
		name  string
		insts []asm.Inst
		fe    FrontEnd
		want  Factors
	}{
		{"1 byte: 96 lines for 768 copies", decode(t, nop...), large, Factors{256, 768}},
		{"3 bytes: 90 lines for 640 copies, 108 for 768", decode(t, nop3...), large, Factors{256, 640}},
		{"4 bytes: no more copies, whatever they take", decode(t, nop4...), large, Factors{256, 512}},
		{"of which L1I holds 640 copies", decode(t, nop...), FrontEnd{L1I: 640 * 2, OpCache: large.OpCache}, Factors{256, 640}},
		{"of a smaller op cache", decode(t, nop...), FrontEnd{L1I: 1 << 20, OpCache: narrow}, Factors{128, 512}},
		{"2 of 8 bytes: 96 lines for 384 copies, 128 for 512", repeat(t, 2, nop8...), large, Factors{128, 384}},
		{"3 of 8 bytes: 96 lines for 256 copies, 120 for 320", repeat(t, 3, nop8...), large, Factors{64, 256}},
		{"3 of 8 bytes, of which L1I holds 192 copies", repeat(t, 3, nop8...), FrontEnd{L1I: 24 * 192 * 2, OpCache: large.OpCache}, Factors{64, 192}},

		// 16 instructions a window of two lines are not dense, 18 are.
		{"2 of 4 bytes: 96 lines for 384 copies, 128 for 512", repeat(t, 2, nop4...), large, Factors{128, 384}},
		{"2 of 7 bytes together: 84 lines for 256 copies, 105 for 320", decode(t, append(nop4, nop3...)...), large, Factors{128, 256}},
		{"3 of 11 bytes together: 99 lines for 192 copies, 115 for 224", decode(t, append(nop4, append(nop4, nop3...)...)...), large, Factors{64, 192}},
		{"4 of 15 bytes together: 90 lines for 128 copies, 112 for 160", decode(t, append(bytes.Repeat(nop4, 3), nop3...)...), large, Factors{64, 128}},
		{"5 of 17 bytes together: 102 lines for 128 copies", decode(t, append(bytes.Repeat(nop3, 3), bytes.Repeat(nop4, 2)...)...), large, Factors{64, 128}},
		{"5 of 18 bytes together: 108 lines for 128 copies", decode(t, append(bytes.Repeat(nop3, 2), bytes.Repeat(nop4, 3)...)...), large, Factors{32, 96}},
		{"2 of 1 byte: 96 lines for 384 copies, 128 for 512", repeat(t, 2, nop...), large, Factors{128, 384}},
		{"of which L1I holds 95 copies", decode(t, append(nop4, nop3...)...), FrontEnd{L1I: 7 * 95 * 2, OpCache: large.OpCache}, Factors{48, 80}},

		{"4 of 4 bytes are not dense: 128 lines for 256 copies, 160 for 320", repeat(t, 4, nop4...), large, Factors{64, 256}},
		{"4 of 8 bytes: 128 lines for 256 copies, 160 for 320", repeat(t, 4, nop8...), large, Factors{64, 256}},
		{"7 of 22 bytes together: 99 lines for 96 copies", decode(t, append(bytes.Repeat(nop3, 6), nop4...)...), large, Factors{32, 96}},
		{"7 of 23 bytes together: 86 lines for 80 copies, 104 for 96",
			decode(t, append(bytes.Repeat(nop3, 5), bytes.Repeat(nop4, 2)...)...), large, Factors{48, 80}},
		{"8 of 28 bytes together: 84 lines for 64 copies, 105 for 80",
			decode(t, append(bytes.Repeat(nop3, 4), bytes.Repeat(nop4, 4)...)...), large, Factors{32, 64}},
		{"12 of 40 bytes together: 90 lines for 48 copies, 120 for 64",
			decode(t, append(bytes.Repeat(nop3, 8), bytes.Repeat(nop4, 4)...)...), large, Factors{16, 48}},
		{"7 of 3 bytes: 95 lines for 96 copies", repeat(t, 7, nop3...), large, Factors{32, 96}},
		{"4 of a smaller op cache", repeat(t, 4, nop4...), FrontEnd{L1I: 1 << 20, OpCache: narrow}, Factors{64, 256}},
	} {
		if got, fits := choose(t, c.insts, c.fe); got != c.want || !fits {
			lines := c.fe.OpCache.counter(c.insts)
			t.Errorf("%s: %v, fits %v; want %v; lines for %d copies: %d", c.name, got, fits, c.want, got.Long, lines.upTo(got.Long))
		}
	}
}

func TestThroughput(t *testing.T) {
	for f, want := range map[Factors]float64{{16, 48}: 6.25, {0, 100}: 3} { // 0: Equation 1, by the longer image alone
		require.Equal(t, f, want, Throughput(100, 300, f))
	}
	require.Equal(t, "a slow shorter image", -6.25, Throughput(300, 100, Factors{16, 48}))
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
		if got != c.want || ok != c.ok {
			t.Errorf("%v within %d copies: %v %v, want %v %v", c.f, c.copies, got, ok, c.want, c.ok)
		}
	}
	for copies, want := range map[int]Factors{2: {1, 3}, 30: {8, 24}} {
		require.Equal(t, copies, want, Factors{128, 512}.AtMost(copies))
	}
}

// A front end with slack for 140 windows, and 64 sets of 16 lines.
var ahead = FrontEnd{
	L1I: 32 << 10, OpCache: OpCache{Lines: 1024, OpsPerLine: 6, Window: 64},
	Lead: Lead{Windows: 140, Sets: 64, WindowCycles: 1. / 3, LineCycles: 2. / 3},
}

func TestPastLead(t *testing.T) {
	const room = 22 << 10
	for _, c := range []struct {
		name  string
		insts []asm.Inst
		bytes int
		want  Factors
		ok    bool
	}{
		{"4 of 12 bytes: 192 windows of four lines", repeat(t, 4, nop3...), room, Factors{768, 1024}, true},
		{"as many bytes as there are", repeat(t, 4, nop3...), 1792 * 12, Factors{768, 1024}, true},
		{"and one less", repeat(t, 4, nop3...), 1792*12 - 1, Factors{736, 992}, true},
		{"5 of 16 bytes: 192 windows of four lines, and more of 800 copies", decode(t, append(bytes.Repeat(nop3, 4), nop4...)...),
			room, Factors{576, 768}, true},
		{"2 of 5 bytes: five lines, three windows in some sets, 85 % of all lines", decode(t, slices.Concat(nop2, nop3)...), room, Factors{1568, 2208}, true},
		{"3 of 12 bytes: as many windows of three lines", repeat(t, 3, nop4...), room, Factors{768, 1024}, true},
		{"1 byte: 64 windows of eleven lines, one in each set", decode(t, nop...), room, Factors{1024, 4096}, true},
		{"2 of 16 bytes: 140 windows, and 48 more", repeat(t, 2, nop8...), room, Factors{576, 768}, true},
		{"8 of 24 bytes", repeat(t, 8, nop3...), room, Factors{384, 512}, true},
		{"16 of 48 bytes: in steps of 16", repeat(t, 16, nop3...), room, Factors{192, 256}, true},
		{"25 of 200 bytes: in steps of 4", repeat(t, 25, nop8...), room, Factors{48, 64}, true},
		{"of which 24 copies fit, whatever the lead", repeat(t, 25, nop8...), 24 * 200, Factors{4, 20}, true},
		{"and one byte less", repeat(t, 25, nop8...), 24*200 - 1, Factors{}, false},
		{"70 of 210 bytes", repeat(t, 70, nop3...), room, Factors{40, 56}, true},
	} {
		got, ok := PastLead(c.insts, ahead, c.bytes)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// Windows shared by copies count once per part.
func TestServed(t *testing.T) {
	for _, c := range []struct {
		name  string
		insts []asm.Inst
		want  float64
	}{
		{"16 of 64 bytes: three lines", repeat(t, 16, nop4...), 7. / 3},
		{"8 of 32 bytes: half of that", repeat(t, 8, nop4...), 7. / 6},
		{"8 of 64 bytes: two lines", repeat(t, 8, nop8...), 5. / 3},
		{"64 of 64 bytes: eleven", repeat(t, 64, nop...), 23. / 3},
		{"4 of 12 bytes: 21 or 22 in a window, four lines", repeat(t, 4, nop3...), 3 * 12. / 64},
		{"8 of 64 bytes with an address and an immediate: three lines", repeat(t, 8, 0x48, 0x83, 0xbd, 0, 0xff, 0xff, 0xff, 0), 7. / 3},
		{"16 of 64 bytes with an address alone: three", repeat(t, 16, 0x48, 0x8b, 0x45, 0), 7. / 3},
		{"16 of 64 bytes with an immediate alone: three", repeat(t, 16, 0x48, 0x83, 0xc0, 1), 7. / 3},
	} {
		if got := ahead.Served(c.insts); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
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
