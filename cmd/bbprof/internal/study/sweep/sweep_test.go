package sweep

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
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

// distances sweeps from, from+step, … to bytes.
func distances(t *testing.T, from, to, step int) Factor {
	t.Helper()
	var values []int
	for v := from; v <= to; v += step {
		values = append(values, v)
	}
	return require.Get(Of("distance", profiler.Setup{}, []asm.Reg{asm.RSI, asm.RDI}, values))(t)
}

// swept sweeps a factor on a core.
func swept(t *testing.T, m *fake, f Factor) Sweep {
	t.Helper()
	results := require.Get(Run(context.Background(), m, []byte{0x90}, f, experiment.Plan{Rounds: 1, Seed: 1}))(t)
	return OfBlock(f, results, nil)
}

// TestRelate: a sweep on a core with a spike finds it where predicted.
func TestRelate(t *testing.T) {
	s := swept(t, &fake{of: aliasing}, distances(t, 16, 8192, 16))
	all := s.Relate(s.Groups[0])
	if r := all[0]; r.Name != "alias_4k" || len(r.Points) != 512 || r.R < 0.999 || r.Low > r.R || r.High < r.R {
		t.Errorf("%+v", r)
	}
	for _, r := range all[1:] {
		if !math.IsNaN(r.R) {
			t.Errorf("%s does not vary and has a correlation of %v", r.Name, r.R)
		}
	}
	if s, want := all[0], []int{4096, 8192}; s.Usual != 1 || !slices.Equal(s.Slow, want) ||
		!slices.Equal(s.Predicted, want) || !slices.Equal(s.Both, want) || s.There != 1.5 || s.Elsewhere != 1 {
		t.Errorf("%+v", s)
	}
	if f := s.Figure(); len(f.Panels) != 2 || len(f.Panels[1].Series) != 1 {
		t.Errorf("%d panels", len(f.Panels))
	}
	if text := s.Summary(); !strings.HasPrefix(text, "bbprof: 512 of 512 values of distance_bytes were measured: "+
		"1.000 to 1.500 cycles, a ratio of 1.500; slower than the usual 1.000 cycles by 3 %: 2 values (4096, 8192)\n") {
		t.Error(text)
	}
	if row := s.Table()[256]; strings.Join(row, ",") != "4096,ok,,1.5000,1.4900,1.5100,1,0,1,0,0,0,0,0,0,0" {
		t.Errorf("%q", row)
	}
}

// TestCorrelate checks values computed by hand and by Fisher's transformation.
func TestCorrelate(t *testing.T) {
	for _, c := range []struct {
		name         string
		x, y         []float64
		r, low, high float64
	}{
		{"a line", []float64{0, 1, 2, 3, 4}, []float64{1, 2, 3, 4, 5}, 1, 1, 1},
		{"falling", []float64{0, 1, 2, 3, 4}, []float64{5, 4, 3, 2, 1}, -1, -1, -1},
		{"none", []float64{0, 0, 1, 1}, []float64{1, 2, 1, 2}, 0, math.Tanh(-1.959964), math.Tanh(1.959964)},
		{"half", []float64{0, 0, 0, 1, 1, 1}, []float64{0, 1, 0, 1, 0, 1}, 1.0 / 3,
			math.Tanh(math.Atanh(1.0/3) - 1.959964/math.Sqrt(3)), math.Tanh(math.Atanh(1.0/3) + 1.959964/math.Sqrt(3))},
	} {
		if r, low, high := correlate(c.x, c.y); math.Abs(r-c.r) > 1e-9 || math.Abs(low-c.low) > 1e-6 || math.Abs(high-c.high) > 1e-6 {
			t.Errorf("%s: %v from %v to %v, want %v from %v to %v", c.name, r, low, high, c.r, c.low, c.high)
		}
	}
	for _, x := range [][]float64{nil, {1}, {1, 1, 1}} {
		if r, _, _ := correlate(x, x); !math.IsNaN(r) {
			t.Errorf("%v has a correlation of %v", x, r)
		}
	}
}

// TestSpikes: a spike's interval lies above the usual by 3 %; without an interval, no spike is known.
func TestSpikes(t *testing.T) {
	for _, c := range []struct {
		low  float64
		slow int
	}{{1.0301, 1}, {1.03, 0}} {
		points := []Point{{Value: 0, Cycles: 1, Low: 0.99}, {Value: 1, Cycles: 1, Low: 0.99}, {Value: 2, Cycles: c.low + 0.01, Low: c.low}}
		s := stand(points, make([]float64, 3))
		if !s.Known || s.Usual != 1 || len(s.Slow) != c.slow {
			t.Errorf("from %v on: %+v", c.low, s)
		}
		points[0].Low = math.Inf(-1)
		if s := stand(points, make([]float64, 3)); s.Known {
			t.Errorf("without an interval: %+v", s)
		}
	}
}

// TestMiddle: one disturbed run of three makes no spike, and a rejection counts only if there is nothing else.
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
	s := OfBlock(distances(t, 0, 2, 1), []profiler.Result{rejected, one(2), middle(nil)}, nil)
	if r := s.Relate(s.Groups[0])[0]; len(r.Points) != 1 || s.Table()[1][2] != "context_switch" || s.Table()[3][1] != "interrupted" {
		t.Errorf("%+v, %q", r, s.Table())
	}
}

func TestErrors(t *testing.T) {
	host := &verdict.HostError{Missing: "something"}
	for _, fails := range []error{host, nil} {
		_, err := Run(context.Background(), &fake{of: func(n int, s profiler.Setup) (profiler.Result, error) {
			if n == 3 {
				return profiler.Result{Status: profiler.Failed, Failure: "lost"}, fails
			}
			return aliasing(n, s)
		}}, nil, distances(t, 0, 31, 1), experiment.Plan{Rounds: 1, Seed: 1})
		if err == nil || errors.Is(err, host) != (fails != nil) {
			t.Errorf("%v", err)
		}
	}
}

// TestFactors: each factor changes only its own part and leaves the base unchanged.
func TestFactors(t *testing.T) {
	init, moved := initial.Paper(), initial.Paper()
	moved.GPR[asm.RSP] += 16
	moved.GPR[asm.RBP] += 16
	base := func() profiler.Setup { return profiler.Setup{CodeOffset: new(7), Init: &init, Frames: 16} }
	for _, c := range []struct {
		factor string
		values []int
		change func(*profiler.Setup)
	}{
		{"code", []int{0, 4095}, func(s *profiler.Setup) { *s.CodeOffset = 4095 }},
		{"data", []int{16}, func(s *profiler.Setup) { s.Init = &moved }},
		{"copies", []int{2, 400}, func(s *profiler.Setup) { s.Unroll = &unroll.Factors{Short: 100, Long: 400} }},
		{"framecount", []int{1, 128}, func(s *profiler.Setup) { s.Frames = 128 }},
	} {
		was, want := base(), base()
		c.change(&want)
		f := require.Get(Of(c.factor, was, []asm.Reg{asm.RSP, asm.RBP}, c.values))(t)
		require.Equal(t, c.factor, want, f.Setup(c.values[len(c.values)-1]))
		require.Equal(t, c.factor+": the base", base(), was)
	}
	require.Equal(t, "the initial state", initial.Paper(), init)
}
