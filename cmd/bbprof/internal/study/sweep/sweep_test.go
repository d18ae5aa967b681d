package sweep

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/simulated"
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
	code := []byte{0x90}
	results := require.Get(Run(context.Background(), m, code, f, experiment.Plan{Rounds: 1, Seed: 1}))(t)
	return OfBlock(code, f, results, nil)
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
	require.Equal(t, "row", "4096,ok,,1.5000,1.4900,1.5100,1,0,1,0,0,0,0,0,0,0", strings.Join(s.Table()[256], ","))
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
		require.Equal(t, "cycles", c.want, middle(c.runs).Cycles)
	}
	s := OfBlock([]byte{0x90}, distances(t, 0, 2, 1), []profiler.Result{rejected, one(2), middle(nil)}, nil)
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

// watched tells the script which set-up is measured, and counts profilers closed.
type watched struct {
	pool.Profiler
	before func(profiler.Setup)
	close  func()
}

func (w watched) Close() { w.close() }

func (w watched) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	w.before(b.Setup)
	return w.Profiler.Profile(ctx, b)
}

// TestScreenEveryEvent: with four counters more events than those are screened, and the one that follows the cycles is found.
func TestScreenEveryEvent(t *testing.T) {
	ctx := context.Background()
	aliased := uint64(0)
	k := pmutest.New(4)
	k.Opens = func(a pmu.Attr) error {
		if a.Type == pmu.TypeHWCache && a.Config&0xff == 6 { // node-…
			return syscall.ENOENT
		}
		return nil
	}
	open := simulated.NewProfiler.(func(context.Context, profiler.Options, simulated.Machine) (*profiler.Profiler, error))
	options := profiler.Options{Clock: profiler.PerfClock}
	machine := simulated.Skylake(k, func() uint64 { return 6 + 3*aliased }, func(e pmu.Event) uint64 {
		if strings.HasPrefix(e.Name, "LD_BLOCKS_PARTIAL") {
			return aliased
		}
		return 5
	})
	p, err := open(t.Context(), options, machine)
	var missing *verdict.HostError
	if errors.As(err, &missing) && strings.Contains(missing.Missing, "CPU") {
		require.Measure(t, err)
	}
	require.NoError(t, err)
	events, err := p.AllEvents(ctx)
	if err != nil || len(events) < 30 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	some := regexp.MustCompile("^(LD_|branch|cache|node-)") // a dozen is enough
	events = slices.DeleteFunc(events, func(name string) bool { return !some.MatchString(name) })
	require.NoError(t, p.CanCount(ctx, "instructions"))
	if err := p.CanCount(ctx, "frobnications"); !errors.As(err, new(*profiler.EventError)) {
		t.Error(err)
	}
	if err := p.CanCount(ctx, "node-loads"); !errors.As(err, &missing) {
		t.Error(err)
	}
	p.Close()
	f := require.Get(Of("distance", profiler.Setup{Frames: 16, Tolerate: []verdict.Reason{verdict.Alias4K}},
		[]asm.Reg{asm.RBX, asm.RDI}, []int{4032, 4096, 4160, 8128, 8192}))(t)
	opened, closed, done := 0, 0, 0
	block := []byte{0x48, 0x89, 0x0b, 0x48, 0x8b, 0x17} // mov [rbx], rcx; mov rdx, [rdi]
	columns, err := Screen(ctx, func(some []string) (pool.ProfileCloser, error) {
		o := options
		o.Events = slices.Concat(o.Events, some)
		p, err := open(t.Context(), o, machine)
		if err != nil {
			return nil, err
		}
		opened++
		aliases := func(s profiler.Setup) {
			aliased = 0
			if (s.Init.GPR[asm.RDI]-s.Init.GPR[asm.RBX])%4096 == 0 {
				aliased = 1
			}
		}
		return watched{p, aliases, func() { closed++; p.Close() }}, nil
	}, block, f, events, experiment.Plan{Rounds: 1, Seed: 1, Done: func(n int) { done = n }})
	require.NoError(t, err)
	if len(columns) != len(events) || done != len(events) || opened < len(events)/4 || closed != opened {
		t.Errorf("%d of %d events, %d told, %d profilers, %d closed", len(columns), len(events), done, opened, closed)
	}
	swept := Sweep{Groups: []Group{{Columns: columns}}}
	for i, v := range f.Values {
		swept.Points = append(swept.Points, Point{Value: v, Cycles: 6 + 3*float64(i%3%2)})
	}
	first := swept.Relate(swept.Groups[0])[0]
	if first.Name != "LD_BLOCKS_PARTIAL.ADDRESS_ALIAS" || len(first.Points) != 5 || first.Values[1] != 1 || first.Values[0] != 0 {
		t.Errorf("%+v", first)
	}
	refused := 0
	for _, c := range columns {
		switch node := strings.HasPrefix(c.Name, "node-"); {
		case node && c.Why != "":
			refused++
		case node || c.Name != first.Name && (c.Why != "" || c.Values[0] != 5 || c.Values[1] != 5):
			t.Errorf("%+v", c)
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
}

// TestScreenErrors: what is no refusal of an event ends the screening, and the profiler is closed.
func TestScreenErrors(t *testing.T) {
	lost, closed := errors.New("lost"), 0
	for _, opens := range []error{lost, nil} {
		fails := &fake{of: func(int, profiler.Setup) (profiler.Result, error) { return profiler.Result{}, lost }}
		_, err := Screen(t.Context(), func([]string) (pool.ProfileCloser, error) {
			return watched{fails, func(profiler.Setup) {}, func() { closed++ }}, opens
		}, nil, distances(t, 0, 16, 16), make([]string, 2), experiment.Plan{Rounds: 1})
		if !errors.Is(err, lost) {
			t.Error(err)
		}
	}
	require.Equal(t, "profilers closed", 1, closed)
}

// TestCrossings: add rax, 1 (4 bytes), dec rcx (3), jnz (2), of which the last two may be one: where they stand across a line.
func TestCrossings(t *testing.T) {
	loop := []byte{0x48, 0x83, 0xc0, 0x01, 0x48, 0xff, 0xc9, 0x75, 0xf7}
	one := profiler.Result{Loop: &profiler.LoopReport{CopiesLong: 1}}
	f := require.Get(Of("code", profiler.Setup{}, nil, []int{23, 55, 56, 59, 60, 61}))(t)
	s := OfBlock(loop, f, []profiler.Result{one, one, one, one, one, one}, nil)
	want := map[string][]float64{
		"line_crossings":        {0, 0, 1, 1, 0, 1},
		"branch_line_crossings": {0, 0, 1, 1, 0, 0},
		"branch_32_crossings":   {1, 1, 1, 1, 0, 0},
	}
	for _, c := range s.Groups[0].Columns {
		if values, ok := want[c.Name]; ok {
			require.Equal(t, c.Name, values, c.Values)
			delete(want, c.Name)
		}
	}
	require.Equal(t, "columns that are missing", 0, len(want))

	// In a row of nine bytes each the mean of 64 copies; a block without a branch has none to cross.
	row := OfBlock(loop[:4], f, []profiler.Result{{Ran: profiler.Ran{UnrollLong: 32}}, {}, one, one, one, one}, nil)
	columns := row.Groups[0].Columns
	lines, branches := columns[len(columns)-3].Values, columns[len(columns)-2].Values
	require.Equal(t, "of a row of 4 bytes from byte 23 on", 2.0/32, lines[0])
	require.Equal(t, "that a row has in all", true, lines[1] != lines[1])
	require.Equal(t, "without a branch", 0.0, branches[2])
	if rows := OfBlock(loop[:4], Factor{Name: "copies", Values: []int{8}}, []profiler.Result{one}, nil); len(rows.Groups[0].Columns) != len(predictions) {
		t.Errorf("%d columns where the code stays: %d are predictions", len(rows.Groups[0].Columns), len(predictions))
	}
}
