package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

func TestDraw(t *testing.T) {
	long, short := Draw(7, 2000, 4), Draw(7, 10, 4)
	require.Equal(t, "the first layouts of a seed depend on how many there are", long[:10], short)
	if cmp.Equal(short, Draw(8, 10, 4)) {
		t.Error("two seeds make the same layouts")
	}
	var first float64
	starts, data := map[int]bool{}, map[int]bool{}
	for i, l := range long {
		if l.Number != i+1 || len(l.BFirst) != 4 ||
			l.Start%CodeUnit != 0 || l.Start < 0 || l.Start >= Page ||
			l.Data%DataUnit != 0 || l.Data < 0 || l.Data >= Page {
			t.Fatalf("layout %+v", l)
		}
		starts[l.Start], data[l.Data] = true, true
		if l.BFirst[0] {
			first += 1 / float64(len(long))
		}
	}
	if math.Abs(first-0.5) > 5*0.5/math.Sqrt(2000) {
		t.Errorf("b is first in %.2f of the layouts", first)
	}
	if len(starts) < 250 || len(data) != Page/DataUnit {
		t.Errorf("%d starts of %d, %d places of data of %d", len(starts), Page/CodeUnit, len(data), Page/DataUnit)
	}
}

// bench measures sides whose time depends on the layout, with noise.
type bench struct {
	rand    *rand.Rand
	scatter float64
	order   []string
}

func (b *bench) measure(name string, cycles func(Layout) float64) Measure {
	return func(_ context.Context, l Layout) (float64, error) {
		b.order = append(b.order, name)
		return cycles(l) * (1 + b.scatter*b.rand.NormFloat64()), nil
	}
}

// moved is a time that the layout moves by up to 10 %.
func moved(l Layout) float64 { return 10 * (1 + 0.1*float64(l.Start)/Page) }

func TestRunAlternates(t *testing.T) {
	b := &bench{rand: rand.New(rand.NewPCG(1, 1))}
	layouts := Draw(1, 5, 3)
	pairs, dropped, err := Run(context.Background(), layouts, b.measure("a", moved), b.measure("b", moved))
	if err != nil || len(dropped) > 0 || len(pairs) != 5 {
		t.Fatalf("%d pairs, %v, %v", len(pairs), dropped, err)
	}
	at := 0
	for i, l := range layouts {
		if len(pairs[i].A) != 3 || len(pairs[i].B) != 3 || pairs[i].A[0] != moved(l) {
			t.Errorf("layout %d: %+v", i+1, pairs[i])
		}
		for repetition, bFirst := range l.BFirst {
			if first := b.order[at]; (first == "b") != bFirst || b.order[at+1] == first {
				t.Errorf("layout %d, repetition %d: %v", i+1, repetition, b.order[at:at+2])
			}
			at += 2
		}
	}
}

// TestIdentical: of comparisons of code with itself, 5 % find a difference.
func TestIdentical(t *testing.T) {
	const runs = 1000
	for _, conclude := range []func([]Pair) (Conclusion, error){Paired, Unpaired} {
		found := 0
		for seed := range uint64(runs) {
			b := &bench{rand: rand.New(rand.NewPCG(seed, 1)), scatter: 0.01}
			pairs, _ := require.Get2(RunUnpaired(context.Background(), Draw(seed, 33, 1), Draw(^seed, 33, 1), b.measure("a", moved), b.measure("b", moved)))(t)
			c := require.Get(conclude(pairs))(t)
			if c.Verdict != Same {
				found++
			}
		}
		if d := math.Abs(float64(found) - 0.05*runs); d > 4*math.Sqrt(runs*0.05*0.95) {
			t.Errorf("%d of %d find a difference", found, runs)
		}
	}
}

// TestPairsHelp: a difference of 1 % under a layout's 10 % is found in pairs and not without.
func TestPairsHelp(t *testing.T) {
	b := &bench{rand: rand.New(rand.NewPCG(1, 1)), scatter: 0.005}
	slower := b.measure("b", func(l Layout) float64 { return 1.01 * moved(l) })
	pairs, _ := require.Get2(Run(context.Background(), Draw(1, 33, 3), b.measure("a", moved), slower))(t)
	c, err := Paired(pairs)
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
	pairs, _ = require.Get2(RunUnpaired(context.Background(), Draw(1, 33, 3), Draw(2, 33, 3), b.measure("a", moved), slower))(t)
	if u, err := Unpaired(pairs); err != nil || u.Verdict != Same || u.Detects < 3*c.Detects || u.LayoutsFor(u.Detects) != 33 {
		t.Errorf("unpaired: %+v, %v", u, err)
	}
	for i := range pairs { // a ratio of two, by all
		pairs[i].B = []float64{2 * Value(pairs[i].A)}
	}
	if u, err := Unpaired(pairs); err != nil || math.Abs(u.Mean-100) > 1e-9 || u.Low > 100 || u.High < 100 {
		t.Errorf("twice as long: %+v, %v", u, err)
	}
}

func TestConclusionAtTheEdges(t *testing.T) {
	pair := func(a, b float64) Pair { return Pair{A: []float64{a}, B: []float64{b}} }
	for _, c := range []struct {
		name  string
		pairs []Pair
		want  Verdict
		says  map[Verdict]int
	}{
		{"all equal", []Pair{pair(1, 1), pair(2, 2)}, Same, map[Verdict]int{Same: 2}},
		{"all alike", []Pair{pair(1, 2), pair(2, 4)}, Slower, map[Verdict]int{Slower: 2}},
		{"two that disagree", []Pair{pair(1, 2), pair(2, 1)}, Same, map[Verdict]int{Slower: 1, Faster: 1}},
	} {
		got, err := Paired(c.pairs)
		if err != nil || got.Verdict != c.want {
			t.Errorf("%s: %s, %v", c.name, got.Verdict, err)
		}
		require.Equal(t, fmt.Sprintf("%s: what single layouts say", c.name), c.says, got.Says)
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := Figure("cycles", got, c.pairs).Draw(io.Discard); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for n := range 2 {
		if _, err := Paired(make([]Pair, n)); err == nil {
			t.Errorf("a conclusion from %d layouts", n)
		}
	}
}

// TestLinked: layouts with a link in common are not independent, so four links that happen to favour a
// make no difference however many set-ups each is run in.
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
	c, err := Linked(pairs, setups)
	if err != nil || c.Verdict != Same || math.Abs(c.Mean-2.5) > 0.01 || c.DF > 3.1 || c.Layouts != 4*setups || c.WonB != setups {
		t.Errorf("%+v, %v", c, err)
	}
	if p := c.Proposal; p == nil || math.Abs(p.Value-12.5) > 0.01 || p.Low < 12 || p.High > 13 { // the mean counts the outlier of each three
		t.Errorf("differences of means: %+v", p)
	}
	if m := c.Median; m == nil || m.Value < 2 || m.Value > 4 || m.Low < 1.8 || m.High > 4.2 {
		t.Errorf("median of differences: %+v", m)
	}
	each := []Pair{pairs[0], pairs[setups], pairs[2*setups], pairs[3*setups]}
	own, err := Linked(each, 1)
	paired, _ := Paired(each)
	if err != nil || own.P != paired.P || own.Method != paired.Method || own.Median != nil { // four values give no interval
		t.Errorf("a set-up a link: %+v, %v, want %+v", own, err, paired)
	}
	if cut, err := Linked(pairs[:3*setups+7], setups); err != nil || cut.Layouts != 3*setups {
		t.Errorf("interrupted in the fourth link: %d layouts, %v", cut.Layouts, err)
	}
	if _, err := Linked(pairs[:setups+7], setups); err == nil {
		t.Error("a conclusion from one link")
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
	for i, want := range []float64{4, 1, 0.5} {
		if math.Abs(s.Speedups[i]-want) > 1e-12 {
			t.Errorf("layout %d: %v, want %v", i+1, s.Speedups[i], want)
		}
	}
	if len(s.Speedups) != 3 || s.Best != 0 || s.Worst != 2 || s.Layouts[s.Worst].Number != 3 {
		t.Errorf("%+v", s)
	}
	if want := math.Cbrt(2); math.Abs(s.Mean-want) > 1e-12 || s.Low > want || s.High < want {
		t.Errorf("mean %v, %v to %v, want %v", s.Mean, s.Low, s.High, want)
	}
	if one := OfSuite(programs[:1]); one.Low != 0 || one.High != 0 {
		t.Errorf("an interval over one program: %+v", one)
	}
	var out bytes.Buffer
	if err := s.Figure([]string{"first", "second"}, programs).Draw(&out); err != nil || !strings.Contains(out.String(), ">2 second<") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestRejections(t *testing.T) {
	alias := &verdict.Rejection{Reason: verdict.Alias4K}
	broken := errors.New("broken")
	ok := func(context.Context, Layout) (float64, error) { return 1, nil }
	where := func(reject func(Layout) bool, with error) Measure {
		return func(_ context.Context, l Layout) (float64, error) {
			if reject(l) {
				return 0, with
			}
			return 1, nil
		}
	}
	layouts := Draw(1, 10, 2)

	pairs, dropped, err := Run(context.Background(), layouts, ok, where(func(l Layout) bool { return l.Number == 3 }, alias))
	if err != nil || len(pairs) != 9 || len(dropped) != 1 || dropped[0].Side != "b" || dropped[0].Rejection != alias || dropped[0].Layout.Number != 3 {
		t.Errorf("rejected in one layout: %d pairs, %v, %v", len(pairs), dropped, err)
	}
	_, dropped, err = Run(context.Background(), layouts, where(func(Layout) bool { return true }, alias), ok)
	var side *SideError
	if !errors.As(err, &side) || side.Side != "a" || !errors.Is(err, error(alias)) || len(dropped) != hopeless {
		t.Errorf("rejected in all: %v after %d", err, len(dropped))
	}
	_, dropped, err = Run(context.Background(), layouts, where(func(l Layout) bool { return l.Number < hopeless }, alias), ok)
	if err != nil || len(dropped) != hopeless-1 {
		t.Errorf("rejected in the first: %v after %d", err, len(dropped))
	}
	if _, _, err = Run(context.Background(), layouts, ok, where(func(l Layout) bool { return l.Number == 3 }, broken)); !errors.Is(err, broken) {
		t.Errorf("broken: %v", err)
	}
	for measured := range 4 { // of three layouts
		_, dropped, err = Run(context.Background(), layouts[:3], ok, where(func(l Layout) bool { return l.Number > measured }, alias))
		if enough := measured >= leastLayouts; (err == nil) != enough || !enough && (!errors.As(err, &side) || side.Side != "b" || !errors.Is(err, error(alias))) || len(dropped) != 3-measured {
			t.Errorf("%d of 3 layouts measured: %d dropped, %v", measured, len(dropped), err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := Run(ctx, layouts, ok, ok); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestPlot(t *testing.T) {
	b := &bench{rand: rand.New(rand.NewPCG(1, 1)), scatter: 0.005}
	pairs, _ := require.Get2(Run(context.Background(), Draw(1, 33, 3), b.measure("a", moved), b.measure("b", moved)))(t)
	c := require.Get(Paired(pairs))(t)
	for name, f := range map[string]plot.Figure{"one": Figure("cycles", c, pairs), "all": FigureAll([]Conclusion{c, c})} {
		var out bytes.Buffer
		if err := f.Draw(&out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range f.Panels {
			if !strings.Contains(out.String(), ">"+p.Y+"<") {
				t.Errorf("%s: no axis %q", name, p.Y)
			}
		}
	}
}

func TestContrary(t *testing.T) {
	says := map[Verdict]int{Slower: 2, Faster: 3, Same: 5}
	for verdict, want := range map[Verdict]int{Slower: 3, Faster: 2, Same: 5} {
		c := Conclusion{Verdict: verdict, Layouts: 10, Says: says}
		if got := c.Contrary(); got != want {
			t.Errorf("%s: %d, want %d", verdict, got, want)
		}
	}
}
