package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
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
	if len(r.Evidence) != 2 {
		t.Errorf("evidence %v", r.Evidence)
	}
	// The promise is about bbprof -hex, so the first measurement is with its options.
	if o := f.started[0]; o.Frames != profiler.AutoFrames || o.Tolerate != nil || o.NoFTZ || o.NoRescue || o.Budget != budget {
		t.Errorf("options %+v", o)
	}
}

// TestExamineHostThatCannot: where no profiler starts, nothing is promised, and what is missing
// comes first.
func TestExamineHostThatCannot(t *testing.T) {
	f := &fake{starts: []error{errHost}}
	r := examined(t, f)
	if r.CanMeasure || r.Clock != nil || r.Precision != nil || len(f.started) != 1 || r.OnCPU != 3 {
		t.Errorf("%+v after %d starts", r, len(f.started))
	}
	want := Shortcoming{"ptrace is off: EPERM", "bbprof cannot measure here", "switch it on"}
	if len(r.Shortcomings) == 0 || r.Shortcomings[0] != want {
		t.Errorf("%v", r.Shortcomings)
	}
	// The same, when it shows at the first block.
	f = &fake{profile: func(profiler.Options, string) (profiler.Result, error) { return profiler.Result{}, errHost }}
	if r := examined(t, f); r.CanMeasure || r.Shortcomings[0] != want {
		t.Errorf("%+v", r)
	}
	// What was measured once and never again is no promise.
	if r := examined(t, &fake{starts: []error{nil, errHost}}); r.CanMeasure || r.Precision != nil || r.Shortcomings[0] != want {
		t.Errorf("%v, %+v, %v", r.CanMeasure, r.Precision, r.Shortcomings)
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
		switch {
		case twice == "" && (r.CanMeasure || r.Precision != nil ||
			!strings.Contains(r.Shortcomings[0].What, "none of 8 blocks was measured twice, the first since: unstable: so")):
			t.Errorf("none: %v, %v", r.CanMeasure, r.Shortcomings)
		case twice != "" && (!r.CanMeasure || r.Precision.Measured != 1):
			t.Errorf("one: %v, %+v", r.CanMeasure, r.Precision)
		case twice != "" && !slices.ContainsFunc(r.Shortcomings, func(s Shortcoming) bool {
			return strings.Contains(s.What, "7 of 8 blocks were not measured twice: add rax, rax: unstable: so")
		}):
			t.Errorf("%v", r.Shortcomings)
		}
	}
}

// TestExamineBusyHost: a host that lets no block finish cannot measure now, and each block is
// tried often at first and once in the end.
func TestExamineBusyHost(t *testing.T) {
	n := 0
	f := &fake{profile: func(profiler.Options, string) (profiler.Result, error) {
		n++
		return rejected(verdict.Unstable), nil
	}}
	r := examined(t, f)
	if r.CanMeasure || !strings.Contains(r.Shortcomings[0].What, "none of 8") ||
		!strings.Contains(r.Shortcomings[0].What, "unstable: so") ||
		!strings.Contains(r.Shortcomings[0].Remedy, "-cpus, ") {
		t.Errorf("%v", r.Shortcomings)
	}
	if want := patience + 2*len(set) - 1; n > want+measure.Tries || n < 2*len(set) {
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
			if o.NoRescue {
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
	if r.Host.PageZero != "" {
		t.Errorf("page 0 was tried: %s", r.Host.PageZero)
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
