package ablate

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestSteps: each step can be measured and changes the previous set-up, and the last is bbprof's default.
func TestSteps(t *testing.T) {
	for _, strict := range []bool{false, true} {
		steps := steps(strict)
		for i, s := range steps {
			require.NoError(t, s.Setup.Check())
			if i > 0 && cmp.Equal(s.Setup, steps[i-1].Setup) {
				t.Errorf("%s, strict %v: as the step before", s.Name, strict)
			}
		}
		require.Equal(t, "the last step", profiler.Setup{}, steps[len(steps)-1].Setup)
	}
}

// fake measures by first byte: p needs pages, u fewer copies, i another initial state, d is disturbed once.
type fake struct {
	disturbed bool
	asked     []profiler.Setup
}

func (f *fake) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	f.asked = append(f.asked, b.Setup)
	rejected := func(r verdict.Reason) (profiler.Result, error) {
		return profiler.Result{Status: profiler.Rejected, Reason: r, Rejection: &verdict.Rejection{Reason: r}}, nil
	}
	switch kind := b.Code[0]; {
	case kind == 'e':
		return profiler.Result{Status: profiler.Failed}, nil
	case kind != 'n' && b.Setup.NoMapping:
		return rejected(verdict.SIGSEGV)
	case kind == 'u' && b.Setup.Unroll != nil:
		return rejected(verdict.L1IMiss)
	case kind == 'i' && b.Setup.Init != nil:
		return rejected(verdict.SIGFPE)
	case kind == 'd' && !f.disturbed:
		f.disturbed = true
		return rejected(verdict.ContextSwitch)
	}
	return profiler.Result{Status: profiler.OK, Cycles: 2, CILow: 1.9, CIHigh: 2.1}, nil
}

func TestCorpus(t *testing.T) {
	rows, done := []string{"n", "p", "u", "i", "d", "", "e"}, 0
	shares := require.Get(Corpus(context.Background(), &fake{}, func() (b profiler.Block, r *verdict.Rejection, err error) {
		if len(rows) == 0 {
			return b, r, io.EOF
		}
		if b.Code = []byte(rows[0]); rows[0] == "" {
			r = &verdict.Rejection{Reason: verdict.BadHex}
		}
		rows = rows[1:]
		return b, r, nil
	}, func(n int) { done = n }))(t)
	for i, want := range []int{1, 3, 3, 3, 3, 4, 4, 4, 5} {
		s := shares[i]
		if s.Profiled != want || s.Blocks != 7 || s.Failed != 1 || s.Reasons[verdict.BadHex] != 1 {
			t.Errorf("%s: %+v, want %d", s.Step, s, want)
		}
	}
	if shares[0].Reasons[verdict.SIGSEGV] != 4 || done != 7 || shares[5].Percent() != 400.0/7 {
		t.Errorf("%d done, %+v", done, shares[0])
	}
}

func TestBlock(t *testing.T) {
	m := &fake{}
	stages := require.Get(Block(context.Background(), m, profiler.Block{Code: []byte("i"),
		Setup: profiler.Setup{Address: new(uint64(0x401000)), Set: initial.Set{{}}}}))(t)
	for i, s := range stages {
		if want := i == 8; (s.Result.Status == profiler.OK) != want || Crashed(s.Result) == want {
			t.Errorf("%s: %+v", s.Step, s.Result)
		}
	}
	for i, s := range m.asked { // the block's own settings apply at every step
		if *s.Address != 0x401000 || len(s.Set) != 1 {
			t.Errorf("%s: %+v", stages[i].Step, s)
		}
	}
	require.Equal(t, "measurements", 9, len(m.asked))
}
