package cause

import (
	"context"
	"errors"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/internal/stat"
)

// fake takes 1000 cycles, and more by what a set-up costs it.
type fake struct {
	cost   func(program.Setup) float64
	runs   int
	last   int // run, after which cancel is called, if not 0
	cancel func()
}

func (f *fake) Run(ctx context.Context, _ program.Command, s program.Setup) (program.Sample, error) {
	if err := ctx.Err(); err != nil {
		return program.Sample{}, err
	}
	if f.runs++; f.runs == f.last {
		f.cancel()
	}
	return program.Sample{Cycles: 1000 + f.cost(s) + float64(f.runs%3)}, nil
}

func (f *fake) WarmUp(context.Context, program.Command, program.Setup) error { return nil }

func TestExplain(t *testing.T) {
	var sizes []int
	for n := 0; n < 4096; n += 16 {
		sizes = append(sizes, n)
	}
	stack := func(s program.Setup) int { return (stackBelow(s.EnvBytes) + s.StackShift) % page }
	for _, c := range []struct {
		name string
		cost func(program.Setup) float64
		want []stat.Outcome
	}{
		{"nothing", func(program.Setup) float64 { return 0 }, []stat.Outcome{stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.NoEffect}},
		{"where the stack starts", func(s program.Setup) float64 {
			if stack(s) == 3200 {
				return 500
			}
			return 0
		}, []stat.Outcome{stat.Confirmed, stat.Confirmed, stat.NoEffect, stat.NoEffect}},
		{"how large the environment is", func(s program.Setup) float64 { return float64(s.EnvBytes) },
			[]stat.Outcome{stat.Confirmed, stat.NoEffect, stat.Confirmed, stat.NoEffect}},
		{"stack against heap", func(s program.Setup) float64 {
			if stack(s) == 3200 && s.HeapShift == 0 {
				return 500
			}
			return 0
		}, []stat.Outcome{stat.Confirmed, stat.Confirmed, stat.NoEffect, stat.Confirmed}},
	} {
		f := &fake{cost: c.cost}
		done := 0
		p := Plan{Sizes: sizes, Runs: 3, Rounds: 8, Done: func(n int) { done = n }}
		e, err := Explain(context.Background(), f, program.Command{}, p)
		if err != nil || done != p.Steps() {
			t.Fatalf("%s: %d of %d, %v", c.name, done, p.Steps(), err)
		}
		for i, want := range c.want {
			if got := e.Findings[i]; got.Outcome != want || got.Setup.Check() != nil {
				t.Errorf("%s: %+v, want %s", c.name, got, want)
			}
		}
	}
}

// TestInterrupted: what the runs until then say is kept, and no finding rests on fewer than an interval takes.
func TestInterrupted(t *testing.T) {
	const sizes, runs = 4, 2
	for _, c := range []struct{ last, sizes, findings int }{
		{1, 1, 0}, {3, 3, 0}, {sizes * runs, sizes, 0},
		{sizes*runs + 2*len(hypotheses)*(leastRounds-1), sizes, 0},
		{sizes*runs + 2*len(hypotheses)*leastRounds, sizes, len(hypotheses)},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		f := &fake{cost: func(program.Setup) float64 { return 0 }, last: c.last, cancel: cancel}
		e, err := Explain(ctx, f, program.Command{}, Plan{Sizes: []int{0, 16, 32, 48}, Runs: runs, Rounds: 100, Done: func(int) {}})
		if !errors.Is(err, context.Canceled) || e.Sizes != c.sizes || len(e.Findings) != c.findings || !e.Incomplete {
			t.Errorf("after %d runs: %+v, %v", c.last, e, err)
		}
	}
}

func TestJudge(t *testing.T) {
	same := []float64{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}
	for _, c := range []struct {
		with []float64
		want stat.Outcome
	}{
		{same, stat.NoEffect},
		{[]float64{1019, 1019, 1019, 1019, 1019, 1019, 1019, 1019}, stat.NoEffect},
		{[]float64{1020, 1020, 1020, 1020, 1020, 1020, 1020, 1020}, stat.Confirmed},
		{[]float64{980, 979, 979, 979, 979, 979, 979, 979}, stat.Confirmed},
		{[]float64{900, 1100, 900, 1100, 900, 1100, 900, 1100}, stat.Unclear},
		{[]float64{5000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}, stat.Unclear},
		{[]float64{1100, 1100}, stat.Unclear},
	} {
		if got := judge(c.with, same[:len(c.with)]); got.Outcome != c.want {
			t.Errorf("%v: %+v, want %s", c.with, got, c.want)
		}
	}
}
