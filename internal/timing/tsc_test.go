package timing

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/verdict"
)

// timed is a sample of these windows, by a clock of 26 ticks a step, 0.7 a cycle.
func timed(cycles ...float64) *sample {
	return &sample{
		windows: cycles, clock: clock.TSC{StepTicks: 26}, rate: clockRate{ticks: 0.7, samples: 36},
		runs: 40, iterations: 100, precision: 0.005,
	}
}

// seriesOf is the series of a block whose images differ by 100 iterations, with these windows.
func seriesOf(cycles ...float64) *series {
	return &series{
		TSC:   &TSC{clock: clock.TSC{StepTicks: 1}, rate: clockRate{ticks: 1, samples: 36}, report: Report{TicksPerSecond: 1}},
		pair:  Pair{Image{0, 100}, Image{0, 200}},
		timed: Timed{Windows: cycles, RunsPerSample: 40},
	}
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
	fine := timed(few.windows...) // its rate is of 36 again
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

// What the dispatch offset does to the windows of every replicate alike is in the interval of few replicates and not in that of
// many, and always in the scatter.
func TestUnits(t *testing.T) {
	look := []float64{1.8, 1.9, 2, 2, 2.1, 2.2}
	few, many := timed(slices.Repeat(look, unitReplicates-1)...), timed(slices.Repeat(look, unitReplicates)...)
	if got := few.units(); len(got) != (unitReplicates-1)*Windows {
		t.Errorf("%d units of %d replicates", len(got), unitReplicates-1)
	}
	if got := many.units(); len(got) != unitReplicates || math.Abs(got[0]-2) > 1e-9 {
		t.Errorf("%v are the units of %d replicates", got, unitReplicates)
	}
	if torn := timed(append(slices.Clone(many.windows), 9, 9)...).units(); len(torn) != unitReplicates {
		t.Errorf("a replicate that was cut off counts: %v", torn)
	}
	if f, m := few.estimate().Half, many.estimate().Half; m > f/5 {
		t.Errorf("± %.4f of few replicates, ± %.4f of many", f, m)
	}
	if s := many.scatter(); Steady(s) != (s.Half <= 0.04) || s.Half < 5*many.estimate().Half {
		t.Errorf("the scatter is ± %.4f", s.Half)
	}
}

// Replicates that the time was up for come after complete ones, and two of them do not pass for one.
func TestAppendReplicates(t *testing.T) {
	cut := func(windows int) placement {
		return placement{cycles: slices.Repeat([]float64{9}, windows), missing: Offsets()[windows:]}
	}
	whole := placement{cycles: slices.Repeat([]float64{2}, Windows)}
	for _, c := range []struct {
		before     int // replicates
		replicates []placement
		windows    int
		last       float64 // of all units
	}{
		{0, []placement{cut(4), cut(5)}, 9, 9},
		{0, []placement{cut(4), whole}, 10, 9},
		{unitReplicates - 1, []placement{cut(5), whole}, unitReplicates*Windows + 5, 2},
		{unitReplicates, []placement{cut(4), cut(5)}, unitReplicates*Windows + 5, 2},
		{unitReplicates, []placement{cut(0), cut(5)}, unitReplicates*Windows + 5, 2},
		{unitReplicates, []placement{cut(1), whole}, unitReplicates*Windows + Windows + 1, 2},
		{unitReplicates, []placement{whole, whole}, (unitReplicates + 2) * Windows, 2},
	} {
		s := seriesOf(slices.Repeat([]float64{2}, c.before*Windows)...)
		s.append(c.replicates)
		units := s.sample().units()
		if n := len(s.timed.Windows); n != c.windows || units[len(units)-1] != c.last || s.timed.SamplesKept != windowSamples*(c.windows-c.before*Windows) {
			t.Errorf("after %d replicates: %d windows, want %d, in units %v, %d samples", c.before, n, c.windows, units, s.timed.SamplesKept)
		}
	}
}

// After enoughReplicates a block is hopeless whose interval would need more than all replicates.
func TestHopeless(t *testing.T) {
	const target = 0.005 * 4
	for _, c := range []struct {
		half float64
		want bool
	}{ // √(16/8) = 1.4142
		{1.41 * target, false}, {1.42 * target, true},
	} {
		r := inReplicates(8, func(look, _ int) float64 { return float64(2*(look%2) - 1) })
		scale(r, c.half/r.estimate().Half)
		if got := r.hopeless(8); got != c.want {
			t.Errorf("± %.4f after 8 replicates of 16, for ± %.4f: hopeless %v", c.half, target, got)
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
		r := inReplicates(c.looks, c.of)
		scale(r, c.half/r.wider().Half)
		if got := r.hopeless(c.looks); got != c.want {
			t.Errorf("%s: hopeless %v", c.name, got)
		}
	}
}

// inReplicates is a run of so many replicates whose windows are off 4 cycles by what of says, by a clock
// without steps.
func inReplicates(looks int, of func(look, window int) float64) *sample {
	var cycles []float64
	for l := range looks {
		for w := range Windows {
			cycles = append(cycles, 4+of(l, w))
		}
	}
	r := timed(cycles...)
	r.clock = clock.TSC{StepTicks: 1e-9}
	return r
}

// scale stretches what windows are off 4 cycles.
func scale(r *sample, by float64) {
	for i := range r.windows {
		r.windows[i] = 4 + (r.windows[i]-4)*by
	}
}

// One replicate that is slow as a whole hides among windows and not among replicates: the wider interval
// is the one that is judged.
func TestWider(t *testing.T) {
	slow := func(look, _ int) float64 { return map[bool]float64{true: 0.5}[look%3 == 0] }
	if r := inReplicates(6, slow); r.wider() != r.estimate() || r.estimate().Half <= r.scatter().Half {
		t.Errorf("looks: ± %.4f of estimate %.4f, scatter %.4f", r.wider().Half, r.estimate().Half, r.scatter().Half)
	}
	turns := func(_, window int) float64 { return float64(window) / 10 }
	if r := inReplicates(6, turns); r.wider() != r.scatter() || r.estimate().Half >= r.scatter().Half {
		t.Errorf("turns: ± %.4f of estimate %.4f, scatter %.4f", r.wider().Half, r.estimate().Half, r.scatter().Half)
	}
}

// The numbers of replicates that are asked about are ascending and leave room for the first decision and each early end.
func TestChecked(t *testing.T) {
	if !slices.IsSorted(checked) || checked[0] < 2 {
		t.Errorf("%v", checked)
	}
	for _, n := range []int{fewReplicates, unitReplicates, enoughReplicates} {
		if !slices.Contains(checked, n) {
			t.Errorf("%v, and after %d a block may end", checked, n)
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
	const adds, iterations = 4096, 100 * 40
	full := func(offset int, ticks uint64) window { // 2 cycles an iteration at ticks/4096 a cycle
		column := func(v uint64) []uint64 { return []uint64{v, v, v} }
		return window{
			columns:  [][]uint64{column(700), column(0), column(ticks), column(0), column(2 * iterations * ticks / adds)},
			offset:   offset,
			polls:    windowPolls,
			complete: true,
			runs:     [2]float64{40, 40},
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
		{"without a sample", childRun{windows: []window{{columns: make([][]uint64, 5)}}}, nil, 0, 1, 0},
	} {
		r := seriesOf()
		var offsets []int
		for _, w := range r.keep(c.got) {
			offsets = append(offsets, w.offset)
			if cycles := w.cycles(r.pair, r.clock, r.rate); math.Abs(cycles-2) > 1e-9 {
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

// A child run of one window has two readings of the rate: a step of the clock between them is no
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
		r := &TSC{clock: clock.TSC{StepTicks: step}, rate: clockRate{ticks: rate, samples: 36}}
		w := window{columns: make([][]uint64, 3)}
		for _, off := range c.off {
			w.columns[0] = append(w.columns[0], 1000)
			w.columns[1] = append(w.columns[1], 10*step)
			w.columns[2] = append(w.columns[2], 10*step+uint64(math.Round(rate*cycles/step)+off)*step)
		}
		if known, drifts := r.learnRate(childRun{windows: []window{w}}); known != c.known || drifts != c.drifts {
			t.Errorf("%s: known %v, drifts %v", c.name, known, drifts)
		}
	}
}

// A rate that was just asked for again, on another CPU, leaves the windows' own readings of it.
func TestEstimateAfterRelocation(t *testing.T) {
	r := timed(slices.Repeat([]float64{2}, 12)...)
	r.rate = clockRate{ticks: 0.7}
	if e := r.estimate(); !(e.Half < 0.02) {
		t.Errorf("%.4f ± %.4f", e.Value, e.Half)
	}
}
