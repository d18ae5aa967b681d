package extract

import (
	"debug/elf"
	"fmt"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// fabricate makes an object with one code section at 0x1000, one function if there are no claims, and a data
// section at 0x2000.
func fabricate(t *testing.T, code, data string, claims ...claim) *object {
	t.Helper()
	o := &object{name: "test", stats: new(Stats)}
	for i, text := range []string{code, data} {
		b := require.Hex(t, text)
		if len(b) == 0 {
			continue
		}
		addr := uint64(0x1000 * (i + 1))
		o.sections = append(o.sections, &section{
			Section: &elf.Section{SectionHeader: elf.SectionHeader{Name: []string{".text", ".rodata"}[i], Size: uint64(len(b)), Type: elf.SHT_PROGBITS}},
			addr:    addr, executable: i == 0, bytes: b, loaded: true,
		})
	}
	if len(claims) == 0 {
		claims = []claim{{span{0x1000, 0x1000 + o.sections[0].size()}, "f", rankGlobal}}
	}
	o.functions = divide(o.sections[0], claims)
	return o
}

// blocksOf formats an object's blocks as address, code and terminator.
func blocksOf(t *testing.T, o *object, opts Options, c counts) []string {
	t.Helper()
	var got []string
	e := &extraction{o: o, opts: opts, stats: o.stats, counts: c, w: walker{o: o}, yield: func(b *Block) error {
		line := fmt.Sprintf("%#x %x", b.Addr, b.Code)
		if b.Terminator != "" {
			line += " " + b.Terminator
		}
		if c != nil {
			line += fmt.Sprintf(" ×%d", b.Count)
		}
		got = append(got, line)
		return nil
	}}
	e.survey()
	require.NoError(t, e.blocks())
	return got
}

func TestBlocks(t *testing.T) {
	for _, row := range require.Table(t, "blocks.txt") {
		o := fabricate(t, row[0], row[1])
		require.Equal(t, row[3], row[4:], blocksOf(t, o, Options{Cut: Cut(row[2])}, nil))
	}
}

// TestFunctionsBoundBlocks: a block ends where another function starts, and a jump into another function's middle
// starts a block there.
func TestFunctionsBoundBlocks(t *testing.T) {
	o := fabricate(t, "89c8 89d0 89c1 c3 ebf9", "",
		claim{span{0x1000, 0x1007}, "f", rankGlobal}, claim{span{0x1000, 0x1007}, "", rankFrame},
		claim{span{0x1004, 0x1004}, "alias", rankLocal}, claim{span{0x1007, 0x1009}, "f.cold", rankLocal})
	want := []string{"0x1000 89c8", "0x1002 89d0", "0x1004 89c1 ret"}
	require.Equal(t, "it", want, blocksOf(t, o, Options{Cut: CutLeader}, nil))
}

// TestCounts: with counts, only executed blocks remain, and an instruction that ran more often than its
// predecessor starts one. A repeated instruction counts its repetitions.
func TestCounts(t *testing.T) {
	code := "89c8 f3a4 89d0 89c1 75f6 c3" // mov; rep movsb; mov; mov; jne 0x1000; ret
	ran := newExactCounts(map[uint64]uint64{0x1000: 5, 0x1002: 500, 0x1004: 5, 0x1006: 7, 0x1008: 7, 0x100a: 1}, false)
	for cut, want := range map[Cut][]string{
		CutLeader:   {"0x1000 89c8f3a489d0 ×5", "0x1006 89c1 jne 0x1000 ×7"},
		CutTransfer: {"0x1000 89c8f3a489d089c1 jne 0x1000 ×5", "0x1006 89c1 jne 0x1000 ×2"},
	} {
		o := fabricate(t, code, "")
		require.Equal(t, fmt.Sprintf("cut at each %s", cut), want, blocksOf(t, o, Options{Cut: cut, Profile: new(Profile)}, ran))
	}
	o := fabricate(t, "c3 cccccc 89c8 c3", "", claim{span{0x1000, 0x1001}, "f", rankGlobal})
	missed := newExactCounts(map[uint64]uint64{0x1004: 3, 0x1006: 3}, false)
	o.addExecuted(missed)
	require.Equal(t, "code that no function holds", []string{"0x1004 89c8 ret ×3"}, blocksOf(t, o, Options{Cut: CutLeader}, missed))
}

// TestManyStubs: a function of unreachable stubs is decoded once, not after each stub: work grows linearly with
// their number.
func TestManyStubs(t *testing.T) {
	work := func(stubs int) float64 {
		o := fabricate(t, strings.Repeat("31c0c3", stubs), "")
		return testing.AllocsPerRun(1, func() {
			require.Equal(t, "blocks", stubs, len(blocksOf(t, o, Options{}, nil)))
		})
	}
	if few, many := work(100), work(400); many > 6*few {
		t.Errorf("%.0f allocations for 100 stubs, %.0f for 400", few, many)
	}
}
