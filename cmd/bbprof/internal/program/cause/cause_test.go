package cause

import (
	"context"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
)

// fake takes 1000 cycles, and more by what a set-up costs it.
type fake struct {
	cost func(program.Setup) float64
	runs int
}

func (f *fake) Run(_ context.Context, _ program.Command, s program.Setup) (program.Sample, error) {
	f.runs++
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
		want []Verdict
	}{
		{"nothing", func(program.Setup) float64 { return 0 }, []Verdict{NoEffect, NoEffect, NoEffect, NoEffect}},
		{"where the stack starts", func(s program.Setup) float64 {
			if stack(s) == 3200 {
				return 500
			}
			return 0
		}, []Verdict{Confirmed, Confirmed, NoEffect, NoEffect}},
		{"how large the environment is", func(s program.Setup) float64 { return float64(s.EnvBytes) },
			[]Verdict{Confirmed, NoEffect, Confirmed, NoEffect}},
		{"stack against heap", func(s program.Setup) float64 {
			if stack(s) == 3200 && s.HeapShift == 0 {
				return 500
			}
			return 0
		}, []Verdict{Confirmed, Confirmed, NoEffect, Confirmed}},
	} {
		f := &fake{cost: c.cost}
		done := 0
		p := Plan{Sizes: sizes, Runs: 3, Rounds: 8, Done: func(n int) { done = n }}
		e, err := Explain(context.Background(), f, program.Command{}, p)
		if err != nil || done != p.Steps() {
			t.Fatalf("%s: %d of %d, %v", c.name, done, p.Steps(), err)
		}
		for i, want := range c.want {
			if got := e.Findings[i]; got.Verdict != want || got.Setup.Check() != nil {
				t.Errorf("%s: %+v, want %s", c.name, got, want)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	same := []float64{1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}
	for _, c := range []struct {
		with []float64
		want Verdict
	}{
		{same, NoEffect},
		{[]float64{1019, 1019, 1019, 1019, 1019, 1019, 1019, 1019}, NoEffect},
		{[]float64{1020, 1020, 1020, 1020, 1020, 1020, 1020, 1020}, Confirmed},
		{[]float64{980, 979, 979, 979, 979, 979, 979, 979}, Confirmed},
		{[]float64{900, 1100, 900, 1100, 900, 1100, 900, 1100}, Unclear},
		{[]float64{5000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}, Unclear},
		{[]float64{1100, 1100}, Unclear},
	} {
		if got := judge(c.with, same[:len(c.with)]); got.Verdict != c.want {
			t.Errorf("%v: %+v, want %s", c.with, got, c.want)
		}
	}
}
