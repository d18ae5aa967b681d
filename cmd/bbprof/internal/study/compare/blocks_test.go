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
	needs map[byte]string
	asked []profiler.Block
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
			return profiler.Result{Status: profiler.OK, Cycles: float64(b.Code[0]), Init: init}, nil
		}
	}
	return profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.SIGFPE}}, nil
}

func TestBlocksShareTheirState(t *testing.T) {
	for _, c := range []struct {
		name  string
		needs map[byte]string
		want  string // "" if they have none in common
		side  string
	}{
		{"any", nil, "paper", ""},
		{"b needs another", map[byte]string{2: "distinct"}, "distinct", ""},
		{"a needs another", map[byte]string{1: "divisible"}, "divisible", ""},
		{"both the same", map[byte]string{1: "low", 2: "low"}, "low", ""},
		{"a cannot have that of b", map[byte]string{1: "paper", 2: "distinct"}, "", "a"},
		{"b cannot have any", map[byte]string{2: "none"}, "", "b"},
	} {
		f := &fake{needs: c.needs}
		measure, first, err := Blocks(context.Background(), f,
			[]profiler.Block{{Code: []byte{1}}, {Code: []byte{2}}})
		if c.want == "" {
			var side *SideError
			var rejection *verdict.Rejection
			if !errors.As(err, &side) || side.Side != c.side || !errors.As(err, &rejection) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || first[0].Init.Name != c.want || first[1].Init.Name != c.want {
			t.Errorf("%s: %s and %s, %v", c.name, first[0].Init.Name, first[1].Init.Name, err)
			continue
		}
		for i, m := range measure {
			v, err := m(context.Background(), Layout{Start: 16, Data: 320})
			asked := f.asked[len(f.asked)-1]
			if err != nil || v != float64(i+1) || asked.Code[0] != byte(i+1) || *asked.Setup.CodeOffset != 16 {
				t.Errorf("%s: %v, %v of %+v", c.name, v, err, asked)
			}
		}
	}
}

// TestBlocksKeepWhatTheySet: sides that set different values keep their own, and their addresses, in every layout.
func TestBlocksKeepWhatTheySet(t *testing.T) {
	set := func(text string) initial.Set { return require.Get(initial.ParseSet(text))(t) }
	a := profiler.Block{Code: []byte{1}, Setup: profiler.Setup{Address: new(uint64(0x401010)), Set: set("rbx=0x5000")}}
	for _, c := range []struct {
		name    string
		b       profiler.Setup
		rbx     uint64 // of b
		initial string
	}{
		{"none", profiler.Setup{}, initial.Paper().GPR[3], "paper"},
		{"another", profiler.Setup{Set: set("rbx=0x7000")}, 0x7000, "paper"},
		{"another, in another state", profiler.Setup{Set: set("rbx=0x7000")}, 0x7000, "low"},
		{"the same", profiler.Setup{Address: new(uint64(0x402020)), Set: set("rbx=0x5000")}, 0x5000, "low"},
	} {
		f := &fake{needs: map[byte]string{2: c.initial}}
		measures, _ := require.Get2(Blocks(context.Background(), f, []profiler.Block{a, {Code: []byte{2}, Setup: c.b}}))(t)
		for i, m := range measures {
			require.Get(m(context.Background(), Layout{}))(t)
			asked := f.asked[len(f.asked)-1].Setup
			wantAt, want := []*uint64{a.Setup.Address, c.b.Address}[i], []uint64{0x5000, c.rbx}[i]
			if asked.Init.GPR[3] != want || asked.Address != wantAt || asked.Init.Name != c.initial {
				t.Errorf("%s, side %s: rbx %#x in %s, want %#x; the same address: %t", c.name, Name(i), asked.Init.GPR[3],
					asked.Init.Name, want, asked.Address == wantAt)
			}
		}
	}
}

// TestSpread: each pointer has its own page and page offset, the same for both sides; the stack pointers stay together,
// and aliasing pointers do not reject the block.
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
				if (was == 0) != (now == 0) || (now-was)%DataUnit != 0 || init.Name == divisible && byte(now) != byte(was) {
					t.Errorf("%s: register %d is %#x, was %#x", init.Name, r, now, was)
				}
				if r != int(asm.RBP) && now != 0 {
					pages[now/Page] = true
				}
			}
			pages[s.Init.Fill/Page] = true
			if want := pointers - 1; len(pages) != want && init.Name != divisible || len(pages) < want-1 {
				t.Errorf("%s: %d pages", init.Name, len(pages))
			}
			if got, was := s.Init.GPR[asm.RSP]-s.Init.GPR[asm.RBP], init.GPR[asm.RSP]-init.GPR[asm.RBP]; got != was {
				t.Errorf("%s: rsp and rbp are %d bytes apart, were %d", init.Name, int64(got), int64(was))
			}
			if !slices.Contains(s.Tolerate, verdict.Alias4K) || slices.Contains(plain.setup(init).Tolerate, verdict.Alias4K) {
				t.Errorf("%s: 4K aliasing is not tolerated where pointers are spread, and only there", init.Name)
			}
			if init.Name == "paper" && (s.Init.GPR[asm.RSI]-s.Init.GPR[asm.RDI])%Page == 0 {
				equal++
			}
		}
	}
	if equal == 0 || equal > 12 { // 200/64 are expected
		t.Errorf("rsi and rdi have equal low 12 bits in %d of 200 layouts", equal)
	}
}
