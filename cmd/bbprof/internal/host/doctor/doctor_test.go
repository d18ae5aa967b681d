package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// examined is the report on a fake host.
func examined(t *testing.T, f *fake) Report {
	t.Helper()
	r := require.Get(Examine(context.Background(), f.system(nil), profiler.Options{}))(t)
	if f.open != 0 {
		t.Errorf("%d profilers were not closed", f.open)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Errorf("not to be written as JSON: %v", err)
	}
	return r
}

func TestExamineHealthy(t *testing.T) {
	f := &fake{}
	r := examined(t, f)
	if !r.CanMeasure || r.OnCPU != 3 || r.SpeculativeStoreBypass != "vulnerable" || r.Host.PageZero != "yes" {
		t.Errorf("%+v", r)
	}
	if r.Clock == nil || r.Clock.Name != "tsc" || math.Abs(r.Clock.TSCMegahertz-3000) > 1 || r.Clock.Drift() != 0 {
		t.Errorf("clock %+v", r.Clock)
	}
	if p := r.Precision; p.Measured != len(set) || math.Abs(p.HalfMax-0.01) > 1e-9 || p.ApartMax != 0 {
		t.Errorf("precision %+v", r.Precision)
	}
	if len(r.Evidence) != 2 || len(r.Requirements) != 4 {
		t.Errorf("evidence %v, requirements %v", r.Evidence, r.Requirements)
	}
	// The promise is about bbprof -hex, so the first measurement is with its options.
	if o := f.started[0]; o.Frames != profiler.AutoFrames || o.Tolerate != nil || o.NoFTZ || o.NoRescue || o.Budget != budget {
		t.Errorf("options %+v", o)
	}
}

// TestExamineComparesConditions: each price is that of its block under its options.
func TestExamineComparesConditions(t *testing.T) {
	f := &fake{profile: func(o profiler.Options, block string) (profiler.Result, error) {
		tolerates := slices.Contains(o.Tolerate, verdict.AliasFrame) && slices.Contains(o.Tolerate, verdict.Alias4K) && o.NoRescue
		for i, a := range aliases {
			switch {
			case block == a.same && o.Frames == 1 && tolerates:
				return measured(float64(40 + i)), nil
			case block == a.same && o.Frames == 2 && tolerates:
				return measured(float64(20 + i)), nil
			case block == a.other && o.Frames == 1 && tolerates:
				return measured(float64(10 + i)), nil
			case block == a.same || block == a.other:
				return rejected(verdict.AliasFrame), nil
			}
		}
		if block == productSubnormal && o.NoFTZ {
			return measured(150), nil
		}
		return measured(4), nil
	}}
	r := examined(t, f)
	aliased, subnormals := r.Requirements[0], r.Requirements[2]
	for i, a := range aliases {
		for under, want := range map[string]float64{OneFrame: 40, TwoFrames: 20, OtherLine: 10} {
			if got, why := PriceOf(aliased.Prices, a.what, under); got != want+float64(i) || why != "" {
				t.Errorf("%s, %s: %g, want %g %s", a.what, under, got, want+float64(i), why)
			}
		}
	}
	if aliased.Met != No || subnormals.Met != Yes || !strings.Contains(subnormals.Detail, "150.00") {
		t.Errorf("%+v, %+v", aliased, subnormals)
	}
}

// TestExamineHostThatCannot: where no profiler starts, nothing is promised, and what is missing
// comes first.
func TestExamineHostThatCannot(t *testing.T) {
	want := Shortcoming{"ptrace is off: EPERM", "bbprof cannot measure here", "switch it on"}
	for when, f := range map[string]*fake{
		"at the first start":      {starts: []error{errHost}},
		"at the first block":      {profile: func(profiler.Options, string) (profiler.Result, error) { return profiler.Result{}, errHost }},
		"after all measured once": {starts: []error{nil, errHost}}, // which is no promise
	} {
		r := examined(t, f)
		if r.CanMeasure || r.Precision != nil || r.OnCPU != 3 || len(f.started) != max(1, len(f.starts)) || r.Shortcomings[0] != want {
			t.Errorf("%s: %+v after %d starts", when, r, len(f.started))
		}
	}
}

// TestExamineMeasuredTwice: where no block is measured both times nothing is promised, though each was measured once;
// one block that was is enough, and the report says why the others were not.
func TestExamineMeasuredTwice(t *testing.T) {
	for _, twice := range []string{"", set[5].hex} {
		f := &fake{}
		f.profile = func(o profiler.Options, block string) (profiler.Result, error) {
			if o.Tolerate == nil && len(f.started) == 2 && block != twice {
				return rejected(verdict.Unstable), nil
			}
			return measured(2), nil
		}
		r := examined(t, f)
		says := "none of 8 blocks was measured twice, the first since: unstable: so"
		if twice != "" {
			says = "7 of 8 blocks were not measured twice: add rax, rax: unstable: so"
		}
		if r.CanMeasure != (twice != "") || r.CanMeasure != (r.Precision != nil && r.Precision.Measured == 1) ||
			!strings.Contains(fmt.Sprint(r.Shortcomings), says) {
			t.Errorf("%q: %v, %+v, %v", twice, r.CanMeasure, r.Precision, r.Shortcomings)
		}
	}
}

// TestExamineBusyHost: a host that lets no block finish cannot measure now, and each block is
// tried often at first and once in the end.
func TestExamineBusyHost(t *testing.T) {
	n, reason := 0, verdict.Unmappable
	f := &fake{profile: func(profiler.Options, string) (profiler.Result, error) {
		n++
		return rejected(reason), nil
	}}
	if r := examined(t, f); r.CanMeasure || r.Busy {
		t.Errorf("rejected for what lasts: %+v", r.Shortcomings)
	}
	n, reason = 0, verdict.Unstable
	r := examined(t, f)
	if s := r.Shortcomings[0]; r.CanMeasure || !r.Busy || !strings.Contains(s.What, "none of 8") ||
		!strings.Contains(s.What, "unstable: so") || !strings.Contains(s.Remedy, "-cpus, ") || s.Effect != "bbprof cannot measure here now" {
		t.Errorf("%v", r.Shortcomings)
	}
	if want := patience + 2*len(set) - 1; n > want+pool.Tries || n < 2*len(set) {
		t.Errorf("%d tries, want about %d", n, want)
	}
}

func TestExamineOwnFailures(t *testing.T) {
	own := errors.New("a bug")
	for name, f := range map[string]*fake{
		"at the first start": {starts: []error{own}},
		"at a later start":   {starts: []error{nil, nil, own}},
		"in a block":         {profile: func(profiler.Options, string) (profiler.Result, error) { return profiler.Result{}, own }},
		"in a later block": {profile: func(o profiler.Options, _ string) (profiler.Result, error) {
			if o.Frames == 2 {
				return profiler.Result{}, own
			}
			return measured(2), nil
		}},
	} {
		if _, err := Examine(context.Background(), f.system(nil), profiler.Options{}); !errors.Is(err, own) || f.open != 0 {
			t.Errorf("%s: %v, %d profilers open", name, err, f.open)
		}
	}
	sys := (&fake{}).system(nil)
	sys.Counter = func(int) (pmu.PMU, error) { return pmu.PMU{}, own }
	if _, err := Examine(context.Background(), sys, profiler.Options{}); !errors.Is(err, own) {
		t.Errorf("in the probe: %v", err)
	}
}

// TestExamineIsNotEndless: on a host that is hardly ever quiet, what takes longer than enough
// goes without the rest, and says so.
func TestExamineIsNotEndless(t *testing.T) {
	f := &fake{}
	f.profile = func(profiler.Options, string) (profiler.Result, error) {
		f.now = f.now.Add(enough / 10)
		return measured(2), nil
	}
	r := examined(t, f)
	if !r.CanMeasure || len(f.started) > 2 {
		t.Errorf("%d starts", len(f.started))
	}
	for _, q := range r.Requirements {
		if q.Name != "counters for misses" && (q.Met != Unknown || !strings.Contains(q.Detail, "no time")) {
			t.Errorf("%+v", q)
		}
	}
}

func TestJudgeFetched(t *testing.T) {
	for _, c := range []struct {
		loop, decoders float64 // of a copy; 0: rejected
		want           Met
	}{
		{0.34, 3.2, Yes}, {1.59, 3.2, Yes}, {1.61, 3.2, No}, {3.2, 3.2, No}, {0.34, 1.9, Unknown}, {0, 3.2, Unknown}, {0.34, 0, Unknown},
	} {
		f := &fake{profile: func(o profiler.Options, block string) (profiler.Result, error) {
			cycles := 2.0
			switch {
			case block == prefixedLoop:
				cycles = prefixedCopies * c.loop
			case block == prefixed && o.FrontEnd == profiler.Decode:
				cycles = c.decoders
			}
			if cycles == 0 {
				return rejected(verdict.Unstable), nil
			}
			return measured(cycles), nil
		}}
		if q := examined(t, f).Requirements[3]; q.Met != c.want || (q.Met == No) != (q.Instead != "") {
			t.Errorf("%+v: %+v", c, q)
		}
	}
}

// priced is prices of each kind: one frame, two frames, other line.
func priced(waiting, parallel, through [3]float64) (all []Price) {
	for i, under := range []string{OneFrame, TwoFrames, OtherLine} {
		all = append(all, Price{What: Waiting, Under: under, Cycles: waiting[i]},
			Price{What: Parallel, Under: under, Cycles: parallel[i]}, Price{What: Through, Under: under, Cycles: through[i]})
	}
	return all
}

func TestJudgeAliased(t *testing.T) {
	even := [3]float64{8, 8, 8}
	for _, c := range []struct {
		name                       string
		waiting, parallel, through [3]float64
		predicted                  bool
		want                       Met
		says                       string
	}{
		{"nothing costs", even, even, [3]float64{1, 9, 1}, false, Yes, "cost nothing"},
		{"only what goes through memory", even, even, [3]float64{5, 1, 1}, false, Partly, "loads alone cost nothing"},
		{"loads that wait", [3]float64{9, 8, 8}, even, even, true, No, "ways are predicted"},
		{"loads side by side", even, [3]float64{9, 8, 8}, even, false, No, "even loads slower"},
		{"both", [3]float64{9, 8, 8}, even, [3]float64{5, 1, 1}, false, No, "even loads slower"},
		{"a price is missing", [3]float64{0, 8, 8}, even, even, false, Unknown, Waiting},
	} {
		r := judgeAliased(priced(c.waiting, c.parallel, c.through), invariants.Core{L1DWays: 8, WayPredicted: c.predicted})
		if r.Met != c.want || strings.Count(r.Detail, c.says) != 1 {
			t.Errorf("%s: %s, %s", c.name, r.Met, r.Detail)
		}
		if strings.Contains(r.Detail, "predicted") != (c.predicted && c.want == No) {
			t.Errorf("%s: %s", c.name, r.Detail)
		}
		if (r.Instead == "") != (c.want == Yes || c.want == Unknown) {
			t.Errorf("%s: instead %q", c.name, r.Instead)
		}
	}
	// With two frames a store and a load that alias in 4 KiB may be slow; that is no reason to
	// praise one frame.
	if r := judgeAliased(priced(even, even, [3]float64{1.5, 42, 0.7}), invariants.Core{}); r.Met != Partly {
		t.Errorf("%s", r.Met)
	}
}

func TestJudgeCounted(t *testing.T) {
	const l1d, l1i, other = verdict.L1DMiss, verdict.L1IMiss, verdict.ContextSwitch
	none, some := pmu.PMU{Reason: "forbidden"}, pmu.PMU{Available: true}
	type kinds map[verdict.Reason]invariants.Kind
	for _, c := range []struct {
		name     string
		kinds    kinds
		counters pmu.PMU
		want     Met
		says     string
	}{
		{"both counted", kinds{l1d: invariants.Counted, l1i: invariants.Counted}, some, Yes, "are counted"},
		{"one counted", kinds{l1d: invariants.Counted, l1i: invariants.Inferred}, some, Partly, "1 of 2"},
		{"an unchecked one is no count", kinds{l1d: invariants.Unchecked, l1i: invariants.Counted}, some, Partly, "1 of 2"},
		{"inferred without a PMU", kinds{l1d: invariants.Inferred, l1i: invariants.Inferred, other: invariants.Counted}, none, No, "none to use"},
		{"inferred in spite of one", kinds{l1d: invariants.Inferred}, some, No, "were not"},
		{"nothing known", nil, some, Unknown, "no block"},
	} {
		var evidence []invariants.Evidence
		for reason, kind := range c.kinds {
			evidence = append(evidence, invariants.Evidence{Invariant: reason, Kind: kind})
		}
		if r := judgeCounted(evidence, c.counters); r.Met != c.want || !strings.Contains(r.Detail, c.says) {
			t.Errorf("%s: %s, %s", c.name, r.Met, r.Detail)
		}
	}
}

func TestJudgeSubnormals(t *testing.T) {
	of := func(normal, flushed, computed float64) []Price {
		return []Price{{What: "mulsd", Under: Normal, Cycles: normal}, {What: "mulsd", Under: Flushed, Cycles: flushed},
			{What: "mulsd", Under: Subnormal, Cycles: computed}}
	}
	for _, c := range []struct {
		name   string
		prices []Price
		want   Met
		says   string
	}{
		{"no price", of(4, 4.12, 150), Yes, "150.00"},
		{"a price in spite of flushing", of(4, 4.13, 4.13), No, "4.13 cycles, normal numbers 4.00"},
		{"no price of what is short", of(0.67, 0.709, 150), Yes, "150.00"},
		{"a price of what is short", of(0.67, 0.711, 150), No, "0.71 cycles, normal numbers 0.67"},
		{"computed ones are a detail", of(4, 4, 0), Yes, "4.00 cycles of normal numbers"},
		{"no normal ones", of(0, 4, 4), Unknown, "no time"},
		{"nothing", nil, Unknown, "not measured"},
	} {
		if r := judgeSubnormals(c.prices); r.Met != c.want || strings.Count(r.Detail, c.says) != 1 {
			t.Errorf("%s: %s, %s", c.name, r.Met, r.Detail)
		}
	}
}

func TestPrecision(t *testing.T) {
	p := precisionOf([]Repeat{
		{Cycles: [2]float64{1, 1.02}, Half: [2]float64{0.01, 0.01}},
		{Cycles: [2]float64{4, 4}, Half: [2]float64{0.004, 0.02}},
		{Cycles: [2]float64{4, 0}, Half: [2]float64{3, 0}, Why: "unstable"},
		{Cycles: [2]float64{2, 2}, Half: [2]float64{0.1, 0}},
	})
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-12 }
	if p.Measured != 3 || !near(p.HalfMedian, 0.01) || !near(p.HalfMax, 0.05) || !near(p.ApartMedian, 0) || !near(p.ApartMax, 0.04/2.02) {
		t.Errorf("%+v", p)
	}
	if p := precisionOf([]Repeat{{Why: "unstable"}}); p.Measured != 0 || p.HalfMax != 0 || math.IsNaN(p.HalfMedian) {
		t.Errorf("of none: %+v", p)
	}
}
