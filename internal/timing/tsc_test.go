package timing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// passOf lists the layouts of a pass, as the windows of its replicates have them.
func passOf(n int) (all []Layout) {
	for i := range passReplicates {
		all = append(all, (Plan{}).layouts(n*passReplicates+i)...)
	}
	return all
}

// While layouts have one visit, a slow or fast one keeps the interval wide: it holds the mean of all.
func TestSingleVisits(t *testing.T) {
	derived := func(slow float64, n int) (timed Timed) {
		timed.RunsPerSample = 40
		for i, l := range passOf(0) {
			w := Window{Layout: l, Replicate: i / 3, Cycles: 2}
			if i < n {
				w.Cycles = slow
			}
			timed.Windows = append(timed.Windows, w)
		}
		timed.derive(clock.TSC{StepTicks: 1e-9}, clockRate{ticks: 0.7, samples: 36}, apart(100), false)
		return timed
	}
	for slow, want := range map[float64]bool{2: true, 2.045: true, 2.055: false} { // twice 1/12 of 0.05, beside processShare, is 0.01
		require.Equal(t, fmt.Sprintf("one layout at %g, the others at 2: enough", slow), want, derived(slow, 1).enough(passReplicates, 0.005))
	}
	require.Equal(t, "one layout 5 % off: enough", false, derived(2.1, 1).enough(passReplicates, 0.5))
	for n := 1; n <= 3; n++ { // the midmean leaves out a quarter at either end
		if e := derived(1, n).Estimate; e.Low() > 2-float64(n)/12 || Steady(e) {
			t.Errorf("%d of 12 layouts at 1, the others at 2: %+v", n, e)
		}
	}
}

// Of what the images' own code may take, half is left out of the cycles, and the interval holds the rest.
func TestOwn(t *testing.T) {
	const ticks, own = 0.7, 0.2
	p := apart(100)
	without := p.cycles(210, 350, ticks)
	p.Own = own
	require.Equal(t, "cycles", without-own/2, p.cycles(210, 350, ticks))
	narrow := Timed{Spent: Spent{RunsPerSample: 40}}
	wide := narrow
	for i, l := range passOf(0) {
		w := Window{Layout: l, Replicate: i / 3, Cycles: 2 - own/2}
		narrow.Windows, wide.Windows = append(narrow.Windows, w), append(wide.Windows, w)
	}
	narrow.derive(clock.TSC{StepTicks: 1e-9}, clockRate{ticks: ticks, samples: 36}, apart(100), false)
	wide.derive(clock.TSC{StepTicks: 1e-9}, clockRate{ticks: ticks, samples: 36}, p, false)
	if narrow.Estimate.Half > own/10 || wide.Estimate.High() < 2 || wide.Estimate.Half > own/2+narrow.Estimate.Half {
		t.Errorf("cycles of 2 less half of %g: %v, and %v without it in the interval", own, wide.Estimate, narrow.Estimate)
	}
}

// The measurement of a block ends when its interval is narrow, or as soon as it is clear that it will not be. A block
// that is not steady yet is measured further if it will be in the end.
func TestStop(t *testing.T) {
	const target = 0.01 // half of what is steady
	for _, c := range []struct {
		name       string
		half       float64 // in targets
		replicates int
		want       bool
	}{
		{"narrow at once", 1, passReplicates, true},
		{"not narrow yet", 1.01, passReplicates, false},
		{"never narrow, but layouts are not told from noise yet", 9, variesAfter - 1, false},
		{"narrow in the end", 1.7, variesAfter, false}, // √(48/16) = 1.73
		{"never narrow, and steady", 1.8, variesAfter, true},
		{"never narrow, steady in the end", 3.4, variesAfter, false}, // unstableShare are two targets
		{"never steady", 3.5, variesAfter, true},
		{"never narrow, asked later", 1.3, 2 * variesAfter, true}, // √(48/32) = 1.22
		{"narrow in the end, asked later", 1.2, 2 * variesAfter, false},
	} {
		e := Timed{Estimate: stat.Estimate{Value: 1, Half: c.half * target}, Design: visited(2, 2)}
		require.Equal(t, fmt.Sprintf("%s: ± %g targets after %d replicates", c.name, c.half, c.replicates), c.want, e.enough(c.replicates, target))
		if e.Design = visited(2, 1); c.half > 1 && e.enough(c.replicates, target) {
			t.Errorf("%s: ± %g targets after %d replicates: enough while a window is missing", c.name, c.half, c.replicates)
		}
	}
}

// visited returns a design with a layout for each of these numbers of visits.
func visited(visits ...int) (d stat.Design) {
	for i, n := range visits {
		d.Cells = append(d.Cells, stat.Cell{Number: i, Visits: n})
	}
	return d
}

// Disturbed runs do not count, unless they are half of all.
func TestRunTimes(t *testing.T) {
	for _, c := range []struct {
		name  string
		step  float64
		times []float64
		one   float64
	}{
		{"steps of the clock", 2, []float64{90, 92, 90, 90, 94, 90}, 91},
		{"one of six disturbed", 2, []float64{90, 92, 90, 90, 114, 90}, 90.4},
		{"two", 2, []float64{90, 114, 90, 90, 114, 90}, 90},
		{"three", 2, []float64{90, 114, 90, 114, 114, 90}, 102},
		{"three of seven", 2, []float64{90, 114, 90, 114, 114, 90, 90}, 90},
		{"one run", 2, []float64{4000}, 4000},

		// Readings at 0, 16, 48, 64: each run takes 22.4 by the line through all of them, and 21.33 by the first and
		// the last.
		{"coarse steps", 16, []float64{16, 32, 16}, 22.4},
		{"of which a run is disturbed", 16, []float64{16, 32, 16, 160, 16, 16}, (3*16 + 4*32 + 3*16 + 2*16 + 2*16) / 14.},
		{"one run by them", 16, []float64{4000}, 4000},
	} {
		sum := 0.0
		for _, d := range c.times {
			sum += d
		}
		if all, one := runTimes(c.times, clock.TSC{StepTicks: c.step}, 0); all != sum || math.Abs(one-c.one) > 1e-9 {
			t.Errorf("%s: %g and %g, want %g and %g", c.name, all, one, sum, c.one)
		}
	}
	differ := []float64{70, 110, 90, 114, 90, 66, 90, 490} // by their iterations, and one is disturbed
	if _, one := runTimes(differ, clock.TSC{StepTicks: 2}, 0.5); one != 90 {
		t.Errorf("runs that may differ by half: %g, want 90", one)
	}
}

// The few missing windows of a pass are taken once, with the next replicate at the same place.
func TestOwed(t *testing.T) {
	s := &series{block: noBlock{}, missing: []Layout{LayoutOf(1, 2), LayoutOf(2, 3), LayoutOf(1, 4)}}
	first := s.placement(Pair{}, 5, []Layout{LayoutOf(1, 0)})
	if d := cmp.Diff([]int{0, 2, 4}, first.missing); d != "" || first.place != 1 || !slices.Equal(s.missing, []Layout{LayoutOf(2, 3)}) {
		t.Errorf("%s, at place %d; %v is owed", d, first.place, s.missing)
	}
}

// noBlock is a block without pages.
type noBlock struct{ Block }

func (noBlock) Remap(int) []tracee.Op { return nil }

// The design is balanced: each pass has each place and each dispatch offset equally often, and two passes have each
// layout once. Whatever parity decides between two speeds, a pass has both.
func TestDesign(t *testing.T) {
	for n := range 4 {
		places, offsets := [Places]int{}, [DispatchOffsets]int{}
		for _, l := range passOf(n) {
			places[l.Place()]++
			offsets[l.Offset()]++
		}
		require.Equal(t, "places", [Places]int{3, 3, 3, 3}, places)
		require.Equal(t, "offsets", [DispatchOffsets]int{2, 2, 2, 2, 2, 2}, offsets)
		for place := range 1 << (Places - 1) { // a bit for each place but the first: whether it turns the parity round
			odd := 0
			for _, l := range passOf(n) {
				odd += (l.Offset() + place<<1>>l.Place()) % 2
			}
			if odd < passWindows/3 || odd > passWindows-passWindows/3 {
				t.Errorf("pass %d: %d of %d windows are odd where bits %b of the places count, too", n, odd, passWindows, place<<1)
			}
		}
	}
	both := slices.Sorted(slices.Values(slices.Concat(passOf(0), passOf(1))))
	require.Equal(t, "layouts", Layouts, len(slices.Compact(both)))
	one := LayoutOf(2, 5)
	for n := range 4 {
		require.Equal(t, fmt.Sprint("replicate ", n), []Layout{one, one, one}, (Plan{Layout: &one}).layouts(n))
		for _, l := range (Plan{OnePlace: true}).layouts(n) {
			if l.Place() != 0 {
				t.Errorf("replicate %d at one place: %v", n, l)
			}
		}
	}
}

// The most frequent disturbance is the reason.
func TestDisturbed(t *testing.T) {
	for _, c := range []struct {
		switched, unsteady, drifted int
		want                        verdict.Reason
	}{
		{0, 0, 0, verdict.BusyCore},
		{5, 6, 4, verdict.BusyCore},
		{6, 5, 4, verdict.ContextSwitch},
		{4, 5, 6, verdict.ClockDrift},
	} {
		r := Timed{Spent: Spent{WindowsSwitched: c.switched, WindowsUnsteady: c.unsteady, WindowsDrifted: c.drifted}}
		err := r.disturbed(0)
		require.Equal(t, fmt.Sprintf("%+v", c), c.want, verdict.ReasonOf(err))
		require.Equal(t, "nothing is blamed without a window", c.switched == 0, strings.Contains(err.Error(), ": no window fit into the budget"))
	}
}

// The complete windows of a child run are kept, but none after a context switch or while the clock moved.
func TestKeep(t *testing.T) {
	const adds, iterations, runs = 4096, 100, 40
	full := func(offset int, ticks float64) window { // 2 cycles an iteration at ticks/4096 a cycle
		column := func(v float64) []float64 { return []float64{v, v, v} }
		long := 2 * iterations * ticks / adds
		return window{
			columns:  [][]float64{column(700)[:1], column(0)[:1], column(ticks)[:1], column(0), column(runs * long)},
			perRun:   [2][]float64{column(0), column(long)},
			offset:   offset,
			runs:     runs,
			polls:    windowPolls,
			complete: true,
		}
	}
	torn, slowed := full(7, adds), full(7, adds)
	torn.complete = false
	slowed.perRun[1][1] *= 1.02 // by an interrupt
	for _, c := range []struct {
		name    string
		got     childRun
		offsets []int
		dropped [3]int // switched, unsteady, drifted
	}{
		{"whole", childRun{windows: []window{full(0, adds), full(3, adds)}}, []int{0, 3}, [3]int{}},
		{"one torn", childRun{windows: []window{full(0, adds), torn}}, []int{0}, [3]int{0, 1, 0}},
		{"one slowed", childRun{windows: []window{full(0, adds), slowed}}, []int{0}, [3]int{0, 1, 0}},
		{"switched", childRun{windows: []window{full(0, adds), full(1, adds)}, switches: 1}, nil, [3]int{2, 0, 0}},
		{"drifted", childRun{windows: []window{full(0, adds), full(1, 2*adds)}}, nil, [3]int{0, 0, 2}},
		{"without a sample", childRun{windows: []window{{columns: make([][]float64, 5)}}}, nil, [3]int{0, 1, 0}},
	} {
		r := &series{
			TSC:   &TSC{clock: clock.TSC{StepTicks: 1}, rate: clockRate{ticks: 1, samples: 36}, report: Report{TicksPerSecond: 1e9}},
			pairs: []Pair{{Short: Image{0, 100, 0}, Long: Image{0, 200, 0}}},
		}
		var offsets []int
		kept, rate := r.keepUndisturbed(c.got, []*placement{{}})
		for _, w := range kept {
			offsets = append(offsets, w.offset)
			if cycles := w.cycles(r.pairs[0], rate); math.Abs(cycles-2) > 1e-9 {
				t.Errorf("%s: %g cycles, want 2", c.name, cycles)
			}
		}
		require.Equal(t, c.name, c.offsets, offsets)
		require.Equal(t, c.name, c.dropped, [3]int{r.timed.WindowsSwitched, r.timed.WindowsUnsteady, r.timed.WindowsDrifted})
	}
}

// A window whose timings disagree is repeated, but a layout only so often in a row, and not if most windows are so.
func TestMustRepeat(t *testing.T) {
	disagrees := window{runs: 1, perRun: [2][]float64{{100, 100}, {100, 102}}}
	agrees := window{runs: 1, perRun: [2][]float64{{100, 100}, {100, 100}}}
	s := series{TSC: &TSC{clock: clock.TSC{StepTicks: 1e-9}}}
	for range 2 {
		for range mostRetries {
			require.Equal(t, "repeated", true, s.mustRepeat(disagrees, 1))
		}
		require.Equal(t, "repeated too often", false, s.mustRepeat(disagrees, 1))
	}
	require.Equal(t, "of another layout", true, s.mustRepeat(disagrees, 2))
	require.Equal(t, "one that agrees", false, s.mustRepeat(agrees, 2))
	for l := Layout(3); s.disagree <= s.agree+passWindows; l++ {
		s.mustRepeat(disagrees, l)
	}
	require.Equal(t, "after most disagreed", false, s.mustRepeat(disagrees, 0))
}

// A child run of two windows has two readings of the rate. A clock step between them is not a
// drift; three steps are. A single reading deviates by no more than steps.
func TestLearnRate(t *testing.T) {
	const step, rate = 26, 0.7
	chains := clock.Chains(false)
	cycles := float64(chains[1].Length() - chains[0].Length())
	for _, c := range []struct {
		name   string
		off    []float64 // each reading of the long chain, in steps
		known  bool
		drifts bool
	}{
		{"none", nil, false, false},
		{"one", []float64{0}, true, false},
		{"one, a step off", []float64{1}, true, false},
		{"one that met an interrupt", []float64{200}, true, true},
		{"equal", []float64{0, 0}, true, false},
		{"a step apart", []float64{0, 1}, true, false},
		{"three steps apart", []float64{0, 3}, true, true},
	} {
		r := &TSC{clock: clock.TSC{StepTicks: step}, rate: clockRate{ticks: rate, samples: 36}}
		w := window{columns: make([][]float64, 3)}
		for _, off := range c.off {
			w.columns[0] = append(w.columns[0], 1000)
			w.columns[1] = append(w.columns[1], 10*step)
			w.columns[2] = append(w.columns[2], 10*step+(math.Round(rate*cycles/step)+off)*step)
		}
		if during, drifts := r.learnRate(childRun{windows: []window{w}}); math.IsNaN(during) == c.known || drifts != c.drifts {
			t.Errorf("%s: %g, drifts %v", c.name, during, drifts)
		}
	}
}

// A window does not count if its own chains show that the core's clock has moved by more than the clock's steps
// explain.
func TestMoved(t *testing.T) {
	const known = 0.64
	chains := clock.Chains(false)
	cycles := float64(chains[1].Length() - chains[0].Length())
	for _, c := range []struct {
		step, own float64
		want      bool
	}{
		{2, 0.6425, false}, // 0.4 %
		{2, 0.6560, true},
		{2, 0.6240, true},
		{26, 0.6560, true},
		{26, 0.6510, false}, // one reading of such a clock does not tell
	} {
		column := func(v float64) []float64 { return []float64{math.Round(v)} }
		w := window{columns: [][]float64{column(1000), column(700), column(700 + c.own*cycles)}}
		require.Equal(t, fmt.Sprintf("steps of %g, own rate %g", c.step, c.own), c.want, w.clockMoved(clock.TSC{StepTicks: c.step}, known))
	}
}

// A plan may end early what is not narrow yet.
func TestEnough(t *testing.T) {
	wide := Timed{Estimate: stat.Estimate{Value: 2.1, Half: 0.1}, Design: visited(2, 2)}
	s := &series{TSC: &TSC{}, timed: wide}
	require.Equal(t, "enough for a plan that says nothing", false, s.enough(passReplicates))
	for limit, want := range map[float64]bool{2: false, 2.2: true} {
		s.plan.Enough = func(e stat.Estimate) bool { return e.Value < limit }
		require.Equal(t, limit, want, s.enough(passReplicates))
	}
}

// A child run has a limited number of windows, of the first placements that lack some. A placement that was
// mapped once is mapped again the next time.
func TestPlanRun(t *testing.T) {
	timer := &TSC{clock: clock.TSC{StepTicks: 1}, rate: clockRate{ticks: 1}}
	remap := tracee.UnmapAll(0)
	all := []placement{{remap: remap, mapped: true, missing: []int{0, 1, 2}}, {remap: remap}, {remap: remap, missing: []int{4, 5}}}
	for _, c := range []struct {
		most    int
		offsets [][]int
		remaps  []bool
	}{
		{2, [][]int{{0, 1}}, []bool{false}},
		{3, [][]int{{0, 1, 2}}, []bool{true}},
		{4, [][]int{{0, 1, 2}, {4}}, []bool{true, true}},
		{9, [][]int{{0, 1, 2}, {4, 5}}, []bool{true, true}},
	} {
		plan, of := timer.planRun(Plan{}, all, c.most, 0)
		var offsets [][]int
		var remaps []bool
		for _, p := range plan.pairs {
			offsets = append(offsets, p.offsets)
			remaps = append(remaps, len(p.setup) > 1) // more than the reset image
		}
		require.Equal(t, c.most, c.offsets, offsets)
		require.Equal(t, c.most, c.remaps, remaps)
		if of[0] != &all[0] || len(of) > 1 && of[1] != &all[2] {
			t.Errorf("at most %d: not the placements that lack windows", c.most)
		}
	}
}

// A rate is the mean of replicates while they agree within the resolution of one, and that of the last one
// otherwise. Shorter runs are compared together.
func TestClockRate(t *testing.T) {
	clock := clock.TSC{StepTicks: 26}
	own := clock.RateResolution(passSamples) // of one replicate
	replicate := func(v float64) stat.Estimate { return stat.Estimate{Value: v, Half: own / 2, N: passSamples} }
	short := func(v float64) stat.Estimate { return stat.Estimate{Value: v, Half: 10 * own, N: 2} }
	shorts := func(v float64) []stat.Estimate { return slices.Repeat([]stat.Estimate{short(v)}, passSamples/2) }
	from := func(first stat.Estimate, rest ...stat.Estimate) []stat.Estimate {
		return append([]stat.Estimate{first}, rest...)
	}
	for _, c := range []struct {
		name    string
		runs    []stat.Estimate
		want    float64
		samples int
	}{
		{"first", from(replicate(0.7)), 0.7, 12},
		{"agree", from(replicate(0.7), replicate(0.7+0.99*own)), 0.7 + 0.99*own/2, 24},
		{"moved", from(replicate(0.7), replicate(0.7+1.01*own)), 0.7 + 1.01*own, 12},
		{"moved down", from(replicate(0.7), replicate(0.7), replicate(0.7-1.01*own)), 0.7 - 1.01*own, 12},
		{"a longer run weighs more", from(replicate(0.7), stat.Estimate{Value: 0.7 + own/2, Half: own, N: 36}), 0.7 + own/2*0.75, 48},
		{"an uncertain one is no sign", from(replicate(0.7), stat.Estimate{Value: 0.8, Half: 1, N: 12}), 0.75, 24},
		{"too few to tell", from(replicate(0.7), shorts(0.8)[1:]...), 0.7, 12},
		{"enough to tell", from(replicate(0.7), shorts(0.8)...), 0.8, 12},
		{"enough to agree", from(replicate(0.7), shorts(0.7+own/2)...), 0.7 + own/4, 24},
		{"the first may be short", from(short(0.7)), 0.7, 2},
	} {
		r := clockRate{ticks: 0.6} // a first idea
		for _, s := range c.runs {
			r.add(s, clock)
		}
		if math.Abs(r.ticks-c.want) > 1e-12 || r.samples != c.samples {
			t.Errorf("%s: %.6f of %d samples, want %.6f of %d", c.name, r.ticks, r.samples, c.want, c.samples)
		}
	}
}

// TestInOneState: windows of which one image took another time for each iteration are left out, however the states pair up; layouts that differ
// alike in both images are not.
func TestInOneState(t *testing.T) {
	window := func(short, long float64) Window { // cycles of an iteration in 4,096 and 8,192 of them, and 90 around them
		s, l := 90+4096*short, 90+8192*long
		each := (l - s) / 4096
		return Window{Cycles: each, Around: s - 4096*each, Short: s}
	}
	for name, c := range map[string]struct {
		odd  []Window
		kept int
	}{
		"one state": {nil, 8}, "slow and fast": {[]Window{window(2, 1)}, 8}, "fast and slow": {[]Window{window(1, 2), window(1, 2)}, 8},
		"a slow layout": {[]Window{window(2, 2)}, 9}, "a slower one": {[]Window{window(1.02, 1.02)}, 9},
		"as many of each": {slices.Repeat([]Window{window(1, 2)}, 8), 8},
	} {
		windows := slices.Concat(slices.Repeat([]Window{window(1, 1)}, 8), c.odd)
		require.Equal(t, name, c.kept, len(inOneState(windows)))
	}
}
