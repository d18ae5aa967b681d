package timing

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// timed is a sample of these windows, by a clock of 26 ticks a step, 0.7 a cycle.
func timed(cycles ...float64) *sample {
	return &sample{
		windows: inDesign(cycles), clock: clock.TSC{StepTicks: 26}, rate: clockRate{ticks: 0.7, samples: 36},
		runs: 40, iterations: 100, precision: 0.005,
	}
}

// inDesign are windows with these cycles, replicate by replicate.
func inDesign(cycles []float64) (windows []Window) {
	for n := 0; len(cycles) > 0; n++ {
		for _, l := range (Plan{}).layouts(n) {
			if len(cycles) > 0 {
				windows = append(windows, Window{l, n, cycles[0]})
				cycles = cycles[1:]
			}
		}
	}
	return windows
}

// seriesOf is the series of a block whose images differ by 100 iterations, with these windows.
func seriesOf(cycles ...float64) *series {
	return &series{
		TSC:   &TSC{clock: clock.TSC{StepTicks: 1}, rate: clockRate{ticks: 1, samples: 36}, report: Report{TicksPerSecond: 1e9}},
		pairs: []Pair{{Image{0, 100}, Image{0, 200}}},
		timed: Timed{Windows: inDesign(cycles), RunsPerSample: 40},
	}
}

// estimateOf is the estimate alone.
func estimateOf(s *sample) stat.Estimate { return s.estimate().Estimate }

// The interval of windows that all agree is what the clock's steps and another process allow: no less.
func TestEstimateIsNoNarrowerThanTheClock(t *testing.T) {
	few := timed(slices.Repeat([]float64{2}, 12)...)
	got := estimateOf(few)
	// 24 samples of 100 iterations, t(23) = 2.0687, each by the readings of 40 runs, and a rate of 36 of 4,096 cycles, t(35) = 2.0301.
	runs := math.Sqrt(40 * 41 * 42 / 6.)
	block, rate := 2.0687*26/math.Sqrt(3*24)/100/runs/0.7, 2.0301*26/math.Sqrt(3*36)/4096/0.7
	want := math.Sqrt2 * math.Hypot(math.Hypot(block, 2*rate), 2*processShare)
	if got.Value != 2 || math.Abs(got.Half-want) > 1e-4*want {
		t.Errorf("%.6f ± %.6f, want 2 ± %.6f", got.Value, got.Half, want)
	}
	known := *few
	known.rate.samples = 1 << 20 // as if the rate were known
	if e := estimateOf(&known); e.Half >= got.Half {
		t.Errorf("± %.6f with a known rate, ± %.6f without", e.Half, got.Half)
	}
}

// A wide scatter outweighs the clock.
func TestEstimateHoldsTheScatter(t *testing.T) {
	narrow, wide := timed(slices.Repeat([]float64{2}, 12)...), timed(slices.Repeat([]float64{1.9, 2.1}, 6)...)
	if n, w := estimateOf(narrow), estimateOf(wide); w.Half < 5*n.Half || math.Abs(w.Value-2) > 1e-9 {
		t.Errorf("%.4f ± %.4f beside ± %.4f", w.Value, w.Half, n.Half)
	}
}

// byLayout are windows of so many replicates, with the cycles that of gives for each.
func byLayout(replicates int, of func(l Layout, replicate int) float64) *sample {
	var cycles []float64
	for n := range replicates {
		for _, l := range (Plan{}).layouts(n) {
			cycles = append(cycles, of(l, n))
		}
	}
	s := timed(cycles...)
	s.clock = clock.TSC{StepTicks: 1e-9}
	return s
}

// twoSpeeds is a block that takes 2 cycles at even dispatch offsets and 3 at odd ones.
func twoSpeeds(l Layout, _ int) float64 { return 2 + float64(l.Offset()%2) }

// What layouts differ by is in the interval until each was visited twice, and then no more; the mean is
// over layouts, not trimmed.
func TestEstimateOfTwoSpeeds(t *testing.T) {
	once, twice := byLayout(2*passReplicates, twoSpeeds), byLayout(enoughReplicates, twoSpeeds)
	if e := estimateOf(once); e.Half < 0.2 || once.estimate().narrow() {
		t.Errorf("visited once: %.3f ± %.3f", e.Value, e.Half)
	}
	if e := estimateOf(twice); math.Abs(e.Value-2.5) > 1e-9 || e.Half > 0.01 || !twice.estimate().narrow() {
		t.Errorf("visited twice: %.3f ± %.3f, want 2.5", e.Value, e.Half)
	}
}

// Windows that are off now and then do not move the cycles of a block of one speed, whether its layouts differ a little or not,
// unless they move the mean by more than half of the precision: then that stands, as it does where they are a speed.
func TestEstimateTrims(t *testing.T) {
	for _, differ := range []float64{0, 0.02} {
		for _, c := range []struct{ off, moves float64 }{{0.05, 0}, {0.12, 0.12 / 16}, {0.2, 0.2 / 16}} { // 1/16 of 0.08 is half of the precision
			at := 0
			of := func(l Layout, n int) float64 { return 2 + differ*float64(l.Offset()%2) + 1e-4*float64(n%3) }
			clean := estimateOf(byLayout(manyReplicates, of))
			off := estimateOf(byLayout(manyReplicates, func(l Layout, n int) float64 {
				if at++; at%16 == 0 {
					return of(l, n) + c.off
				}
				return of(l, n)
			}))
			if moved := off.Value - clean.Value; math.Abs(moved-c.moves) > 0.002 {
				t.Errorf("layouts %g apart, one window of 16 off by %g: moved by %.4f, want %.4f", differ, c.off, moved, c.moves)
			}
		}
	}
}

// One slow layout of twelve, which a trimmed mean hides, keeps a block from being narrow if it moves the mean by
// more than half of the precision, or is slower by a few percent.
func TestNarrowSeesEachLayout(t *testing.T) {
	for slow, want := range map[float64]bool{2: true, 2.055: true, 2.065: false} { // 1/12 of 0.06 is 0.0025 of 2
		s := byLayout(passReplicates, func(l Layout, _ int) float64 {
			if l == LayoutOf(1, 3) {
				return slow
			}
			return 2
		})
		if got := s.estimate().narrow(); got != want {
			t.Errorf("one layout at %g, the others at 2: narrow %v", slow, got)
		}
	}
}

// Layouts of several speeds are visited four times before they count; what the first two visits alone found
// is cut then.
func TestDoubtful(t *testing.T) {
	alone := LayoutOf(2, 0)
	for _, c := range []struct {
		name       string
		replicates int
		of         func(l Layout, replicate int) float64
		want       bool
		value      float64
	}{
		{"one speed", enoughReplicates, func(Layout, int) float64 { return 3 }, false, 3},
		{"visited once", passReplicates, twoSpeeds, false, 2.5},
		{"visited twice", enoughReplicates, twoSpeeds, true, 2.5},
		{"visited three times", 3 * enoughReplicates / 2, twoSpeeds, true, 2.5},
		{"visited four times", manyReplicates, twoSpeeds, false, 2.5},
		{"hardly apart", enoughReplicates, func(l Layout, _ int) float64 { return 3 * (1 + 0.9*speedGap*float64(l%2)) }, false, 3 * (1 + 0.45*speedGap)},
		{"apart", enoughReplicates, func(l Layout, _ int) float64 { return 3 * (1 + 1.1*speedGap*float64(l%2)) }, true, 3 * (1 + 0.55*speedGap)},
		{"alone", enoughReplicates, only(alone, func(int) float64 { return 4.8 }), true, 3 + 1.8/24},
		{"alone and faster", enoughReplicates, only(alone, func(int) float64 { return 2 }), true, 3 - 1.0/24},
		{"alone and scattered", enoughReplicates, only(alone, func(n int) float64 { return 3.2 + 0.8*float64(n/(2*passReplicates)) }), true, 3 + 0.6/24},
		{"alone, four times", manyReplicates, only(alone, func(int) float64 { return 4.8 }), false, 3 + 1.8/24},
		{"alone, twice only", manyReplicates, only(alone, func(n int) float64 { return 3 + 1.8*float64(1-min(n/enoughReplicates, 1)) }), false, 3},
	} {
		e := byLayout(c.replicates, func(l Layout, n int) float64 { return c.of(l, n) + 1e-6*float64(n%3) }).estimate()
		if got := e.doubtful(c.replicates); got != c.want || math.Abs(e.Value-c.value) > 0.01 && c.replicates > passReplicates {
			t.Errorf("%s: doubtful %v, %.4f cycles, want %v, %.4f", c.name, got, e.Value, c.want, c.value)
		}
	}
}

// only is a block that takes 3 cycles in all layouts but one.
func only(alone Layout, cycles func(replicate int) float64) func(Layout, int) float64 {
	return func(l Layout, n int) float64 {
		if l == alone {
			return cycles(n)
		}
		return 3
	}
}

// What moves a replicate as a whole is noise of as many values as there are replicates, not windows.
func TestEstimateOfReplicates(t *testing.T) {
	apart := byLayout(enoughReplicates, func(_ Layout, n int) float64 { return 2 + 0.1*float64(n/(2*passReplicates)) })
	windows := byLayout(enoughReplicates, func(l Layout, n int) float64 { return 2 + 0.1*float64((n/(2*passReplicates)+int(l)/2)%2) })
	if a, w := estimateOf(apart).Half, estimateOf(windows).Half; a < 1.3*w {
		t.Errorf("± %.4f of replicates that differ, ± %.4f of windows that do", a, w)
	}
}

// A block ends without a narrow interval where more replicates would not make it narrow and it is coarse already, and
// where they would not make the block steady.
func TestHopeless(t *testing.T) {
	const target, later = 0.005, 3 * enoughReplicates / 2
	for _, c := range []struct {
		name       string
		half       float64 // in targets
		replicates int
		want       bool
		several    bool // the same of a block of several speeds
	}{
		{"narrow after twice as many", 1.39, enoughReplicates, false, false},
		{"narrow after a third more", 1.15, later, false, false},
		{"coarse", 1.16, later, true, false},
		{"the first replicates", 1.16, enoughReplicates - 1, false, false},
		{"just coarse", 1.39, later, true, false},
		{"not coarse", 1.41, later, false, false},
		{"of either kind coarse after many", 1.09, manyReplicates, true, true},
		{"only of one speed coarse after many", 1.11, manyReplicates, true, false},
		{"coarse after many", 1.39, manyReplicates, true, false},
		{"not coarse after many", 1.41, manyReplicates, false, false},
		{"steady after the most", 4.01, enoughReplicates, false, false},
		{"never steady", 8.1, enoughReplicates, true, true}, // √(64/16) = 2, and unstableShare are four targets
		{"never steady, asked later", 5.7, manyReplicates, true, true},
		{"steady after the most, asked later", 5.6, manyReplicates, false, false},
		{"steady in the end", 3.99, steadyReplicates, false, false},
		{"not steady in the end", 4.01, steadyReplicates, true, true},
	} {
		e := estimate{sample: sample{precision: target}, Estimate: stat.Estimate{Value: 1, Half: c.half * target}, design: visited(2, 2)}
		if got := e.hopeless(c.replicates); got != c.want {
			t.Errorf("%s: ± %g targets after %d replicates: hopeless %v", c.name, c.half, c.replicates, got)
		}
		if e.speeds = make([][]stat.Cell, 2); e.hopeless(c.replicates) != c.several {
			t.Errorf("%s: ± %g targets after %d replicates, of several speeds: hopeless %v", c.name, c.half, c.replicates, !c.several)
		}
		if e.design = visited(2, 1); e.hopeless(c.replicates) {
			t.Errorf("%s: ± %g targets after %d replicates: hopeless while a window is owed", c.name, c.half, c.replicates)
		}
	}
}

// visited is a design with a layout for each of these numbers of visits.
func visited(visits ...int) (d stat.Design) {
	for i, n := range visits {
		d.Cells = append(d.Cells, stat.Cell{Number: i, Visits: n})
	}
	return d
}

// An interrupt in a timing leaves the other samples of its window; a clock's steps and what images differ by are none.
func TestUninterrupted(t *testing.T) {
	const interrupt = 5000
	for _, c := range []struct {
		name        string
		short, long []float64
		want        []float64 // of the long timings
	}{
		{"none", []float64{4000, 4010}, []float64{8000, 8026}, []float64{8000, 8026}},
		{"just below", []float64{4000, 9000}, []float64{8000, 13000}, []float64{8000, 13000}},
		{"in the long image", []float64{4000, 4000}, []float64{13001, 8000}, []float64{8000}},
		{"in the short image", []float64{4000, 9001}, []float64{8000, 8100}, []float64{8000}},
		{"one in each", []float64{4000, 20000}, []float64{20000, 8000}, nil},
		{"a share of long runs", []float64{4000, 4000}, []float64{100_000, 125_000}, []float64{100_000, 125_000}},
		{"and more", []float64{4000, 4000}, []float64{100_000, 125_001}, []float64{100_000}},
	} {
		w := window{columns: [][]float64{{600}, {700}, {3300}, c.short, c.long}, perRun: [2][]float64{c.short, c.long}}
		got := w.uninterrupted(interrupt)
		if d := cmp.Diff(c.want, got.columns[4], cmpopts.EquateEmpty()); d != "" || got.samples() != len(c.want) {
			t.Errorf("%s: %s", c.name, d)
		}
		if d := cmp.Diff([][]float64{got.columns[3], got.columns[4]}, [][]float64{got.perRun[0], got.perRun[1]}, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: runs of other timings: %s", c.name, d)
		}
	}
}

// Timings of one image in a window are apart by more than a share of the faster one, and by more than a coarse clock's steps explain.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		name        string
		step        float64
		runs        int
		short, long []float64 // ticks of a run
		want        bool
	}{
		{"alike", 2, 20, []float64{100, 100}, []float64{200, 200}, false},
		{"just alike", 2, 20, []float64{100, 101}, []float64{202, 200}, false},
		{"the short image", 2, 20, []float64{100, 101.1}, []float64{200, 200}, true},
		{"the long image", 2, 20, []float64{100, 100}, []float64{202.1, 200}, true},
		{"one of two slow alike", 2, 20, []float64{130, 130}, []float64{200, 200}, false},
		{"steps of few runs", 26, 2, []float64{500, 532}, []float64{1000, 1032}, false}, // 2.5 steps of 26 in two runs
		{"more than steps", 26, 2, []float64{500, 533}, []float64{1000, 1000}, true},
		{"steps of many", 26, 64, []float64{20, 20.4}, []float64{40, 40}, true},
		{"one timing", 2, 20, []float64{100}, []float64{200}, false},
	} {
		w := window{runs: c.runs, perRun: [2][]float64{c.short, c.long}}
		if got := w.apart(clock.TSC{StepTicks: c.step}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A window whose timings are apart is taken again a few times, and not where that is how the block is in most windows. What has one sample left is no
// evidence.
func TestWantsAgain(t *testing.T) {
	at := func(long ...float64) window {
		return window{columns: [][]float64{long}, perRun: [2][]float64{make([]float64, len(long)), long}, runs: 40}
	}
	alike, apart, single := at(200, 200), at(200, 210), at(200)
	one, other := LayoutOf(1, 2), LayoutOf(1, 3)
	r := seriesOf()
	for n, c := range []struct {
		w     window
		at    Layout
		times int
		want  bool
	}{
		{alike, one, 5, false},
		{single, one, 1, false},
		{apart, one, mostAgain, true},
		{apart, other, mostAgain, true},
		{apart, one, 1, false}, // mostAgain in a row: it is the layout
		{apart, one, mostAgain, true},
		{alike, one, 1, false},
		{apart, one, mostAgain, true},
		{apart, other, 1, false},
		{apart, other, mostAgain, true},
		{alike, other, 1, false},
		{apart, other, 2, true},  // 19 apart and 7 alike
		{apart, other, 1, false}, // and one more, and passWindows are exceeded: it is the block
	} {
		for range c.times {
			if got := r.wantsAgain(c.w, c.at); got != c.want {
				t.Fatalf("step %d: %v after %d apart and %d alike", n, got, r.apart, r.alike)
			}
		}
	}
}

// Runs that something disturbs do not count, unless they are so many that it is the block.
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
		{"three of seven", 2, []float64{90, 114, 90, 114, 114, 90, 90}, 702. / 7},
		{"one run", 2, []float64{4000}, 4000},

		// Readings at 0, 16, 48, 64: each run takes 22.4 by the line through all of them, and 21.33 by the first and the last.
		{"coarse steps", 16, []float64{16, 32, 16}, 22.4},
		{"of which a run is disturbed", 16, []float64{16, 32, 16, 160, 16, 16}, (3*16 + 4*32 + 3*16 + 2*16 + 2*16) / 14.},
		{"one run by them", 16, []float64{4000}, 4000},
	} {
		sum := 0.0
		for _, d := range c.times {
			sum += d
		}
		if all, one := runTimes(c.times, clock.TSC{StepTicks: c.step}); all != sum || math.Abs(one-c.one) > 1e-9 {
			t.Errorf("%s: %g and %g, want %g and %g", c.name, all, one, sum, c.one)
		}
	}
}

// What few windows a pass lacks is taken with the next replicate at the same place, and once.
func TestOwed(t *testing.T) {
	s := &series{block: noBlock{}, owed: []Layout{LayoutOf(1, 2), LayoutOf(2, 3), LayoutOf(1, 4)}}
	first := s.placement(Pair{}, 5, []Layout{LayoutOf(1, 0)})
	if d := cmp.Diff([]int{0, 2, 4}, first.missing); d != "" || first.place != 1 || !slices.Equal(s.owed, []Layout{LayoutOf(2, 3)}) {
		t.Errorf("%s, at place %d; %v is owed", d, first.place, s.owed)
	}
	if again := s.placement(Pair{}, 9, []Layout{LayoutOf(1, 1)}); !slices.Equal(again.missing, []int{1}) {
		t.Errorf("taken twice: %v", again.missing)
	}
}

// noBlock is a block without pages.
type noBlock struct{ Block }

func (noBlock) Remap(int) []tracee.Op { return nil }

// The design is balanced: each pass has each place and each dispatch offset equally often, and two
// passes have each layout once.
func TestDesign(t *testing.T) {
	for pass := range 4 {
		places, offsets := [Places]int{}, [DispatchOffsets]int{}
		for n := range passReplicates {
			for _, l := range (Plan{}).layouts(pass*passReplicates + n) {
				places[l.Place()]++
				offsets[l.Offset()]++
			}
		}
		if places != [Places]int{3, 3, 3, 3} || offsets != [DispatchOffsets]int{2, 2, 2, 2, 2, 2} {
			t.Errorf("pass %d: places %v, offsets %v", pass, places, offsets)
		}
	}
	// Whatever parity decides between two speeds, a pass has both.
	for place := range 1 << (Places - 1) { // a bit for each place but the first: whether it turns the parity round
		for pass := range 2 {
			odd := 0
			for n := range passReplicates {
				for _, l := range (Plan{}).layouts(pass*passReplicates + n) {
					odd += (l.Offset() + place<<1>>l.Place()) % 2
				}
			}
			if odd < passWindows/3 || odd > passWindows-passWindows/3 {
				t.Errorf("pass %d: %d of %d windows are odd where bits %b of the places count, too", pass, odd, passWindows, place<<1)
			}
		}
	}
	visits := map[Layout]int{}
	for n := range 2 * passReplicates {
		for _, l := range (Plan{}).layouts(n) {
			visits[l]++
		}
	}
	if len(visits) != Layouts {
		t.Errorf("%d layouts, want %d: %v", len(visits), Layouts, visits)
	}
	one := LayoutOf(2, 5)
	for n := range 4 {
		if got := (Plan{At: &one}).layouts(n); !slices.Equal(got, []Layout{one, one, one}) {
			t.Errorf("replicate %d at layout %v: %v", n, one, got)
		}
		for _, l := range (Plan{OnePlace: true}).layouts(n) {
			if l.Place() != 0 {
				t.Errorf("replicate %d at one place: %v", n, l)
			}
		}
	}
}

// What disturbed most is the reason.
func TestDisturbed(t *testing.T) {
	for _, c := range []struct {
		switched, unsteady, drifted int
		want                        verdict.Reason
	}{
		{0, 0, 0, verdict.Unstable},
		{5, 6, 4, verdict.Unstable},
		{6, 5, 4, verdict.ContextSwitch},
		{4, 5, 6, verdict.ClockDrift},
	} {
		r := Timed{WindowsSwitched: c.switched, WindowsUnsteady: c.unsteady, WindowsDrifted: c.drifted}
		var rejection *verdict.Rejection
		if err := r.disturbed(time.Second, 12); !errors.As(err, &rejection) || rejection.Reason != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A child run is kept as far as its windows are complete, and not at all after a context switch or
// while the clock moved.
func TestKeep(t *testing.T) {
	const adds, iterations, runs = 4096, 100, 40
	full := func(offset int, ticks float64) window { // 2 cycles an iteration at ticks/4096 a cycle
		column := func(v float64) []float64 { return []float64{v, v, v} }
		long := 2 * iterations * ticks / adds
		return window{
			columns:  [][]float64{column(700)[:1], column(0)[:1], column(ticks)[:1], column(0), column(runs * long)},
			perRun:   [2][]float64{column(0), column(long)},
			offset:   offset,
			polls:    windowPolls,
			complete: true,
		}
	}
	torn := full(7, adds)
	torn.complete = false
	for _, c := range []struct {
		name                        string
		got                         childRun
		offsets                     []int
		switched, unsteady, drifted int
	}{
		{"whole", childRun{windows: []window{full(0, adds), full(3, adds)}}, []int{0, 3}, 0, 0, 0},
		{"one torn", childRun{windows: []window{full(0, adds), torn}}, []int{0}, 0, 1, 0},
		{"switched", childRun{windows: []window{full(0, adds), full(1, adds)}, switches: 1}, nil, 2, 0, 0},
		{"drifted", childRun{windows: []window{full(0, adds), full(1, 2*adds)}}, nil, 0, 0, 2},
		{"without a sample", childRun{windows: []window{{columns: make([][]float64, 5)}}}, nil, 0, 1, 0},
	} {
		r := seriesOf()
		var offsets []int
		kept, rate := r.keep(c.got, []*placement{{}})
		for _, w := range kept {
			offsets = append(offsets, w.offset)
			if cycles := w.cycles(r.pairs[0], rate); math.Abs(cycles-2) > 1e-9 {
				t.Errorf("%s: %g cycles, want 2", c.name, cycles)
			}
		}
		if !slices.Equal(offsets, c.offsets) {
			t.Errorf("%s: kept %v, want %v", c.name, offsets, c.offsets)
		}
		if got := [3]int{r.timed.WindowsSwitched, r.timed.WindowsUnsteady, r.timed.WindowsDrifted}; got != [3]int{c.switched, c.unsteady, c.drifted} {
			t.Errorf("%s: dropped %v", c.name, got)
		}
	}
}

// A child run of two windows has two readings of the rate: a step of the clock between them is no
// drift, three are. One reading alone is off by no more than steps.
func TestLearnRate(t *testing.T) {
	const step, rate = 26, 0.7
	cycles := float64((clock.TSC{}).Chains()[1].Length() - (clock.TSC{}).Chains()[0].Length())
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

// A rate that was just asked for again, on another CPU, leaves the windows' own readings of it.
func TestEstimateAfterRelocation(t *testing.T) {
	r := timed(slices.Repeat([]float64{2}, 12)...)
	r.rate = clockRate{ticks: 0.7}
	if e := estimateOf(r); !(e.Half < 0.02) {
		t.Errorf("%.4f ± %.4f", e.Value, e.Half)
	}
}

// A window does not count if its own chains show that the core's clock has moved; what the clock's steps leave
// open moves nothing.
func TestMoved(t *testing.T) {
	const known = 0.64
	chains := (clock.TSC{}).Chains()
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
		if got := w.moved(clock.TSC{StepTicks: c.step}, known); got != c.want {
			t.Errorf("steps of %g, own rate %g: moved %v", c.step, c.own, got)
		}
	}
}

// A plan may end early what is not narrow yet.
func TestEnough(t *testing.T) {
	wide := timed(slices.Repeat([]float64{2, 2.2}, 12)...).estimate()
	s := &series{last: wide}
	if s.enough(passReplicates) {
		t.Errorf("%+v is enough", wide.Estimate)
	}
	for _, limit := range []float64{2, 2.2} {
		s.plan.Enough = func(e stat.Estimate) bool { return e.Value < limit }
		if got := s.enough(passReplicates); got != (limit == 2.2) {
			t.Errorf("%+v below %g: %v", wide.Estimate, limit, got)
		}
	}
}

// A plan may end what is not likely to become narrow enough, but not before each layout was visited.
func TestNarrowerThan(t *testing.T) {
	wide := timed(slices.Repeat([]float64{2, 2.2}, 12)...).estimate()
	for _, c := range []struct {
		of         float64 // the half-width to be expected after manyReplicates
		replicates int
		want       bool
	}{
		{0.99, 2 * passReplicates, true},
		{1.01, 2 * passReplicates, false},
		{0.99, passReplicates, false},
		{0, 2 * passReplicates, false},
	} {
		s := &series{last: wide}
		s.plan.NarrowerThan = c.of * wide.after(c.replicates, manyReplicates).Half
		if got := s.enough(c.replicates); got != c.want {
			t.Errorf("%d replicates, narrower than %g: enough %v", c.replicates, s.plan.NarrowerThan, got)
		}
	}
	if half := wide.after(passReplicates, 4*passReplicates).Half; math.Abs(half-wide.Half/2) > 1e-9 {
		t.Errorf("half-width %g becomes %g with four times the replicates", wide.Half, half)
	}
}

// An interval is wide after many replicates, or where the time was up, and not where fewer were enough.
func TestWide(t *testing.T) {
	wide, narrow := timed(slices.Repeat([]float64{2, 2.2}, 12)...).estimate(), timed(slices.Repeat([]float64{2}, 24)...).estimate()
	for _, c := range []struct {
		of         estimate
		replicates int
		complete   bool
		want       bool
	}{
		{wide, steadyReplicates, true, true},
		{wide, steadyReplicates - 1, true, false},
		{wide, passReplicates, false, true},
		{narrow, mostReplicates, true, false},
		{narrow, passReplicates, false, false},
	} {
		if got := c.of.wide(c.replicates, c.complete); got != c.want {
			t.Errorf("±%g after %d replicates, complete %v: wide %v", c.of.Half, c.replicates, c.complete, got)
		}
	}
}
