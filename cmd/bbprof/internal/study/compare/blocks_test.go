package compare

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// fake is a profiler on which the block's first byte selects, through needs, the initial state it needs.
type fake struct {
	needs      map[byte]string
	asked      []profiler.Block
	impossible profiler.Impossible // what its results say
}

func (f *fake) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	f.asked = append(f.asked, b)
	inits := initial.States()
	if b.Setup.Init != nil {
		inits = []initial.State{*b.Setup.Init}
	}
	for _, init := range inits {
		if need := f.needs[b.Code[0]]; need == "" || need == init.Name {
			init = b.Setup.Set.Over(init)
			return profiler.Result{Status: profiler.OK, Cycles: float64(b.Code[0]), Init: init, Impossible: f.impossible}, nil
		}
	}
	return profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.SIGFPE}}, nil
}

// TestBlocksShareTheirState: sides have one initial state, and each keeps what it sets over it, and its address.
func TestBlocksShareTheirState(t *testing.T) {
	set := func(text string) initial.Set { return require.Get(initial.ParseSet(text))(t) }
	one, two := new(uint64(0x401010)), new(uint64(0x402020))
	rbx := initial.Paper().GPR[asm.RBX]
	for _, c := range []struct {
		name  string
		needs map[byte]string
		a, b  profiler.Setup
		want  string    // state of both; "" if they have none in common
		rbx   [2]uint64 // of each
		side  string    // that has no state
	}{
		{"any", nil, profiler.Setup{Address: one}, profiler.Setup{Address: two}, "paper", [2]uint64{rbx, rbx}, ""},
		{"b needs another", map[byte]string{2: "distinct"}, profiler.Setup{}, profiler.Setup{}, "distinct", [2]uint64{}, ""},
		{"a needs another", map[byte]string{1: "divisible"}, profiler.Setup{}, profiler.Setup{}, "divisible", [2]uint64{}, ""},
		{"both the same", map[byte]string{1: "low", 2: "low"}, profiler.Setup{}, profiler.Setup{}, "low", [2]uint64{}, ""},
		{"a sets", nil, profiler.Setup{Set: set("rbx=0x5000")}, profiler.Setup{}, "paper", [2]uint64{0x5000, rbx}, ""},
		{"both set, b needs another", map[byte]string{2: "low"}, profiler.Setup{Set: set("rbx=0x5000"), Address: one},
			profiler.Setup{Set: set("rbx=0x7000"), Address: two}, "low", [2]uint64{0x5000, 0x7000}, ""},
		{"both set the same, b needs another", map[byte]string{2: "low"}, profiler.Setup{Set: set("rbx=0x5000")},
			profiler.Setup{Set: set("rbx=0x5000")}, "low", [2]uint64{0x5000, 0x5000}, ""},
		{"a cannot have that of b", map[byte]string{1: "paper", 2: "distinct"}, profiler.Setup{}, profiler.Setup{}, "", [2]uint64{}, "a"},
		{"b cannot have any", map[byte]string{2: "none"}, profiler.Setup{}, profiler.Setup{}, "", [2]uint64{}, "b"},
	} {
		f := &fake{needs: c.needs}
		blocks := []profiler.Block{{Code: []byte{1}, Setup: c.a}, {Code: []byte{2}, Setup: c.b}}
		measure, first, err := Blocks(context.Background(), f, blocks)
		if c.want == "" {
			var side *SideError
			var rejection *verdict.Rejection
			if !errors.As(err, &side) || side.Side != c.side || !errors.As(err, &rejection) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		require.NoError(t, err)
		for i, m := range measure {
			v, err := m(context.Background(), Layout{Start: 16, Data: 0x140})
			asked := f.asked[len(f.asked)-1]
			if err != nil || v != float64(i+1) || asked.Code[0] != byte(i+1) || *asked.Setup.CodeOffset != 16 ||
				asked.Setup.Address != blocks[i].Setup.Address || asked.Setup.Init.Name != c.want || first[i].Init.Name != c.want {
				t.Errorf("%s, side %s: %v, %v of %+v", c.name, Name(i), v, err, asked)
			}
			if got := asked.Setup.Init.GPR[asm.RBX] - 0x140; c.rbx[i] != 0 && got != c.rbx[i] {
				t.Errorf("%s, side %s: rbx %#x, want %#x", c.name, Name(i), got, c.rbx[i])
			}
		}
	}
}

// TestImpossible: a number below what the core can do is none.
func TestImpossible(t *testing.T) {
	sides, _, err := Blocks(context.Background(), &fake{impossible: profiler.BelowDispatch}, []profiler.Block{{Code: []byte{1}}})
	require.NoError(t, err)
	if _, err := sides[0](context.Background(), Layout{}); !errors.As(err, new(*verdict.Rejection)) {
		t.Errorf("%v", err)
	}
}

// TestSpread: each pointer moves to its own page and offset, the same for both sides; stack pointers stay together.
func TestSpread(t *testing.T) {
	const seed = 3
	equal := 0 // pairs of pointers with equal low 12 bits, in 200 layouts
	for _, plain := range Draw(seed, 200) {
		l := plain.Spread(seed)
		if again := plain.Spread(seed); !slices.Equal(l.Apart, again.Apart) || slices.Equal(l.Apart, plain.Spread(seed+1).Apart) {
			t.Fatalf("layout %d: %v, again %v", l.Number, l.Apart, again.Apart)
		}
		for _, init := range initial.States() {
			s := l.setup(init)
			pages := map[uint64]bool{}
			for r, was := range init.GPR {
				now := s.Init.GPR[r]
				if (was == 0) != (now == 0) || (now-was)%dataUnit != 0 || init.Name == divisible && byte(now) != byte(was) {
					t.Errorf("%s: register %d is %#x, was %#x", init.Name, r, now, was)
				}
				if r != int(asm.RBP) && now != 0 {
					pages[now/page] = true
				}
			}
			pages[s.Init.Fill/page] = true
			if want := pointers - 1; len(pages) != want && init.Name != divisible || len(pages) < want-1 {
				t.Errorf("%s: %d pages", init.Name, len(pages))
			}
			if got, was := s.Init.GPR[asm.RSP]-s.Init.GPR[asm.RBP], init.GPR[asm.RSP]-init.GPR[asm.RBP]; got != was {
				t.Errorf("%s: rsp and rbp are %d bytes apart, were %d", init.Name, int64(got), int64(was))
			}
			if !slices.Contains(s.Tolerate, verdict.Alias4K) || slices.Contains(plain.setup(init).Tolerate, verdict.Alias4K) {
				t.Errorf("%s: 4K aliasing is not tolerated where pointers are spread, and only there", init.Name)
			}
			if init.Name == "paper" && (s.Init.GPR[asm.RSI]-s.Init.GPR[asm.RDI])%page == 0 {
				equal++
			}
		}
	}
	if equal == 0 || equal > 12 { // 200/64 are expected
		t.Errorf("rsi and rdi have equal low 12 bits in %d of 200 layouts", equal)
	}
}
