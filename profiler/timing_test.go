package profiler

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// timed is a run with these windows behind it, by a clock of 26 ticks a step, 0.7 a cycle.
func timed(cycles ...float64) *run {
	r := &run{
		session: &session{clock: clock.TSC{StepTicks: 26}, rate: clockRate{ticks: 0.7, samples: 36}},
		opts:    Options{Precision: 0.005},
		factors: unroll.Factors{Short: 100, Long: 200},
		cycles:  cycles,
	}
	r.result.RunsPerSample = 40
	return r
}

// The interval of windows that all agree is what the clock's steps allow: no less, and no less
// for more windows than the root of their number.
func TestEstimateIsNoNarrowerThanTheClock(t *testing.T) {
	few, many := timed(slices.Repeat([]float64{2}, 12)...), timed(slices.Repeat([]float64{2}, 48)...)
	got := few.estimate()
	// 24 samples of 4,000 iterations, t(23) = 2.0687, and a rate of 36 of 4,096 cycles, t(35) = 2.0301.
	block, rate := 2.0687*26/math.Sqrt(3*24)/4000/0.7, 2.0301*26/math.Sqrt(3*36)/4096/0.7
	want := math.Sqrt2 * math.Hypot(block, 2*rate)
	if got.Value != 2 || math.Abs(got.Half-want) > 1e-4*want {
		t.Errorf("%.6f ± %.6f, want 2 ± %.6f", got.Value, got.Half, want)
	}
	few.rate.samples, many.rate.samples = 1<<20, 1<<20 // as if the rate were known
	if ratio := few.estimate().Half / many.estimate().Half; ratio < 2 || ratio > 2.1 {
		t.Errorf("four times the windows narrow the interval to 1/%.3f", ratio)
	}
	fine := timed(few.cycles...) // its rate is of 36 again
	fine.clock = clock.TSC{StepTicks: 1}
	if ratio := got.Half / fine.estimate().Half; math.Abs(ratio-26) > 1e-9 {
		t.Errorf("a clock 26 times as fine gives 1/%.3f", ratio)
	}
}

// A wide scatter outweighs the clock.
func TestEstimateHoldsTheScatter(t *testing.T) {
	narrow, wide := timed(slices.Repeat([]float64{2}, 12)...), timed(slices.Repeat([]float64{1.9, 2.1}, 6)...)
	if n, w := narrow.estimate(), wide.estimate(); w.Half < 10*n.Half || math.Abs(w.Value-2) > 1e-9 {
		t.Errorf("%.4f ± %.4f beside ± %.4f", w.Value, w.Half, n.Half)
	}
}

// What turns do to the windows of every look alike is in the interval of few looks and not in that of
// many, and always in the scatter.
func TestUnits(t *testing.T) {
	look := []float64{1.8, 1.9, 2, 2, 2.1, 2.2}
	few, many := timed(slices.Repeat(look, unitLooks-1)...), timed(slices.Repeat(look, unitLooks)...)
	if got := few.units(); len(got) != (unitLooks-1)*lookWindows {
		t.Errorf("%d units of %d looks", len(got), unitLooks-1)
	}
	if got := many.units(); len(got) != unitLooks || math.Abs(got[0]-2) > 1e-9 {
		t.Errorf("%v are the units of %d looks", got, unitLooks)
	}
	if torn := timed(append(slices.Clone(many.cycles), 9, 9)...).units(); len(torn) != unitLooks {
		t.Errorf("a look that was cut off counts: %v", torn)
	}
	if f, m := few.estimate().Half, many.estimate().Half; m > f/5 {
		t.Errorf("± %.4f of few looks, ± %.4f of many", f, m)
	}
	if s := many.scatter(); steady(s) != (s.Half <= 0.04) || s.Half < 5*many.estimate().Half {
		t.Errorf("the scatter is ± %.4f", s.Half)
	}
}

// Looks that the time was up for come behind whole ones, and two of them are not taken for one.
func TestTakeLooks(t *testing.T) {
	cut := func(windows int) view {
		return view{cycles: slices.Repeat([]float64{9}, windows), missing: lookTurns()[windows:]}
	}
	whole := view{cycles: slices.Repeat([]float64{2}, lookWindows)}
	for _, c := range []struct {
		before  int // looks
		looks   []view
		windows int
		last    float64 // of all units
	}{
		{0, []view{cut(4), cut(5)}, 9, 9},
		{0, []view{cut(4), whole}, 10, 9},
		{unitLooks - 1, []view{cut(5), whole}, unitLooks*lookWindows + 5, 2},
		{unitLooks, []view{cut(4), cut(5)}, unitLooks*lookWindows + 5, 2},
		{unitLooks, []view{cut(0), cut(5)}, unitLooks*lookWindows + 5, 2},
		{unitLooks, []view{cut(1), whole}, unitLooks*lookWindows + lookWindows + 1, 2},
		{unitLooks, []view{whole, whole}, (unitLooks + 2) * lookWindows, 2},
	} {
		r := timed(slices.Repeat([]float64{2}, c.before*lookWindows)...)
		r.take(c.looks)
		units := r.units()
		if len(r.cycles) != c.windows || units[len(units)-1] != c.last || r.result.SamplesKept != windowSamples*(c.windows-c.before*lookWindows) {
			t.Errorf("behind %d looks: %d windows, want %d, in units %v, %d samples", c.before, len(r.cycles), c.windows, units, r.result.SamplesKept)
		}
	}
}

// After enoughLooks a block is hopeless whose interval would need more than all looks.
func TestHopeless(t *testing.T) {
	const target = 0.005 * 4
	for _, c := range []struct {
		half float64
		want bool
	}{ // √(16/8) = 1.4142
		{1.41 * target, false}, {1.42 * target, true},
	} {
		r := inLooks(8, func(look, _ int) float64 { return float64(2*(look%2) - 1) })
		scale(r, c.half/r.estimate().Half)
		if got := r.hopeless(8); got != c.want {
			t.Errorf("± %.4f after 8 looks of 16, for ± %.4f: hopeless %v", c.half, target, got)
		}
	}
}

// With fewer looks only what will not be steady is, or what is and will not be narrow.
func TestHopelessEarly(t *testing.T) {
	bySample := func(_, window int) float64 { return float64(2*(window%2) - 1) }
	byLook := func(look, _ int) float64 { return float64(2*(look%2) - 1) }
	const limit = unstableShare * 4
	for _, c := range []struct {
		name  string
		looks int
		of    func(look, window int) float64
		half  float64 // of the wider interval
		want  bool
	}{
		{"after 3", 3, bySample, 10 * limit, false},
		{"after 4, steady after 8", 4, bySample, 1.99 * limit, false}, // 2·√(4/8) = √2
		{"after 4, not steady after 8", 4, bySample, 2.01 * limit, true},
		{"after 6, steady", 6, byLook, 0.99 * limit, true},
		{"after 6, not steady yet", 6, byLook, 1.01 * limit, false},
		{"after 8, not steady", 8, byLook, 1.01 * limit, true},
	} {
		r := inLooks(c.looks, c.of)
		scale(r, c.half/r.wider().Half)
		if got := r.hopeless(c.looks); got != c.want {
			t.Errorf("%s: hopeless %v", c.name, got)
		}
	}
}

// inLooks is a run of so many looks whose windows are off 4 cycles by what of says, by a clock
// without steps.
func inLooks(looks int, of func(look, window int) float64) *run {
	var cycles []float64
	for l := range looks {
		for w := range lookWindows {
			cycles = append(cycles, 4+of(l, w))
		}
	}
	r := timed(cycles...)
	r.clock = clock.TSC{StepTicks: 1e-9}
	return r
}

// scale stretches what windows are off 4 cycles.
func scale(r *run, by float64) {
	for i := range r.cycles {
		r.cycles[i] = 4 + (r.cycles[i]-4)*by
	}
}

// One look that is slow as a whole hides among windows and not among looks: the wider interval
// is the one that is judged.
func TestWider(t *testing.T) {
	slow := func(look, _ int) float64 { return map[bool]float64{true: 0.5}[look%3 == 0] }
	if r := inLooks(6, slow); r.wider() != r.estimate() || r.estimate().Half <= r.scatter().Half {
		t.Errorf("looks: ± %.4f of estimate %.4f, scatter %.4f", r.wider().Half, r.estimate().Half, r.scatter().Half)
	}
	turns := func(_, window int) float64 { return float64(window) / 10 }
	if r := inLooks(6, turns); r.wider() != r.scatter() || r.estimate().Half >= r.scatter().Half {
		t.Errorf("turns: ± %.4f of estimate %.4f, scatter %.4f", r.wider().Half, r.estimate().Half, r.scatter().Half)
	}
}

// The looks that are asked are ascending and leave room for the first decision and each early end.
func TestCheckedLooks(t *testing.T) {
	if !slices.IsSorted(checkedLooks) || checkedLooks[0] < 2 {
		t.Errorf("%v", checkedLooks)
	}
	for _, n := range []int{fewLooks, unitLooks, enoughLooks} {
		if !slices.Contains(checkedLooks, n) {
			t.Errorf("%v, and after %d a block may end", checkedLooks, n)
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
		r := timed()
		r.result.WindowsSwitched, r.result.WindowsUnsteady, r.result.WindowsDrifted = c.switched, c.unsteady, c.drifted
		var rejection *verdict.Rejection
		if err := r.disturbed(12); !errors.As(err, &rejection) || rejection.Reason != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A stay is kept as far as its windows are complete, and not at all after a context switch or
// while the clock moved.
func TestKeep(t *testing.T) {
	const adds, iterations = 4096, 100 * 40
	full := func(turns int, ticks uint64) window { // 2 cycles an iteration at ticks/4096 a cycle
		column := func(v uint64) []uint64 { return []uint64{v, v, v} }
		return window{
			columns:  [][]uint64{column(700), column(0), column(ticks), column(0), column(2 * iterations * ticks / adds)},
			turns:    turns,
			polls:    windowPolls,
			complete: true,
			runs:     [2]float64{40, 40},
		}
	}
	torn := full(7, adds)
	torn.complete = false
	for _, c := range []struct {
		name                        string
		got                         stay
		turns                       []int
		switched, unsteady, drifted int
	}{
		{"whole", stay{windows: []window{full(0, adds), full(3, adds)}}, []int{0, 3}, 0, 0, 0},
		{"one torn", stay{windows: []window{full(0, adds), torn}}, []int{0}, 0, 1, 0},
		{"switched", stay{windows: []window{full(0, adds), full(1, adds)}, switches: 1}, nil, 2, 0, 0},
		{"drifted", stay{windows: []window{full(0, adds), full(1, 2*adds)}}, nil, 0, 0, 2},
		{"without a sample", stay{windows: []window{{columns: make([][]uint64, 5)}}}, nil, 0, 1, 0},
	} {
		r := timed()
		r.clock, r.rate = clock.TSC{StepTicks: 1}, clockRate{ticks: 1, samples: 36}
		r.report.TicksPerSecond = 1
		var turns []int
		for _, w := range r.keep(c.got) {
			turns = append(turns, w.turns)
			if cycles := w.cycles(r.factors, r.clock, r.rate); math.Abs(cycles-2) > 1e-9 {
				t.Errorf("%s: %g cycles, want 2", c.name, cycles)
			}
		}
		if !slices.Equal(turns, c.turns) {
			t.Errorf("%s: kept %v, want %v", c.name, turns, c.turns)
		}
		if got := [3]int{r.result.WindowsSwitched, r.result.WindowsUnsteady, r.result.WindowsDrifted}; got != [3]int{c.switched, c.unsteady, c.drifted} {
			t.Errorf("%s: dropped %v", c.name, got)
		}
	}
}

// A block that walks gets the copies that steadyPages do for, in one go.
func TestWalkersGetFewerCopies(t *testing.T) {
	b := openBench(t)
	for _, c := range []struct {
		name, hex string
		want      unroll.Factors // or those that the front end allows
	}{
		{"a load that stays", "488b03", unroll.Factors{}},
		{"a load that moves a page each", "488b03" + "4881c300100000", unroll.Factors{Short: 8, Long: 24}},
		{"two pages each", "488b03" + "4881c300200000", unroll.Factors{Short: 8, Long: 24}},
		{"two loads on two pages each", "488b03" + "488b8b00100000" + "4881c300200000", unroll.Factors{Short: 4, Long: 12}},
	} {
		r := b.newRun(Block{Code: unhex(t, c.hex)})
		if err := errors.Join(r.decode(), r.refuse(), r.choose()); err != nil {
			t.Fatal(err)
		}
		want := r.factors
		if c.want != (unroll.Factors{}) {
			want = c.want
		}
		r.plan = mapper.Plan{Insts: r.insts, Init: b.inits[0], Frames: 1, Limit: runLimit, Fresh: r.fresh}
		if err := r.mapPages(); err != nil || r.factors != want || len(r.mapping.Pages) > steadyPages {
			t.Errorf("%s: %v copies on %d pages, want %v copies: %v", c.name, r.factors, len(r.mapping.Pages), want, err)
		}
	}
}

// A stay of one window has two readings of the rate: a step of the clock between them is no
// drift, three are. One reading says nothing.
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
		{"one", []float64{0}, false, false},
		{"equal", []float64{0, 0}, true, false},
		{"a step apart", []float64{0, 1}, true, false},
		{"three steps apart", []float64{0, 3}, true, true},
	} {
		r := timed()
		w := window{columns: make([][]uint64, 3)}
		for _, off := range c.off {
			w.columns[0] = append(w.columns[0], 1000)
			w.columns[1] = append(w.columns[1], 10*step)
			w.columns[2] = append(w.columns[2], 10*step+uint64(math.Round(rate*cycles/step)+off)*step)
		}
		if known, drifts := r.learnRate(stay{windows: []window{w}}); known != c.known || drifts != c.drifts {
			t.Errorf("%s: known %v, drifts %v", c.name, known, drifts)
		}
	}
}

// A rate that was just asked for anew, on another CPU, leaves the windows' own readings of it.
func TestEstimateBehindRelocation(t *testing.T) {
	r := timed(slices.Repeat([]float64{2}, 12)...)
	r.rate = clockRate{ticks: 0.7}
	if e := r.estimate(); !(e.Half < 0.02) {
		t.Errorf("%.4f ± %.4f", e.Value, e.Half)
	}
}
