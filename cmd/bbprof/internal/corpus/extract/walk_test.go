package extract

import (
	"debug/elf"
	"encoding/hex"
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
		b := require.Get(hex.DecodeString(strings.ReplaceAll(text, " ", "")))(t)
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
	for _, tt := range []struct {
		name, code, data string
		cut              Cut
		want             []string
	}{
		{"a call ends a block", "4801c0 e8fb0f0000 4801c9 c3", "", CutLeader,
			[]string{"0x1000 4801c0 call 0x2003", "0x1008 4801c9 ret"}},
		{"a system call does", "89c8 0f05 89c8 c3", "", CutLeader,
			[]string{"0x1000 89c8 syscall", "0x1004 89c8 ret"}},
		{"a branch's target starts one", "89c8 ffc9 75fc c3", "", CutLeader,
			[]string{"0x1000 89c8", "0x1002 ffc9 jne 0x1002"}},
		{"and does not with the cut at transfers", "89c8 ffc9 75fc c3", "", CutTransfer,
			[]string{"0x1000 89c8ffc9 jne 0x1002", "0x1002 ffc9 jne 0x1002"}},
		{"endbr64 starts one", "89c8 f30f1efa 89c8 c3", "", CutLeader,
			[]string{"0x1000 89c8", "0x1002 f30f1efa89c8 ret"}},
		{"padding behind a jump is none", "85c0 7409 89c8 eb05 0f1f4000 90 89d0 c3", "", CutLeader,
			[]string{"0x1000 85c0 je 0x100d", "0x1004 89c8 jmp 0x100d", "0x100d 89d0 ret"}},
		{"what a call that never returns has behind it is none", "89c8 e8f90f0000 9090", "", CutLeader,
			[]string{"0x1000 89c8 call 0x2000"}},
		{"code that nothing leads to reads as code", "89c8 ffe0 89d0 c3", "", CutLeader,
			[]string{"0x1000 89c8 jmp rax", "0x1004 89d0 ret"}},
		{"and data does not, though it decodes", "89c8 ffe0 4100000041000000", "", CutLeader,
			[]string{"0x1000 89c8 jmp rax"}},
		{"nor what would fall out of the function", "89c8 ffe0 89d0", "", CutLeader,
			[]string{"0x1000 89c8 jmp rax"}},
		{"nor what branches into the middle of an instruction", "89c8 ffe0 89d0 74fb c3", "", CutLeader,
			[]string{"0x1000 89c8 jmp rax"}},
		{"nothing after a byte that is no instruction", "85c0 7403 89c8 06 89d0 c3", "", CutLeader,
			[]string{"0x1000 85c0 je 0x1007"}},
		{"a branch behind a prefix starts none", "7401 f00fb10b 89c8 c3", "", CutLeader,
			[]string{"0x1002 f00fb10b89c8 ret"}},
		{"distances in a jump table do", // lea rax, [rip+0xff9]; movsxd rcx, [rax+rcx*4]; add rcx, rax; jmp rcx; two cases, the first running into the second
			"488d05f90f0000 48630c88 4801c1 ffe1 89c8 89d0 c3", "10f0ffff12f0ffff 00000000", CutLeader,
			[]string{"0x1000 488d05f90f000048630c884801c1 jmp rcx", "0x1010 89c8", "0x1012 89d0 ret"}},
		{"addresses in one too", "ff24c500200000 89c8 89d0 c3", "0710000000000000 0910000000000000", CutLeader,
			[]string{"0x1007 89c8", "0x1009 89d0 ret"}},
	} {
		o := fabricate(t, tt.code, tt.data)
		require.Equal(t, tt.name, tt.want, blocksOf(t, o, Options{Cut: tt.cut}, nil))
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
			if got := blocksOf(t, o, Options{}, nil); len(got) != stubs {
				t.Fatalf("%d blocks of %d stubs", len(got), stubs)
			}
		})
	}
	if few, many := work(100), work(400); many > 6*few {
		t.Errorf("%.0f allocations for 100 stubs, %.0f for 400", few, many)
	}
}
