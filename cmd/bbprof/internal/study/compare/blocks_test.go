package compare

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// fake is a profiler on which a block needs the initial state that needs says, by its first byte.
type fake struct {
	needs map[byte]string
	asked []profiler.Block
	noise int // measurements that are yet to be disturbed
}

func (f *fake) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	f.asked = append(f.asked, b)
	if f.noise > 0 {
		f.noise--
		return profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.ContextSwitch}}, nil
	}
	inits := initial.States()
	if b.Setup.Init != nil {
		inits = []initial.State{*b.Setup.Init}
	}
	for _, init := range inits {
		if need := f.needs[b.Code[0]]; need == "" || need == init.Name {
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
		measure, first, err := Blocks(context.Background(), f, []byte{1}, []byte{2})
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

// TestDataMoveTogether: what was equal stays equal, what was 0 stays 0, and a divisor keeps its
// low byte.
func TestDataMoveTogether(t *testing.T) {
	for _, init := range initial.States() {
		s := Layout{Data: 320}.setup(init)
		data := uint64(320)
		if init.Name == divisible {
			data = 256
		}
		for r, was := range init.GPR {
			want := was + data
			if was == 0 {
				want = 0
			}
			if s.Init.GPR[r] != want {
				t.Errorf("%s: register %d is %#x, was %#x", init.Name, r, s.Init.GPR[r], was)
			}
		}
		if s.Init.Fill != init.Fill+data {
			t.Errorf("%s: memory holds %#x, was %#x", init.Name, s.Init.Fill, init.Fill)
		}
	}
	if !slices.ContainsFunc(initial.States(), func(i initial.State) bool { return i.Name == divisible }) {
		t.Errorf("no initial state is called %q", divisible)
	}
}

// TestBlocksDisturbed: a value that other work disturbs is asked for again.
func TestBlocksDisturbed(t *testing.T) {
	for disturbed := range tries + 1 { // so many times in a row
		f := &fake{}
		measures, _, err := Blocks(context.Background(), f, []byte{1}, []byte{2})
		if err != nil {
			t.Fatal(err)
		}
		f.noise = disturbed
		v, err := measures[0](context.Background(), Layout{})
		var rejection *verdict.Rejection
		if want := disturbed < tries; want != (err == nil && v == 1) || !want && !errors.As(err, &rejection) {
			t.Errorf("disturbed %d times: %v, %v", disturbed, v, err)
		}
	}
}
