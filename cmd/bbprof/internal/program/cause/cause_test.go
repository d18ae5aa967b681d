package cause

import (
	"context"
	"errors"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
)

// fake takes 1000 cycles plus what a set-up costs it.
type fake struct {
	cost   func(launch.Setup) float64
	runs   int
	last   int                   // run after which cancel is called, if not 0
	other  func(run int) float64 // what other work on the core costs a run; nil: nothing
	cancel func()
}

func (f *fake) Run(ctx context.Context, _ launch.Command, s launch.Setup) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if f.runs++; f.runs == f.last {
		f.cancel()
	}
	cycles := 1000 + f.cost(s) + float64(f.runs%3)
	if f.other != nil {
		cycles += f.other(f.runs)
	}
	return cycles, nil
}

func (f *fake) WarmUp(context.Context, launch.Command, launch.Setup) error { return nil }

// aliases returns the counts of a trace in which a load aliases a store the given number of times.
func aliases(times int, splits float64, load, store trace.Access) trace.Counts {
	c := trace.Counts{Instructions: 3000, Prediction: invariants.Prediction{Loads: 100, Alias4K: float64(times), Splits: splits}}
	if times > 0 {
		c.Aliases = []trace.Alias{{Load: load, Store: store, Times: times}}
	}
	return c
}

func free(launch.Setup) float64 { return 0 }

// sizes are those of the environment that move the stack through a page.
var sizes = launch.Range{To: 4080, Step: 16}.Values()

func TestExplain(t *testing.T) {
	stack := func(s launch.Setup) int { return (stackBelow(s.EnvBytes) + s.StackShift) % page }
	onStack, static := trace.Access{What: "[stack]"}, trace.Access{What: "sink"}
	block := trace.Access{What: "[heap]", Block: launch.Request{Number: 2, Bytes: 5000}}
	never := func(launch.Setup) trace.Counts { return aliases(0, 0, static, static) }
	for _, c := range []struct {
		name  string
		cost  func(launch.Setup) float64
		trace func(launch.Setup) trace.Counts
		want  []stat.Outcome
		held  stat.Outcome // "" if not asked
	}{
		{"nothing", free, never,
			[]stat.Outcome{stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.NoEffect, experiment.Absent,
				stat.NoEffect, experiment.Untested}, ""},
		{"where the stack starts", func(s launch.Setup) float64 {
			if stack(s) == 3200 {
				return 500
			}
			return 0
		}, func(s launch.Setup) trace.Counts {
			if stack(s) == 3200 {
				return aliases(50, 0, onStack, static)
			}
			return never(s)
		}, []stat.Outcome{stat.Confirmed, stat.Confirmed, stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.Confirmed}, stat.NoEffect},
		{"how large the environment is", func(s launch.Setup) float64 { return float64(s.EnvBytes) },
			func(launch.Setup) trace.Counts { return aliases(50, 0, static, static) }, // nothing moves them apart
			[]stat.Outcome{stat.Confirmed, stat.NoEffect, stat.Confirmed, stat.NoEffect, stat.NoEffect, experiment.Untested}, ""},
		{"stack and environment", func(s launch.Setup) float64 { return float64(s.EnvBytes + stack(s)) },
			func(s launch.Setup) trace.Counts { return aliases(50, float64(s.StackShift), onStack, static) }, // splits change too
			[]stat.Outcome{stat.Confirmed, stat.Confirmed, stat.Confirmed, stat.NoEffect, stat.NoEffect, experiment.Untested}, stat.Confirmed},
		{"stack against heap", func(s launch.Setup) float64 {
			if stack(s) == 3200 && s.HeapShift == 0 {
				return 500
			}
			return 0
		}, never, []stat.Outcome{stat.Confirmed, stat.Confirmed, stat.NoEffect, stat.Confirmed, stat.NoEffect, experiment.Absent}, stat.NoEffect},
		{"a block that crosses a line", func(s launch.Setup) float64 {
			if s.HeapShift%64 == 0 {
				return 500
			}
			return 0
		}, never, []stat.Outcome{stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.NoEffect, experiment.Absent, stat.Confirmed}, ""},
		{"code, and a block of the heap", func(s launch.Setup) float64 {
			cost := 0.0
			if s.ImageShift == 0 {
				cost += 500
			}
			if s.Request.Align != 512 {
				cost += 300
			}
			return cost
		}, func(s launch.Setup) trace.Counts {
			if s.Request.Align == 512 {
				return aliases(5, 101, onStack, block)
			}
			return aliases(50, 100, trace.Access{What: "[heap]"}, block)
		}, []stat.Outcome{stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.NoEffect, stat.Confirmed, stat.Confirmed}, ""},
	} {
		f := &fake{cost: c.cost}
		done := 0
		p := Plan{Sizes: sizes, Runs: 3, Rounds: 12, Movable: true, Done: func(n int) { done = n },
			Trace: func(_ context.Context, s launch.Setup) (trace.Counts, error) { return c.trace(s), nil }}
		e, err := Explain(context.Background(), f, launch.Command{}, p)
		if err != nil || done != p.Steps() {
			t.Fatalf("%s: %d of %d, %v", c.name, done, p.Steps(), err)
		}
		for i, want := range c.want {
			if got := e.Findings[i]; got.Outcome != want || got.Setup != nil && got.Setup.(launch.Setup).Check() != nil {
				t.Errorf("%s: %+v, want %s", c.name, got, want)
			}
		}
		if held := (e.Held != nil); held != (c.held != "") || held && e.Held.Outcome != c.held {
			t.Errorf("%s: with the stack held %+v, want %q", c.name, e.Held, c.held)
		}
	}
}

// TestSlowestSize: other work that slows two of a size's three runs does not make it the slowest.
func TestSlowestSize(t *testing.T) {
	f := &fake{cost: func(s launch.Setup) float64 {
		if s.EnvBytes == 3280 {
			return 150
		}
		return 0
	}, other: func(run int) float64 {
		if round := (run - 1) / len(sizes); round == 0 || round == 1 && run%2 == 0 {
			return 900
		}
		return 0
	}}
	a := &explainer{Plan: Plan{Sizes: sizes, Runs: 3, Done: func(int) {}}, runner: f}
	got := require.Get(a.sweep(t.Context(), func(size int) launch.Setup { return launch.Setup{EnvBytes: size} }))(t)
	require.Equal(t, "the slowest", 3280, got[len(got)-1])
}

// TestUntested: what cannot be changed is reported and not run.
func TestUntested(t *testing.T) {
	p := Plan{Sizes: []int{0, 16}, Runs: 1, Rounds: 12, NoTrace: "no main", Done: func(int) {}}
	f := &fake{cost: free}
	e, err := Explain(context.Background(), f, launch.Command{}, p)
	if err != nil || len(e.Findings) != hypotheses || e.Findings[4].Outcome != experiment.Untested ||
		e.Findings[5].Outcome != experiment.Untested || e.Findings[5].Change != "no main" {
		t.Errorf("%+v, %v", e, err)
	}
	if want := 2 + 12*2*5; f.runs != want {
		t.Errorf("%d runs, want %d", f.runs, want)
	}
}

// TestInterrupted: findings so far are kept if they have enough rounds for an interval.
func TestInterrupted(t *testing.T) {
	const sizes, runs, tested = 4, 2, 5
	for _, c := range []struct{ last, sizes, findings int }{
		{1, 1, 0}, {3, 3, 0}, {sizes * runs, sizes, 3},
		{sizes*runs + 2*tested*(LeastRounds-1), sizes, 3},
		{sizes*runs + 2*tested*LeastRounds, sizes, hypotheses},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		f := &fake{cost: free, last: c.last, cancel: cancel}
		e, err := Explain(ctx, f, launch.Command{}, Plan{Sizes: []int{0, 16, 32, 48}, Runs: runs, Rounds: 100, Done: func(int) {}})
		if !errors.Is(err, context.Canceled) || e.Sizes != c.sizes || len(e.Findings) != c.findings || !e.Incomplete {
			t.Errorf("after %d runs: %+v, %v", c.last, e, err)
		}
	}
}
