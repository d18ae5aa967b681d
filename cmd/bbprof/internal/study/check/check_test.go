package check

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// lab is a host on which block i takes cycles, tolerated rejections included, or what starts says of a code offset.
type lab struct {
	starts   func(i, start int) float64
	rand     *rand.Rand
	scatter  float64 // of one measurement, as a share
	cycles   func(i, child int) (float64, error)
	children int
	open     int
	asked    map[int]int // measurements by block
}

func newLab(seed uint64, cycles func(i, child int) (float64, error)) *lab {
	return &lab{rand: rand.New(rand.NewPCG(seed, 0)), scatter: 0.002, cycles: cycles, asked: map[int]int{}}
}

func (l *lab) start() (measure.ProfileCloser, error) {
	l.children++
	l.open++
	return &child{l, l.children - 1}, nil
}

type child struct {
	*lab
	number int
}

func (c *child) Close() { c.open-- }

func (c *child) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	i := int(b.Code[0])<<8 | int(b.Code[1])
	c.asked[i]++
	v, err := c.cycles(i, c.number)
	if b.Setup.CodeOffset != nil && c.starts != nil {
		v, err = c.starts(i, *b.Setup.CodeOffset), nil
	}
	switch err := err.(type) {
	case measure.Failure:
		return profiler.Result{Status: profiler.Failed, Failure: err.Error()}, nil
	case *verdict.Rejection:
		if v == 0 || !slices.Contains(b.Setup.Tolerate, err.Reason) {
			return profiler.Result{Status: profiler.Rejected, Rejection: err}, nil
		}
	case error:
		return profiler.Result{}, err
	}
	return c.result(v), nil
}

// result returns v with the scatter and its interval.
func (l *lab) result(v float64) profiler.Result {
	half := 1.96 * math.Sqrt2 * l.scatter * v
	v *= 1 + l.scatter*l.rand.NormFloat64()
	return profiler.Result{Status: profiler.OK, Cycles: v, CILow: v - half, CIHigh: v + half}
}

func (l *lab) baseline(n int, cycles float64) []Block {
	var blocks []Block
	for i := range n {
		r := l.result(cycles)
		blocks = append(blocks, Block{Row: i + 1, Code: []byte{byte(i >> 8), byte(i)}, Cycles: r.Cycles, Half: r.CIHigh - r.Cycles})
	}
	return blocks
}

func count(outcomes []Outcome, s Status) int {
	return len(slices.DeleteFunc(slices.Clone(outcomes), func(o Outcome) bool { return o.Status != s }))
}

// TestUnchanged: at threshold 0, many blocks look slower by chance; hardly any does when measured again.
func TestUnchanged(t *testing.T) {
	alarms, cleared := 0, 0
	for run := range uint64(20) {
		l := newLab(run, func(int, int) (float64, error) { return 2, nil })
		got := require.Get(Run(context.Background(), l.baseline(200, 2), Options{Threshold: 0, Start: l.start}))(t)
		alarms += count(got, Slower)
		cleared += count(got, Cleared)
		if l.open != 0 {
			t.Fatalf("%d profilers left open", l.open)
		}
	}
	// Conservative errors make suspects rarer than 5 %; the family's level is 5 % per run.
	if alarms > 2 || cleared < 10 {
		t.Errorf("%d alarms, %d suspects cleared, in 20 runs over 200 blocks", alarms, cleared)
	}
}

func TestSlower(t *testing.T) {
	for _, c := range []struct {
		name    string
		slower  float64
		want    Status
		numbers int // new measurements
	}{
		{"by far", 1.5, Slower, retestRounds},
		{"past the threshold", 1.045, Slower, retestRounds},
		{"within it", 1.015, Fine, 0},
		{"faster", 0.5, Fine, 0},
	} {
		for run := range uint64(20) {
			l := newLab(run, func(i, _ int) (float64, error) {
				if i == 77 {
					return 2 * c.slower, nil
				}
				return 2, nil
			})
			got := require.Get(Run(context.Background(), l.baseline(200, 2), Options{Threshold: 0.02, Start: l.start}))(t)
			o := got[77]
			if o.Status != c.want || count(got, Slower) > 1 || o.Fresh != c.numbers {
				t.Errorf("%s, run %d: %+v", c.name, run, o)
			}
			want := 100 * (c.slower - 1)
			if (o.Low > want || o.High < want) && math.Abs(o.Slowdown-want) > 1 { // one interval in twenty misses
				t.Errorf("%s, run %d: slowdown %.2f to %.2f, true is %.2f", c.name, run, o.Low, o.High, want)
			}
			if want := 1 + retestRounds + 1; c.numbers > 0 && l.children != want { // screened, measured again, placed
				t.Errorf("%s: %d children, want %d", c.name, l.children, want)
			}
		}
	}
}

// TestSpeedsByLayout: ten blocks take 1.9 or 2.7 cycles by the code's start; a fast baseline is no slowdown.
func TestSpeedsByLayout(t *testing.T) {
	const runs, blocks, twoSpeeds = 100, 100, 10
	for _, c := range []struct {
		name        string
		now         float64 // factor on both modes
		least, most int     // runs with an alarm
	}{
		{"as it was", 1, 0, 5},
		{"slower", 1.5, runs - 5, runs},
	} {
		alarmed := 0
		for seed := range uint64(runs) {
			luck := rand.New(rand.NewPCG(seed, 2))
			factor := 1.0
			cycles := func(i int, fast bool) float64 {
				switch {
				case i >= twoSpeeds:
					return 2
				case fast:
					return 1.9 * factor
				}
				return 2.7 * factor
			}
			l := newLab(seed, func(i, _ int) (float64, error) { return cycles(i, luck.IntN(20) == 0), nil })
			l.starts = func(i, start int) float64 { return cycles(i, start == 32) }
			baseline := l.baseline(blocks, 2)
			for i := range twoSpeeds {
				r := l.result(cycles(i, luck.IntN(20) == 0))
				baseline[i].Cycles, baseline[i].Half = r.Cycles, r.CIHigh-r.Cycles
			}
			factor = c.now
			got := require.Get(Run(context.Background(), baseline, Options{Threshold: 0.02, Start: l.start}))(t)
			if count(got, Slower) > 0 {
				alarmed++
			}
			for _, o := range got {
				if o.FastAt != nil && (*o.FastAt != 32 || o.Status != Cleared) {
					t.Errorf("%s: %+v is fast at %d", c.name, o, *o.FastAt)
				}
			}
		}
		if alarmed < c.least || alarmed > c.most {
			t.Errorf("%s: %d of %d runs alarmed, want %d to %d", c.name, alarmed, runs, c.least, c.most)
		}
	}
}

// TestSpreadIsNotSlower: a baseline 8 % below children that scatter by 5 % was only one such child.
func TestSpreadIsNotSlower(t *testing.T) {
	l := newLab(1, func(_, child int) (float64, error) { return 2 * (1 + 0.05*float64(child%3-1)), nil })
	l.scatter = 0.0001
	l.starts = func(int, int) float64 { return 2 } // no layout explains it
	got, err := Run(context.Background(), []Block{{Row: 1, Code: []byte{0, 0}, Cycles: 1.84, Half: 0.001}}, Options{Threshold: 0.02, Start: l.start})
	if err != nil || got[0].Status != Cleared || got[0].Fresh != retestRounds {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOutcomes: what each block's measurements, child by child, make of it, whatever the others do.
func TestOutcomes(t *testing.T) {
	noise, sigill := &verdict.Rejection{Reason: verdict.ContextSwitch}, &verdict.Rejection{Reason: verdict.SIGILL}
	unstable, nonlinear := &verdict.Rejection{Reason: verdict.Unstable}, &verdict.Rejection{Reason: verdict.Nonlinear}
	broken := measure.Failure("the child has lost its memory")
	in := func(child bool, there, elsewhere float64, err error) (float64, error) {
		if child {
			return there, err
		}
		return elsewhere, nil
	}
	blocks := []struct {
		name   string
		cycles func(child int) (float64, error)
		want   Outcome
		asked  int // 0: not counted
	}{
		{"as it was", func(int) (float64, error) { return 2, nil }, Outcome{Status: Fine}, 1},
		{"sure to be rejected", func(int) (float64, error) { return 0, sigill }, Outcome{Status: Unknown, Rejection: sigill}, 1},
		{"disturbed until too few can follow", func(int) (float64, error) { return 0, noise }, Outcome{Status: Unknown, Rejection: noise},
			1 + retestRounds - leastRetests + 1},
		{"one value short of enough", func(n int) (float64, error) { return in(n > leastRetests-1, 0, 3, noise) },
			Outcome{Status: Unknown, Rejection: noise}, 0},
		{"just enough values", func(n int) (float64, error) { return in(n > leastRetests, 0, 3, noise) }, Outcome{Status: Slower}, 0},
		{"disturbed at first, slower", func(n int) (float64, error) { return in(n == 0, 0, 3, noise) }, Outcome{Status: Slower}, 0},
		{"disturbed at first, as it was", func(n int) (float64, error) { return in(n == 0, 0, 2, noise) }, Outcome{Status: Fine}, 0},
		{"slow in few children", func(n int) (float64, error) { return in(n%4 == 0, 2.2, 2, nil) }, Outcome{Status: Cleared}, 0},
		{"slow at first, then within the threshold", func(n int) (float64, error) { return in(n == 0, 2.2, 2.02, nil) }, Outcome{Status: Cleared}, 0},
		{"several modes, slower", func(int) (float64, error) { return 3, unstable }, Outcome{Status: Slower}, 0},
		{"several modes, as it was", func(int) (float64, error) { return 2, nonlinear }, Outcome{Status: Fine}, 0},
		{"a failure", func(int) (float64, error) { return 0, broken }, Outcome{Status: Failed, Failure: broken.Error()}, 1},
		{"a failure when measured again", func(n int) (float64, error) { return in(n == 3, 0, 3, broken) }, Outcome{Status: Failed, Failure: broken.Error()}, 0},
		{"a failure at the last", func(n int) (float64, error) { return in(n == 1+retestRounds, 0, 3, broken) },
			Outcome{Status: Failed, Failure: broken.Error()}, 0},
	}
	l := newLab(1, func(i, child int) (float64, error) { return blocks[i].cycles(child) })
	got := require.Get(Run(t.Context(), l.baseline(len(blocks), 2), Options{Threshold: 0.02, Start: l.start}))(t)
	for i, b := range blocks {
		require.Equal(t, b.name, b.want, Outcome{Status: got[i].Status, Rejection: got[i].Rejection, Failure: got[i].Failure})
		if b.asked > 0 && l.asked[i] != b.asked {
			t.Errorf("%s: asked %d times, want %d", b.name, l.asked[i], b.asked)
		}
	}
}

// TestHostErrorKeepsOutcomes: earlier outcomes come with a host error, and blocks not reached say so.
func TestHostErrorKeepsOutcomes(t *testing.T) {
	gone := &verdict.HostError{Missing: "an idle CPU"}
	for _, c := range []struct {
		block, child int
		want         []Status
	}{
		{0, 0, nil},
		{2, 0, []Status{Fine, Suspect, Interrupted, Interrupted}},
		{1, 1, []Status{Fine, Suspect, Fine, Fine}},
	} {
		l := newLab(1, func(i, child int) (float64, error) {
			if i == c.block && child == c.child {
				return 0, gone
			}
			return []float64{2, 3, 2, 2}[i], nil
		})
		outcomes, err := Run(t.Context(), l.baseline(4, 2), Options{Threshold: 0.02, Start: l.start})
		var got []Status
		for _, o := range outcomes {
			got = append(got, o.Status)
		}
		if !errors.Is(err, gone) || !slices.Equal(got, c.want) {
			t.Errorf("block %d, child %d: %q, %v; want %q", c.block, c.child, got, err, c.want)
		}
	}
}

// TestAgainst: results are compared as new measurements are; several rows of a block are several measurements.
func TestAgainst(t *testing.T) {
	const blocks, runs, noise = 20, 200, 0.004
	identity := func(b Block) string { return string(b.Code) }
	alarms, found := 0, 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 7))
		measured := func(i int, truth float64) Block {
			cycles := truth * (1 + noise*random.NormFloat64())
			b, err := NewBlock(i+1, []byte{byte(i)}, cycles, cycles*(1-2.77*noise), cycles*(1+2.77*noise)) // contains a second one in 95 % of cases
			require.NoError(t, err)
			return b
		}
		var was, now, slower []Block
		for i := range blocks {
			was, now = append(was, measured(i, 10)), append(now, measured(i, 10))
			slower = append(slower, measured(i, 10+5*float64(i/(blocks-1))))
		}
		if slices.ContainsFunc(Against(was, now, identity, 0), func(o Outcome) bool { return o.Status == Slower }) {
			alarms++
		}
		if out := Against(was, slower, identity, 0.02); out[blocks-1].Status == Slower && out[blocks-1].Low < 50 && out[blocks-1].High > 50 {
			found++
		}
	}
	if alarms > runs*8/100 || found < runs*93/100 {
		t.Errorf("of %d pairs of results, %d raise an alarm without a change, and in %d the change is found", runs, alarms, found)
	}
	b := func(code byte, cycles float64) Block {
		return Block{Code: []byte{code}, Cycles: cycles, Half: cycles / 100}
	}
	out := Against([]Block{b(1, 10), b(2, 10), b(3, 10)},
		[]Block{b(1, 10), b(1, 10.01), b(1, 9.99), {Code: []byte{2}, Reason: verdict.Timeout}}, identity, 0.02)
	if out[0].Status != Fine || out[0].Fresh != 3 || out[1].Rejection.Reason != verdict.Timeout || out[2].Status != Unknown ||
		out[2].Rejection.Reason != absent {
		t.Errorf("%+v", out)
	}
}
