package selftest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func ok(cycles float64) profiler.Result {
	return profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles - 0.001, CIHigh: cycles + 0.001}
}

func rejected(reason verdict.Reason) profiler.Result {
	return profiler.Result{Status: profiler.Rejected, Reason: reason, Rejection: &verdict.Rejection{Reason: reason, Detail: "why"}}
}

// fake answers with its results in turn, and ends with an error.
type fake struct {
	results []profiler.Result
	err     error
}

func (f *fake) Profile(context.Context, profiler.Block) (profiler.Result, error) {
	if len(f.results) == 0 {
		return profiler.Result{}, f.err
	}
	r := f.results[0]
	f.results = f.results[1:]
	return r, nil
}

var errNoMore = errors.New("profiled too often")

func hasAll([]string) []string { return nil }

func chain(a Answer) []Block {
	return []Block{{Kind: Latency, Text: "nop", Code: []byte{0x90}, Answers: map[cpu.Name]Answer{cpu.Zen: a}, Note: "for no reason"}}
}

// TestOutcome: what makes a block pass, fail or count as disturbed, and after how many tries.
func TestOutcome(t *testing.T) {
	unstable, switched, drift := rejected(verdict.Unstable), rejected(verdict.ContextSwitch), rejected(verdict.ClockDrift)
	for _, c := range []struct {
		name    string
		answer  Answer
		results []profiler.Result
		status  Status
		why     string
		tries   int
	}{
		{"just inside", Answer{4, 4}, []profiler.Result{ok(4.0599)}, Pass, "", 1},
		{"just outside, and no other try", Answer{4, 4}, []profiler.Result{ok(4.0601), ok(4)}, Differs, "off by more than 1.5 % or 0.02 cycles", 1},
		{"inside a band", Answer{1, 4}, []profiler.Result{ok(2.5)}, Pass, "", 1},
		{"disturbed once", Answer{1, 1}, []profiler.Result{unstable, ok(1)}, Pass, "", 2},
		{"disturbed twice", Answer{1, 1}, []profiler.Result{unstable, switched, ok(1)}, Pass, "", 3},
		{"disturbed three times", Answer{1, 1}, []profiler.Result{unstable, drift, switched, ok(1)}, Disturbed, "context_switch: why", 3},
		{"disturbed, then wrong", Answer{1, 1}, []profiler.Result{unstable, ok(2)}, Differs, "off by more than 1.5 % or 0.02 cycles", 2},
		{"rejected for another reason", Answer{1, 1}, []profiler.Result{rejected(verdict.L1DMiss), ok(1)}, Fail, "l1d_miss: why", 1},
		{"bbprof fails", Answer{1, 1}, []profiler.Result{{Status: profiler.Failed, Failure: "child died"}, ok(1)}, Fail, "internal failure: child died", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			last := c.results[min(c.tries, len(c.results))-1]
			got, err := run(context.Background(), &fake{c.results, errNoMore}, cpu.Zen, hasAll, chain(c.answer), nil, Full)
			if err != nil || len(got) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			o := got[0]
			if o.Status != c.status || o.Why != c.why || o.Tries != c.tries || o.Cycles != last.Cycles || o.CILow != last.CILow || o.CIHigh != last.CIHigh {
				t.Errorf("%+v, want %s (%q) after %d tries", o, c.status, c.why, c.tries)
			}
			if o.Text != "nop" || o.Hex != "90" || o.Kind != Latency || o.Expected() != c.answer {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestPatience: after three blocks were disturbed in each try, the others have one.
func TestPatience(t *testing.T) {
	var blocks []Block
	for range 5 {
		blocks = append(blocks, chain(Answer{1, 1})...)
	}
	results := slices.Repeat([]profiler.Result{rejected(verdict.Unstable)}, 3+3)
	results = append(results, ok(1)) // which is none of the three
	results = append(results, slices.Repeat([]profiler.Result{rejected(verdict.Unstable)}, 3+1)...)
	got := require.Get(run(context.Background(), &fake{results, errNoMore}, cpu.Zen, hasAll, blocks, nil, Full))(t)
	var tries []int
	for _, o := range got {
		tries = append(tries, o.Tries)
	}
	if want := []int{3, 3, 1, 3, 1}; !slices.Equal(tries, want) || got[2].Status != Pass || got[4].Status != Disturbed {
		t.Errorf("tries %v, want %v: %+v", tries, want, got)
	}
}

// TestSkipped: a block that the CPU cannot execute or that has no answer is not measured.
func TestSkipped(t *testing.T) {
	lacks := func([]string) []string { return []string{"AVX", "FMA3"} }
	for _, c := range []struct {
		core    cpu.Name
		missing func([]string) []string
		why     string
	}{
		{cpu.Zen, lacks, "this CPU has no AVX, FMA3"},
		{cpu.Zen2, hasAll, "for no reason"},
		{cpu.Zen2, lacks, "this CPU has no AVX, FMA3"},
	} {
		got, err := run(context.Background(), &fake{err: errNoMore}, c.core, c.missing, chain(Answer{1, 1}), nil, Full)
		if err != nil || len(got) != 1 || got[0].Status != Skipped || got[0].Why != c.why || got[0].Tries != 0 {
			t.Errorf("%+v, %v, want %q", got, err, c.why)
		}
	}
}

// TestErrorEnds: an error ends the run; what was measured before it stays.
func TestErrorEnds(t *testing.T) {
	two := append(chain(Answer{1, 1}), chain(Answer{1, 1})...)
	got, err := run(context.Background(), &fake{[]profiler.Result{ok(1)}, &verdict.HostError{Missing: "a CPU"}}, cpu.Zen, hasAll, two, nil, Full)
	var hostError *verdict.HostError
	if !errors.As(err, &hostError) || len(got) != 1 || got[0].Status != Pass {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestScope(t *testing.T) {
	two := append(chain(Answer{1, 1}), chain(Answer{1, 1})...)
	two[1].Short, two[1].Text = true, "short"
	for scope, want := range map[Scope][]string{Full: {"nop", "short"}, Short: {"short"}} {
		got, err := run(context.Background(), &fake{[]profiler.Result{ok(1), ok(1)}, errNoMore}, cpu.Zen, hasAll, two, nil, scope)
		var texts []string
		for _, o := range got {
			texts = append(texts, o.Text)
		}
		if err != nil || !slices.Equal(texts, want) {
			t.Errorf("scope %v: %q, %v", scope, texts, err)
		}
	}
}

func TestTally(t *testing.T) {
	var all []Outcome
	for _, s := range []Status{Pass, Pass, Fail, Disturbed, Disturbed, Disturbed, Skipped, Differs} {
		all = append(all, Outcome{Status: s})
	}
	for n, want := range map[int]string{
		0: "0 of 0 pass",
		2: "2 of 2 pass",
		3: "2 of 3 pass, 1 FAIL",
		6: "2 of 6 pass, 1 FAIL, 3 disturbed",
		7: "2 of 6 pass, 1 FAIL, 3 disturbed, 1 skipped",
		8: "2 of 7 pass, 1 FAIL, 1 not as in the table, 3 disturbed, 1 skipped",
	} {
		if got := Count(all[:n]).String(); got != want {
			t.Errorf("of the first %d: %q, want %q", n, got, want)
		}
	}
}

func TestCompareClocks(t *testing.T) {
	at := func(hex string, cycles, half float64) Outcome {
		return Outcome{Text: hex, Hex: hex, Cycles: cycles, CILow: cycles - half, CIHigh: cycles + half}
	}
	perf := []Outcome{at("a", 3, 0), at("b", 3, 0), at("c", 1, 0), at("d", 1, 0), at("e", 10, 0.2), at("f", 10, 0.2),
		at("only", 1, 0), at("not measured", 0, 0)}
	tsc := []Outcome{at("a", 3.0449, 0), at("b", 3.05, 0), at("c", 1.0199, 0), at("d", 1.0204, 0), at("e", 10.49, 0.3),
		at("f", 10.51, 0.3), at("not measured", 1, 0), at("other", 1, 0)}
	want := map[string]bool{"a": true, "b": false, "c": true, "d": false, "e": true, "f": false}
	got := CompareClocks(perf, tsc)
	if len(got) != len(want) {
		t.Errorf("%+v", got)
	}
	for _, c := range got {
		if agree, ok := want[c.Hex]; !ok || c.Agree != agree {
			t.Errorf("%+v", c)
		}
	}
}

// TestCopies: the selftest's own copies replace those of a profiler that times one image alone, in each of its modes.
func TestCopies(t *testing.T) {
	var seen []profiler.Setup
	p := inCopies{profiles(func(b profiler.Block) profiler.Result {
		seen = append(seen, b.Setup)
		return ok(3)
	}), &Copies}
	require.Get(run(context.Background(), p, cpu.Zen, hasAll, nil, []relation{asLoop(true, imulRAX)}, Short))(t)
	want := []profiler.Setup{{Mode: profiler.Unroll, Unroll: &Copies}, {Mode: profiler.Loop, Unroll: &Copies}}
	require.Equal(t, "set-ups", want, seen)
}

type profiles func(profiler.Block) profiler.Result

func (p profiles) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	return p(b), nil
}
