package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestDraw(t *testing.T) {
	long, short := Draw(7, 2000), Draw(7, 10)
	require.Equal(t, "the first layouts of a seed depend on how many there are", long[:10], short)
	if cmp.Equal(short, Draw(8, 10)) {
		t.Error("two seeds make the same layouts")
	}
	starts, data := map[int]bool{}, map[int]bool{}
	for i, l := range long {
		if l.Number != i+1 || l.Start%codeUnit != 0 || l.Start < 0 || l.Start >= page ||
			l.Data%dataUnit != 0 || l.Data < 0 || l.Data >= page {
			t.Fatalf("layout %+v", l)
		}
		starts[l.Start], data[l.Data] = true, true
	}
	if len(starts) < 250 || len(data) != page/dataUnit {
		t.Errorf("%d starts of %d, %d places of data of %d", len(starts), page/codeUnit, len(data), page/dataUnit)
	}
}

// noisy measures a side with a layout-dependent time.
func noisy(seed uint64, scatter float64, cycles func(Layout) float64) Measure {
	random := rand.New(rand.NewPCG(seed, 1))
	return func(_ context.Context, l Layout) (float64, error) {
		return cycles(l) * (1 + scatter*random.NormFloat64()), nil
	}
}

// moved is a time that varies by up to 10 % with the layout.
func moved(l Layout) float64 { return 10 * (1 + 0.1*float64(l.Start)/page) }

// TestRun: no side is always first, and each has its values in each layout.
func TestRun(t *testing.T) {
	const layouts, trials, sides = 40, 3, 3
	var order []int
	var measures []Measure
	for side := range sides {
		measures = append(measures, func(_ context.Context, l Layout) (float64, error) {
			order = append(order, side)
			return float64(side) + moved(l), nil
		})
	}
	told := 0
	all, _, err := Run(context.Background(), Draw(1, layouts), experiment.Plan{Rounds: trials, Done: func(n int) { told = n }}, measures)
	if err != nil || len(all) != layouts || told != layouts*trials*sides {
		t.Fatalf("%d layouts, %d told, %v", len(all), told, err)
	}
	first := make([]int, sides)
	for round := range slices.Chunk(order, sides) {
		first[round[0]]++
	}
	if slices.Min(first) < 20 || slices.Max(first) > 60 { // of 120; 40 are expected
		t.Errorf("who is first: %v", first)
	}
	for i, p := range Pairs(all, 2) {
		of := moved(all[i].Layout)
		require.Equal(t, i, [][]float64{{of, of, of}, {2 + of, 2 + of, 2 + of}}, [][]float64{p.A, p.B})
	}
}

// TestIdentical: 5 % of comparisons of code with itself find a difference, however many sides are compared at once.
func TestIdentical(t *testing.T) {
	const runs = 1000
	for _, others := range []int{1, 3} {
		found := 0
		for seed := range uint64(runs) {
			all, _ := require.Get2(Run(context.Background(), Draw(seed, 33), experiment.Plan{Rounds: 1, Seed: seed},
				slices.Repeat([]Measure{noisy(seed, 0.01, moved)}, 1+others)))(t)
			any := false
			for side := range others {
				c := require.Get(Paired(Pairs(all, side+1), others))(t)
				if away := c.Low > 0 || c.High < 0; away != (c.Verdict != Same) {
					t.Fatalf("the verdict does not follow from the interval: %+v", c)
				}
				any = any || c.Verdict != Same
			}
			if any {
				found++
			}
		}
		if limit := 0.05*runs + 4*math.Sqrt(runs*0.05*0.95); float64(found) > limit || others == 1 && float64(found) < 2*0.05*runs-limit {
			t.Errorf("%d others: %d of %d find a difference", others, found, runs)
		}
	}
}

// TestPairsHelp: pairing finds a difference of 1 % although layouts vary by 10 %.
func TestPairsHelp(t *testing.T) {
	sides := []Measure{noisy(1, 0.005, moved), noisy(2, 0.005, func(l Layout) float64 { return 1.01 * moved(l) })}
	all, _ := require.Get2(Run(context.Background(), Draw(1, 33), experiment.Plan{Rounds: 3, Seed: 1}, sides))(t)
	c, err := Paired(Pairs(all, 1), 1)
	if err != nil || c.Verdict != Slower || c.Low > 1 || c.High < 1 || c.WonA < 25 || c.WonA+c.WonB != 33 || c.Layouts != 33 {
		t.Errorf("paired: %+v, %v", c, err)
	}
	if n := c.LayoutsFor(c.Detects); n != 33 {
		t.Errorf("%d layouts detect what 33 detect", n)
	}
	if n := c.LayoutsFor(c.Detects / 2); n > 4*33 || n < 4*33-8 { // the larger sample's t has thinner tails
		t.Errorf("%d layouts detect half of what 33 detect", n)
	}
	if c.Says[Slower]+c.Says[Faster]+c.Says[Same] != 33 || c.Says[Same] == 0 {
		t.Errorf("single layouts say %v", c.Says)
	}
}

func TestConclusionAtTheEdges(t *testing.T) {
	pair := func(a, b float64) Pair { return Pair{A: []float64{a}, B: []float64{b}} }
	for _, c := range []struct {
		name  string
		pairs []Pair
		want  Verdict
		says  map[Verdict]int
		other int // layouts that say otherwise
	}{
		{"all equal", []Pair{pair(1, 1), pair(2, 2)}, Same, map[Verdict]int{Same: 2}, 0},
		{"all alike", []Pair{pair(1, 2), pair(2, 4)}, Slower, map[Verdict]int{Slower: 2}, 0},
		{"two that disagree", []Pair{pair(1, 2), pair(2, 1)}, Same, map[Verdict]int{Slower: 1, Faster: 1}, 2},
	} {
		got, err := Paired(c.pairs, 1)
		if err != nil || got.Verdict != c.want {
			t.Errorf("%s: %s, %v", c.name, got.Verdict, err)
		}
		require.Equal(t, c.name, c.says, got.Says)
		require.Equal(t, c.name, c.other, got.Contrary())
		require.Get(json.Marshal(got))(t)
		var all []Measured
		for _, p := range c.pairs {
			all = append(all, Measured{p.Layout, [][]float64{p.A, p.B}})
		}
		require.NoError(t, Figure("cycles", []Conclusion{got}, all).Draw(io.Discard))
	}
	for n := range 2 {
		if _, err := Paired(make([]Pair, n), 1); err == nil {
			t.Errorf("a conclusion from %d layouts", n)
		}
	}
}

// TestLinked: layouts that share a link are not independent: four links that favour a prove nothing.
func TestLinked(t *testing.T) {
	favour := []float64{0.04, 0.05, -0.01, 0.02} // of a, in each link
	const setups = 50
	var pairs []Pair
	for _, f := range favour {
		for i := range setups {
			cycles := 1 + f + 0.001*float64(i%3-1)
			pairs = append(pairs, Pair{A: []float64{1, 1, 1}, B: []float64{cycles, cycles, cycles + 0.3}})
		}
	}
	c, err := Linked(pairs, setups, 1)
	if err != nil || c.Verdict != Same || math.Abs(c.Mean-2.5) > 0.01 || c.DF > 3.1 || c.Layouts != 4*setups || c.WonB != setups {
		t.Errorf("%+v, %v", c, err)
	}
	// One trial of three is an outlier and counts on its own.
	if p := c.Proposal; p == nil || math.Abs(p.Value-12.5) > 0.01 || p.Low < 11 || p.Low > 12 || p.High > 14 {
		t.Errorf("mean of all differences: %+v", p)
	}
	if m := c.Median; m == nil || m.Value < 2 || m.Value > 4 || m.Low < 1.8 || m.High > 4.2 {
		t.Errorf("median of differences: %+v", m)
	}
	each := []Pair{pairs[0], pairs[setups], pairs[2*setups], pairs[3*setups]}
	own, err := Linked(each, 1, 1)
	paired, _ := Paired(each, 1)
	if err != nil || own.P != paired.P || own.Method != paired.Method || own.Median != nil { // four values give no interval
		t.Errorf("a set-up a link: %+v, %v, want %+v", own, err, paired)
	}
	if cut, err := Linked(pairs[:3*setups+7], setups, 1); err != nil || cut.Layouts != 3*setups {
		t.Errorf("interrupted in the fourth link: %d layouts, %v", cut.Layouts, err)
	}
	if _, err := Linked(pairs[:setups+7], setups, 1); err == nil {
		t.Error("a conclusion from one link")
	}
}

// TestSpeedup: a layout's speed-up is a's time over b's, within its interval.
func TestSpeedup(t *testing.T) {
	of := []Pair{{Layout: Layout{Env: 16}, A: []float64{10, 10.1, 9.9}, B: []float64{20, 20.1, 19.9}},
		{Layout: Layout{Env: 32}, A: []float64{10, 10.1, 9.9}, B: []float64{5, 5.1, 4.9}}}
	s := require.Get(Paired(of, 1))(t).Speedup("b", of)
	require.Equal(t, "speed-ups", [][]float64{{16, 32}, {0.5, 2}}, [][]float64{s.X, s.Y}, cmpopts.EquateApprox(0, 1e-9))
	if s.Low[1] >= 2 || s.High[1] <= 2 {
		t.Errorf("%+v", s)
	}
	one := slices.Repeat([]Pair{{A: []float64{1}, B: []float64{2}}}, 2)
	if require.Get(Paired(one, 1))(t).Speedup("", one).Low != nil {
		t.Error("an interval from one trial")
	}
}

func TestContrary(t *testing.T) {
	for verdict, want := range map[Verdict]int{Slower: 3, Faster: 2, Same: 5} {
		c := Conclusion{Verdict: verdict, Layouts: 10, Says: map[Verdict]int{Slower: 2, Faster: 3, Same: 5}}
		require.Equal(t, verdict, want, c.Contrary())
	}
}

func TestSuite(t *testing.T) {
	pair := func(layout int, a, b float64) Pair {
		return Pair{Layout: Layout{Number: layout}, A: []float64{a}, B: []float64{b}}
	}
	programs := [][]Pair{
		{pair(1, 2, 1), pair(2, 2, 2), pair(3, 1, 4)},
		{pair(1, 8, 1), pair(2, 2, 2), pair(3, 4, 4), pair(4, 9, 1)}, // the first was interrupted before the fourth
	}
	s := OfSuite(programs)
	require.Equal(t, "speed-ups", []float64{4, 1, 0.5}, s.Speedups, cmpopts.EquateApprox(0, 1e-12))
	if s.Straddle != 1 || s.Best != 0 || s.Worst != 2 || s.Layouts[s.Worst].Number != 3 {
		t.Errorf("%+v", s)
	}
	if want := math.Cbrt(2); math.Abs(s.Mean-want) > 1e-12 || s.Low > want || s.High < want {
		t.Errorf("mean %v, %v to %v, want %v", s.Mean, s.Low, s.High, want)
	}
	if one := OfSuite(programs[:1]); one.Low != 0 || one.High != 0 {
		t.Errorf("an interval over one program: %+v", one)
	}
	var out bytes.Buffer
	if err := s.Figure([]string{"first", "second"}, programs).Draw(&out); err != nil || !strings.Contains(out.String(), ">2 second<") ||
		strings.Contains(out.String(), "alphabetical") {
		t.Errorf("%v: %s", err, out.String())
	}
	programs[1][0].Layout.Order, programs[1][1].Layout.Order = "given", "alphabetical"
	marks := s.Figure([]string{"first", "second"}, programs).Panels[0].Series[1:]
	require.Equal(t, "marks", [][]float64{{1}, {8}, {1}, {1}}, [][]float64{marks[0].X, marks[0].Y, marks[1].X, marks[1].Y})
}

func TestRejections(t *testing.T) {
	alias := &verdict.Rejection{Reason: verdict.Alias4K}
	broken := errors.New("broken")
	ok := func(context.Context, Layout) (float64, error) { return 1, nil }
	layouts, plan := Draw(1, 10), experiment.Plan{Rounds: 2}
	for _, c := range []struct {
		name              string
		layouts           int
		rejects           func(layout int) bool // of side b
		with              error
		measured, dropped int
		ends              error
	}{
		{"in one layout", 10, func(n int) bool { return n == 3 }, alias, 9, 1, nil},
		{"in all", 10, func(int) bool { return true }, alias, 0, giveUpAfter, alias},
		{"in the first", 10, func(n int) bool { return n < giveUpAfter }, alias, 10 - giveUpAfter + 1, giveUpAfter - 1, nil},
		{"in one layout too many", 3, func(n int) bool { return n > leastLayouts-1 }, alias, leastLayouts - 1, 4 - leastLayouts, alias},
		{"in as many as may be", 3, func(n int) bool { return n > leastLayouts }, alias, leastLayouts, 3 - leastLayouts, nil},
		{"broken", 10, func(n int) bool { return n == 3 }, broken, 2, 0, broken},
	} {
		b := func(_ context.Context, l Layout) (float64, error) {
			if c.rejects(l.Number) {
				return 0, c.with
			}
			return 1, nil
		}
		pairs, dropped, err := Run(context.Background(), layouts[:c.layouts], plan, []Measure{ok, b})
		if len(pairs) != c.measured || len(dropped) != c.dropped || !errors.Is(err, c.ends) {
			t.Errorf("%s: %d layouts, want %d, %d dropped, want %d, %v", c.name, len(pairs), c.measured, len(dropped), c.dropped, err)
		}
		if side := (*SideError)(nil); err != nil && (!errors.As(err, &side) || side.Side != "b") {
			t.Errorf("%s: not of side b: %v", c.name, err)
		}
		for _, d := range dropped {
			if d.Side != "b" || d.Rejection != alias || !c.rejects(d.Layout.Number) {
				t.Errorf("%s: %+v", c.name, d)
			}
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := Run(ctx, layouts, plan, []Measure{ok, ok}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestTooSmall: a difference that is certain is none if it is no larger than what is ignored, in the mean as in each
// layout, or than what code against itself shows.
func TestTooSmall(t *testing.T) {
	var pairs []Pair
	for i := range 20 {
		b := 101 + 0.01*float64(i%3) // the interval is from 1.006 to 1.013 %
		pairs = append(pairs, Pair{A: []float64{100, 100.001, 99.999}, B: []float64{b, b + 0.001, b - 0.001}})
	}
	ignore := func(least float64) func(*Conclusion) { return func(c *Conclusion) { c.Ignore(least) } }
	control := func(low, high float64) func(*Conclusion) {
		return func(c *Conclusion) { c.Control(Conclusion{Low: low, High: high}) }
	}
	for _, c := range []struct {
		name  string
		than  func(*Conclusion)
		want  Verdict
		says  int // layouts that say the same alone
		bound float64
	}{
		{"nothing is ignored", ignore(0), Slower, 0, 1.013},
		{"less is ignored", ignore(1), Slower, 0, 1.013},
		{"the interval reaches what is ignored", ignore(1.011), Same, 14, 1.013},
		{"more is ignored", ignore(1.2), Same, 20, 1.2},
		{"a control below it", control(-0.5, 0.9), Slower, 0, 1.013},
		{"a control above it", control(-0.5, 1.2), Same, 0, 1.2},
		{"a control above it on the other side", control(-1.2, 0.1), Same, 0, 1.2},
	} {
		got := require.Get(Paired(pairs, 1))(t)
		c.than(&got)
		require.Equal(t, c.name, c.want, got.Verdict)
		require.Equal(t, c.name+": layouts alone", c.says, got.Says[Same])
		require.Equal(t, c.name+": no difference above", c.bound, got.Bound(), cmpopts.EquateApprox(0, 0.005))
	}
}
