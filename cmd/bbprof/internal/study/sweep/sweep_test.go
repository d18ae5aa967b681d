package sweep

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// fake measures by a function of the set-up.
type fake struct {
	order []profiler.Setup
	of    func(n int, s profiler.Setup) (profiler.Result, error)
}

func (f *fake) Profile(_ context.Context, b profiler.Block) (profiler.Result, error) {
	f.order = append(f.order, b.Setup)
	return f.of(len(f.order), b.Setup)
}

func ok(cycles float64, p invariants.Prediction) profiler.Result {
	return profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles - 0.01, CIHigh: cycles + 0.01, Predicted: &p}
}

func distance(s profiler.Setup) int { return int(s.Init.GPR[asm.RDI] - s.Init.GPR[asm.RSI]) }

// aliasing is a core on which a load at a distance of 4096 costs half a cycle more.
func aliasing(_ int, s profiler.Setup) (profiler.Result, error) {
	if distance(s)%4096 == 0 {
		return ok(1.5, invariants.Prediction{Loads: 1, Alias4K: 1}), nil
	}
	return ok(1, invariants.Prediction{Loads: 1}), nil
}

// distances sweeps from, from+step, ... to bytes.
func distances(t *testing.T, from, to, step int) Factor {
	t.Helper()
	var values []int
	for v := from; v <= to; v += step {
		values = append(values, v)
	}
	return require.Get(Distance(profiler.Setup{}, asm.RSI, asm.RDI, values))(t)
}

// TestRelate: a sweep over a core with a spike finds it where it was predicted.
func TestRelate(t *testing.T) {
	points := require.Get(Run(context.Background(), &fake{of: aliasing}, []byte{0x90}, distances(t, 16, 8192, 16), Plan{Runs: 1, Seed: 1}))(t)
	all := Relate(points)
	if r := all[0]; r.Column != "alias_4k" || r.N != 512 || r.R < 0.999 || r.Low > r.R || r.High < r.R {
		t.Errorf("%+v", r)
	}
	for _, r := range all[1:] {
		if !math.IsNaN(r.R) {
			t.Errorf("%s does not vary and has a correlation of %v", r.Column, r.R)
		}
	}
	s := Relate(points)[0]
	if want := []int{4096, 8192}; s.Usual != 1 || !slices.Equal(s.Slow, want) || !slices.Equal(s.Predicted, want) || !slices.Equal(s.Both, want) || s.There != 1.5 || s.Elsewhere != 1 {
		t.Errorf("%+v", s)
	}
	if f := Figure(points, distances(t, 0, 1, 1)); len(f.Panels) != 2 || len(f.Panels[1].Series) != 1 {
		t.Errorf("%d panels", len(f.Panels))
	}
}

// TestCorrelate: known values, by hand and by Fisher's transformation.
func TestCorrelate(t *testing.T) {
	for _, c := range []struct {
		name         string
		x, y         []float64
		r, low, high float64
	}{
		{"a line", []float64{0, 1, 2, 3, 4}, []float64{1, 2, 3, 4, 5}, 1, 1, 1},
		{"falling", []float64{0, 1, 2, 3, 4}, []float64{5, 4, 3, 2, 1}, -1, -1, -1},
		{"none", []float64{0, 0, 1, 1}, []float64{1, 2, 1, 2}, 0, math.Tanh(-1.959964), math.Tanh(1.959964)},
		{"half", []float64{0, 0, 0, 1, 1, 1}, []float64{0, 1, 0, 1, 0, 1}, 1.0 / 3, math.Tanh(math.Atanh(1.0/3) - 1.959964/math.Sqrt(3)), math.Tanh(math.Atanh(1.0/3) + 1.959964/math.Sqrt(3))},
	} {
		got := Correlate(c.name, c.x, c.y)
		if math.Abs(got.R-c.r) > 1e-9 || math.Abs(got.Low-c.low) > 1e-6 || math.Abs(got.High-c.high) > 1e-6 {
			t.Errorf("%s: %+v, want %v from %v to %v", c.name, got, c.r, c.low, c.high)
		}
	}
	for _, x := range [][]float64{nil, {1}, {1, 1, 1}} {
		if got := Correlate("", x, x); !math.IsNaN(got.R) {
			t.Errorf("%v has a correlation of %v", x, got.R)
		}
	}
}

// TestSlowBoundary: a spike's interval lies above what is usual by 3 %, and nothing less does.
func TestSlowBoundary(t *testing.T) {
	for _, c := range []struct {
		low  float64
		slow int
	}{{1.0301, 1}, {1.03, 0}} {
		points := []Point{{0, ok(1, invariants.Prediction{})}, {1, ok(1, invariants.Prediction{})}, {2, ok(c.low+0.01, invariants.Prediction{})}}
		points[2].Result.CILow = c.low
		if s := Relate(points)[0]; len(s.Slow) != c.slow {
			t.Errorf("from %v on: %d", c.low, len(s.Slow))
		}
	}
}

// TestMiddle: one disturbed run of three makes no spike, and a rejection counts only if there is
// nothing else.
func TestMiddle(t *testing.T) {
	rejected := profiler.Result{Status: profiler.Rejected, Reason: verdict.ContextSwitch}
	one := func(c float64) profiler.Result { return ok(c, invariants.Prediction{}) }
	for _, c := range []struct {
		runs []profiler.Result
		want float64
	}{
		{[]profiler.Result{one(1), one(9), one(1.1)}, 1.1},
		{[]profiler.Result{one(9), one(1)}, 1},
		{[]profiler.Result{rejected, one(2), rejected}, 2},
		{[]profiler.Result{rejected}, 0},
	} {
		if got := middle(c.runs); got.Cycles != c.want {
			t.Errorf("%v, want %v", got.Cycles, c.want)
		}
	}
	points := []Point{{0, rejected}, {1, one(2)}, {2, one(3)}}
	if r := Relate(points)[0]; r.N != 2 {
		t.Errorf("%d points were measured, not 2", r.N)
	}
}

func TestErrors(t *testing.T) {
	host := &verdict.HostError{Missing: "something"}
	_, err := Run(context.Background(), &fake{of: func(n int, s profiler.Setup) (profiler.Result, error) {
		if n == 3 {
			return profiler.Result{}, host
		}
		return aliasing(n, s)
	}}, nil, distances(t, 0, 31, 1), Plan{Runs: 1, Seed: 1})
	if !errors.Is(err, host) {
		t.Errorf("%v", err)
	}
	_, err = Run(context.Background(), &fake{of: func(int, profiler.Setup) (profiler.Result, error) {
		return profiler.Result{Status: profiler.Failed, Failure: "lost"}, nil
	}}, nil, distances(t, 0, 31, 1), Plan{Runs: 1, Seed: 1})
	if err == nil || errors.As(err, new(*verdict.HostError)) {
		t.Errorf("%v", err)
	}
}

// TestFactors: each factor changes its own and leaves the base as it was.
func TestFactors(t *testing.T) {
	init := initial.Paper()
	base := profiler.Setup{CodeOffset: new(7), Init: &init, Frames: 16}
	code := func(f Factor, err error) profiler.Setup {
		t.Helper()
		require.NoError(t, err)
		return f.Setup(f.Values[len(f.Values)-1])
	}
	if s := code(Code(base, []int{0, 4095})); *s.CodeOffset != 4095 || *base.CodeOffset != 7 || s.Frames != 16 {
		t.Errorf("code: %+v", s)
	}
	if s := code(Data(base, []asm.Reg{asm.RSP, asm.RBP}, []int{16})); s.Init.GPR[asm.RSP] != init.GPR[asm.RSP]+16 ||
		s.Init.GPR[asm.RBP] != init.GPR[asm.RBP]+16 || s.Init.GPR[asm.RAX] != init.GPR[asm.RAX] || !reflect.DeepEqual(init, initial.Paper()) {
		t.Errorf("data: %+v", s)
	}
	if s := code(Copies(base, []int{2, 400})); s.Unroll.Short != 100 || s.Unroll.Long != 400 {
		t.Errorf("copies: %+v", s)
	}
	if s := code(Frames(base, []int{1, 128})); s.Frames != 128 {
		t.Errorf("frames: %+v", s)
	}
	for name, err := range map[string]error{
		"offset of the next page": second(Code(base, []int{4096})),
		"negative offset":         second(Code(base, []int{-1})),
		"one copy":                second(Copies(base, []int{1})),
		"no frame":                second(Frames(base, []int{0})),
		"a frame too many":        second(Frames(base, []int{129})),
		"a megabyte and a byte":   second(Data(base, []asm.Reg{asm.RSP}, []int{1<<20 + 1})),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func second(_ Factor, err error) error { return err }

// TestSpikesTakeIntervals: a value stands out by its interval; without one, as of fewer than six runs, none can be told.
func TestSpikesTakeIntervals(t *testing.T) {
	var points []Point
	for i := range 8 {
		p := Point{Value: 16 * i, Result: profiler.Result{Status: profiler.OK, Cycles: 550, CILow: 548, CIHigh: 552}}
		if i == 5 {
			p.Result.Cycles, p.Result.CILow, p.Result.CIHigh = 930, 928, 932
		}
		points = append(points, p)
	}
	if s := SpikesOf(points); !s.Known || s.Usual != 550 || len(s.Slow) != 1 || s.Slow[0] != 80 {
		t.Errorf("%+v", s)
	}
	points[5].Result.CILow, points[5].Result.CIHigh = math.Inf(-1), math.Inf(1)
	if s := SpikesOf(points); s.Known || len(s.Slow) > 0 {
		t.Errorf("without an interval: %+v", s)
	}
}
