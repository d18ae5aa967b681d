package check

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// codes are the code of pieces by their names.
var codes = map[string]string{
	"add":  "4801c0",
	"imul": "480fafc0",
	"neg":  "48f7d8",
	// 1: add rax, [rdi]; add rdi, 8; cmp rdi, rsi; jne 1b, and with four loads for 32 bytes at once
	"loop":     "480307 4883c708 4839f7 75f4",
	"other":    "482b07 4883c708 4839f7 75f4",
	"unrolled": "480307 48034708 48034710 48034718 4883c720 4839f7 75e8",
	"slower":   "480307 480fafc0 4883c708 4839f7 75f0",
	// the same behind a check that leaves it: 1: cmp ecx, eax; jle away, in a block of its own
	"guard":   "39c1 0f8e00010000",
	"guarded": "480307 4883c708 4839f7 75ec",
}

// build makes pieces of words: function@address:code, with ^ after the address where a loop holds it.
func build(t *testing.T, text string) (pieces []Piece) {
	t.Helper()
	for _, word := range strings.Split(text, ";") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		var p Piece
		where, code, _ := strings.Cut(word, ":")
		function, address, placed := strings.Cut(where, "@")
		if strings.HasSuffix(address, "^") {
			address, p.Depth = strings.TrimSuffix(address, "^"), 1
		}
		p.Function, p.Placed, p.Nameless = function, placed, strings.HasPrefix(function, "0x")
		if placed {
			_, err := fmt.Sscanf(address, "%d", &p.Address)
			require.NoError(t, err)
		}
		if p.Code = newCode(require.Hex(t, cmp.Or(codes[code], code))); p.Code == nil {
			t.Fatalf("%s is no block", code)
		}
		pieces = append(pieces, p)
	}
	return pieces
}

// TestMatch: pieces are matched by content before order, functions by name, and code that is the same elsewhere is the
// same, but for loops that stand elsewhere in a line.
func TestMatch(t *testing.T) {
	for _, row := range require.Table(t, "match.txt") {
		name, base, head, want := row[0], row[1], row[2], row[3]
		functions, equal := Match(build(t, base), build(t, head))
		var got []string
		for _, f := range functions {
			for _, x := range f.Changes {
				got = append(got, f.Name+": "+x.Describe())
			}
		}
		if equal > 0 && len(functions) == 0 {
			got = append(got, fmt.Sprintf("%d equal", equal))
		}
		require.Equal(t, name, want, strings.Join(got, "; "))
	}
}

// TestStay: the exits of a loop of several blocks that would be taken are inverted, in either form of the branch.
func TestStay(t *testing.T) {
	of := build(t, "f@0^:39c1 0f8e00010000; f@8^:39c2 7e70; f@12^:4839f7 75ef")
	loops := joined([]*Piece{&of[0], &of[1], &of[2]})
	require.Equal(t, "pieces", 1, len(loops))
	require.Equal(t, "exits that lead to the end", "39c10f8e07000000"+"39c27e03"+"4839f775ef", hex.EncodeToString(loops[0].Bytes))
	taking := profiling(func(b profiler.Block) (r profiler.Result) {
		for at, opcode := range map[int]int{2: 3, 10: 10} {
			if b.Code[opcode]&1 == 0 && (at == 2 || b.Code[3]&1 == 1) { // the first one taken is the last to run
				r.Inner = []profiler.BranchedReport{{Offset: at, Taken: 1, Of: 1}}
			}
		}
		return r
	})
	require.NoError(t, loops[0].stay(t.Context(), taking))
	require.Equal(t, "exits that are not taken", "39c10f8f07000000"+"39c27f03"+"4839f775ef", hex.EncodeToString(loops[0].Bytes))
}

type profiling func(profiler.Block) profiler.Result

func (f profiling) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	return f(b), nil
}

// machine is a profiler of instructions that each take a time, with some noise.
type machine struct {
	random *rand.Rand
	noise  float64
	place  func(offset int) float64 // factor of a loop's time
	busy   int                      // rejections to come
	alias  string                   // the instruction that it rejects
}

func (m *machine) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	if m.busy > 0 {
		m.busy--
		r := &verdict.Rejection{Reason: verdict.BusyCore}
		return profiler.Result{Status: profiler.Rejected, Reason: r.Reason, Rejection: r}, nil
	}
	piece := newCode(b.Code)
	if m.alias != "" && strings.Contains(piece.Text, m.alias) {
		r := &verdict.Rejection{Reason: verdict.Alias4K}
		return profiler.Result{Status: profiler.Rejected, Reason: r.Reason, Rejection: r}, nil
	}
	cycles := 0.0
	insts, _ := asm.Decode(b.Code)
	for i := range insts {
		cycles += map[string]float64{"imul": 3, "jne": 0}[insts[i].Mnemonic]
		if name := insts[i].Mnemonic; name != "imul" && name != "jne" {
			cycles++
		}
	}
	if piece.loop && b.Setup.CodeOffset != nil && m.place != nil {
		cycles *= m.place(*b.Setup.CodeOffset)
	}
	cycles *= 1 + m.noise*m.random.NormFloat64()
	return profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles, CIHigh: cycles}, nil
}

func run(t *testing.T, m *machine, base, head string, o Options) []Function {
	t.Helper()
	functions, _ := Match(build(t, base), build(t, head))
	m.random, o.Threshold, o.Layouts, o.Seed = rand.New(rand.NewPCG(1, 2)), 0.03, 24, 1
	require.NoError(t, Run(context.Background(), m, functions, o))
	return functions
}

// TestVerdicts: on a made-up machine each kind of change gets its verdict.
func TestVerdicts(t *testing.T) {
	atLine := func(offset int) float64 { return 1 + float64(offset%64/32) }
	for _, c := range []struct {
		name, base, head string
		m                machine
		want             Verdict
	}{
		{"slower", "f:add", "f:imul", machine{noise: 0.005}, Slower},
		{"faster", "f:imul", "f:add", machine{noise: 0.005}, Faster},
		{"as fast", "f:add", "f:neg", machine{noise: 0.005}, Same},
		{"too noisy to tell", "f:add", "f:neg", machine{noise: 0.3}, Unclear},
		{"new", "f:add", "f:add;f:imul", machine{}, Listed},
		{"unrolled", "f@0:loop", "f@0:unrolled", machine{}, Faster}, // 6 cycles of four for 3 of one
		{"a loop that became slower", "f@0:loop", "f@0:slower", machine{noise: 0.005}, Slower},
		{"a loop with a check more", "f@0:loop", "f@0^:guard;f@8^:guarded", machine{noise: 0.005}, Slower},
		{"of which no row can be measured", "f@0:loop", "f@0^:guard;f@8^:guarded", machine{alias: "jle .+0xa"}, Listed}, // its blocks by themselves are more than one
		{"moved and as fast", "f@0:loop", "f@16:loop", machine{noise: 0.005}, Same},
		{"moved and slower", "f@0:loop", "f@32:loop", machine{noise: 0.005, place: atLine}, Layout},
		{"slower code outside a loop that changed too", "f@0:loop;f:add", "f@0:unrolled;f:imul", machine{}, Faster},
		{"and with the loop as it was", "f@0:loop;f:add", "f@0:loop;f:imul", machine{}, Slower},
		{"a loop changed that now crosses a line", "f@0:loop", "f@32:other", machine{noise: 0.005, place: atLine}, Layout},
		{"and that crosses one no more", "f@32:loop", "f@0:other", machine{noise: 0.005, place: atLine}, Same},
		{"slower beside what cannot be measured", "f:add;f:4829c8", "f:imul;f:4829c9", machine{alias: "sub"}, Slower},
		{"and alone", "f:4829c8", "f:4829c9", machine{alias: "sub"}, Unknown},
		{"busy for a while", "f:add", "f:imul", machine{busy: 3}, Slower},
		{"busy all the time", "f:add", "f:imul", machine{busy: 1 << 30}, Unknown},
	} {
		functions := run(t, &c.m, c.base, c.head, Options{})
		require.Equal(t, c.name, c.want, functions[0].Verdict(0.03))
		for _, x := range functions[0].Changes { // a number of nothing would be written as 0
			require.Equal(t, c.name+": has a difference", len(x.Base) > 0 && len(x.Head) > 0 && x.Verdict != Unknown, x.Interval != nil)
		}
	}
}

// TestNoFalseAlarms: of 40 checks of 50 functions whose every block is measured and none differs, none has a verdict.
func TestNoFalseAlarms(t *testing.T) {
	var base, head strings.Builder
	for i := range 50 {
		fmt.Fprintf(&base, "f%d:add;", i)
		fmt.Fprintf(&head, "f%d:neg;", i)
	}
	for n := range 40 {
		functions, _ := Match(build(t, base.String()), build(t, head.String()))
		m := &machine{random: rand.New(rand.NewPCG(uint64(n), 3)), noise: 0.01}
		require.NoError(t, Run(context.Background(), m, functions, Options{Threshold: 0.03, Layouts: 24, Seed: uint64(n)}))
		for _, f := range functions {
			if v := f.Verdict(0.03); v != Same {
				t.Errorf("run %d: %s is %s: %+v", n, f.Name, v, f.Changes[0].Outcome)
			}
		}
	}
}

// TestMissing: a function is not the same by its counts if much of what changed could not be measured.
func TestMissing(t *testing.T) {
	for count, want := range map[float64]Verdict{2: Same, 4: Unclear} { // of 100, with a threshold of 3 %
		base := build(t, "f:add;f:4829c8")
		base[0].Count, base[1].Count = 100-count, count
		functions, _ := Match(base, build(t, "f:neg;f:4829c9"))
		m := &machine{random: rand.New(rand.NewPCG(1, 2)), alias: "sub"}
		require.NoError(t, Run(context.Background(), m, functions, Options{Threshold: 0.03, Layouts: 4, Weighted: true}))
		require.Equal(t, "verdict", want, functions[0].Verdict(0.03))
		require.Equal(t, "share that is missing", count/100, functions[0].Cost.Missing)
	}
}

// TestCost: with counts a function is judged by what its pieces take together.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		cold, hot float64
		want      Verdict
	}{
		{1, 1000, Same},
		{1000, 1, Slower},
	} {
		base := build(t, "f:add;f:neg")
		base[0].Count, base[1].Count = c.cold, c.hot
		functions, _ := Match(base, build(t, "f:imul;f:neg"))
		m := &machine{random: rand.New(rand.NewPCG(1, 2))}
		require.NoError(t, Run(context.Background(), m, functions, Options{Threshold: 0.03, Layouts: 4, Weighted: true}))
		require.Equal(t, "verdict", c.want, functions[0].Verdict(0.03))
		require.Equal(t, "cost of the base", c.cold+c.hot, functions[0].Cost.Base)
		require.Equal(t, "cost of the head", 3*c.cold+c.hot, functions[0].Cost.Head)
	}
}

// TestCostOfJoined: a loop of several blocks that both builds have costs what the row takes that stays within it.
func TestCostOfJoined(t *testing.T) {
	const both = "f@0^:guard;f@8^:guarded"
	base := build(t, both+";f@64:loop")
	base[0].Count = 10
	functions, _ := Match(base, build(t, both))
	staying := profiling(func(b profiler.Block) profiler.Result {
		r := profiler.Result{Status: profiler.OK, Cycles: 99, CILow: 99, CIHigh: 99}
		switch {
		case b.Setup.Branch == profiler.NotTaken && b.Code[3]&1 == 1:
			r.Cycles, r.CILow, r.CIHigh = 5, 5, 5
		case b.Code[3]&1 == 0:
			r.Inner = []profiler.BranchedReport{{Offset: 2, Taken: 1, Of: 1}}
		}
		return r
	})
	require.NoError(t, Run(context.Background(), staying, functions, Options{Threshold: 0.03, Layouts: 4, Weighted: true}))
	require.Equal(t, "cost", 50.0, functions[0].Cost.Base)
}

func pieces(keys ...int) (all []*Piece) {
	for _, k := range keys {
		all = append(all, &Piece{Code: &Code{key: fmt.Sprint(k)}})
	}
	return all
}

// longest is the length of a longest common subsequence.
func longest(a, b []*Piece) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return 0
	case a[0].key == b[0].key:
		return 1 + longest(a[1:], b[1:])
	}
	return max(longest(a[1:], b), longest(a, b[1:]))
}

func TestCommon(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var keys [2][]int
		for side := range keys {
			for range random.IntN(10) {
				keys[side] = append(keys[side], random.IntN(5))
			}
		}
		a, b := pieces(keys[0]...), pieces(keys[1]...)
		pairs, last := common(a, b), [2]int{-1, -1}
		require.Equal(t, fmt.Sprintf("pairs of %v", keys), longest(a, b), len(pairs))
		for _, p := range pairs {
			if p[0] <= last[0] || p[1] <= last[1] || a[p[0]].key != b[p[1]].key {
				t.Fatalf("%v: %v are not a common subsequence", keys, pairs)
			}
			last = p
		}
	}
}

// TestManyPieces: a function of any size is matched in a moment.
func TestManyPieces(t *testing.T) {
	many := make([]int, 100_000)
	for i := range many {
		many[i] = i % 1000
	}
	a, b := pieces(many...), pieces(many...)
	a[7].key, b[len(b)-7].key = "only here", "only there"
	var sides [2][]Piece
	for side, all := range [][]*Piece{a, b} {
		for _, p := range all {
			sides[side] = append(sides[side], *p)
		}
	}
	functions, equal := Match(sides[0], sides[1])
	if equal != 0 || len(functions) != 1 || functions[0].Equal < len(many)-10 {
		t.Errorf("%d equal functions, of %d others the first has %d equal pieces", equal, len(functions), functions[0].Equal)
	}
}
