package timing

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/verdict"
)

// replay replaces the present core by a recorded one.
type replay struct {
	r   *recording.Recording
	cpu host.CPU
}

// newReplay reads the core's data from the table of cores.
func newReplay(r *recording.Recording) replay {
	core := cpu.Of(cpu.Name(r.CPU.Core)) // a hypervisor may have replaced the model's number
	return replay{r, host.CPU{AddsPerCycle: core.AddsPerCycle, IdleProbe: core.IdleProbe, NopsPerCycle: core.NopsPerCycle}}
}

// timer returns a TSC with the recording's clock, probe and CPU, without a child.
func (r replay) timer() *TSC {
	t := NewTSC(Config{CPU: r.cpu, CPUs: oneCPU{}})
	t.clock, t.probe = clock.TSC{StepTicks: r.r.Step}, harness.Probe{Iterations: r.r.Iterations, Nops: r.r.Nops}
	t.report.TicksPerSecond = r.r.TicksPerSecond
	t.chains = make([]image, addChains)
	return t
}

// Start replays a start and returns its number of tries. It repeats the recorded ones when they are used up.
func (r replay) Start(number int) (got Report, tries int, err error) {
	t := r.timer()
	s := start{clock: t.clock, confirmed: t.confirms}
	f, err := s.find(&replayedStart{tries: r.r.Starts[number].Tries})
	t.rate = clockRate{ticks: f.rate}
	t.began(f)
	got = t.report
	got.TicksPerCycle, got.Shared = f.rate, f.shared
	return got, len(s.tries), err
}

// replayedStart returns samples of recorded tries, startSamples at a time.
type replayedStart struct {
	tries [][]recording.Sample
	at    int
}

func (r *replayedStart) sample(int) (window, error) {
	columns := make([][]float64, len(recording.Sample{}))
	for _, s := range r.tries[r.at%len(r.tries)] {
		for k, ticks := range s {
			columns[k] = append(columns[k], float64(ticks))
		}
	}
	r.at++
	return window{columns: columns, complete: true}, nil
}

// next implements startReadings. A recorded start has time for as many tries as a live one.
func (r *replayedStart) next() (bool, error) { return r.at < int(startLimit/startPause), nil }

// Time replays a block: the windows of each layout in the order of the recording.
func (r replay) Time(number int, p Plan) (Timed, error) {
	b := r.r.Blocks[number]
	t := r.timer()
	s, _, err := r.Start(0)
	if err != nil {
		return Timed{}, err
	}
	t.setIdle(s.ProbeIdle)
	t.rate = clockRate{ticks: s.TicksPerCycle}
	again := replayed{block: b, clock: t.clock, next: map[int]int{}}
	t.run = again.run
	p.Budget = time.Hour
	return t.Time(again, p)
}

// replayed is a block from a recording.
type replayed struct {
	block recording.Block
	clock clock.Clock
	next  map[int]int // window by layout
}

// run returns the next window of each layout in the plan.
func (r replayed) run(p runPlan) (got childRun, err error) {
	got.windows = p.windows()
	for i := range got.windows {
		w := &got.windows[i]
		l := int(LayoutOf(int(p.pairs[w.pair].long.entry), w.offset))
		recorded, ok := r.window(l)
		if p.idle == anyReading { // for the rate: of any layout
			for at := r.next[l]; ok && !wholeWindow(recorded); at++ {
				recorded = r.block.Windows[at%len(r.block.Windows)]
			}
		}
		if !ok {
			return got, fmt.Errorf("the recording has no window of layout %d of %x", l, r.block.Code)
		}
		if recorded.Switched {
			got.switches++ // and the child run with it
		}
		w.polls = windowPolls
		w.columns = make([][]float64, 1+len(recorded.Chains)+2)
		used := r.next[l] > len(r.block.Windows)
		if w.complete = len(recorded.Chains) > 0 && recorded.Probe <= p.idle && !used; !w.complete {
			continue
		}
		w.columns[columnProbe] = []float64{float64(recorded.Probe)}
		for k, ticks := range recorded.Chains {
			w.columns[columnChains+k] = []float64{float64(ticks)}
		}
		for k, runs := range recorded.Runs {
			all, one := runTimes(toFloats(runs), r.clock, 0)
			column := 1 + len(recorded.Chains) + k%2
			w.columns[column] = append(w.columns[column], all)
			w.perRun[k%2] = append(w.perRun[k%2], one)
			w.runs, got.runs = len(runs), len(runs)
		}
	}
	return got, nil
}

// wholeWindow reports whether nothing interrupted a window.
func wholeWindow(w recording.Window) bool { return len(w.Chains) > 0 }

// window returns the next window of a layout. The first follows the last.
func (r replayed) window(layout int) (w recording.Window, ok bool) {
	all := r.block.Windows
	for range all {
		at := r.next[layout] % len(all)
		r.next[layout] = at + 1
		if all[at].Layout == layout {
			return all[at], true
		}
	}
	return w, false
}

// Replicates implements Block: an entry is the number of the place.
func (r replayed) Replicates(places []int, _ int, _ harness.Clock) (pairs []Pair, err error) {
	for _, place := range places {
		pairs = append(pairs, Pair{Short: Image{uint64(place), r.block.Short, 0}, Long: Image{uint64(place), r.block.Long, 0}})
	}
	return pairs, nil
}

func (replayed) Midpoint(harness.Clock) (pair Pair, ok bool, err error) { return pair, false, nil }
func (replayed) Refill()                                                {}
func (replayed) Remap(int) []tracee.Op                                  { return nil }

// oneCPU implements CPUs for a recording.
type oneCPU struct{}

func (oneCPU) Current() int              { return 0 }
func (oneCPU) Next(*tracee.Tracee) error { return nil }

// outcome bounds the results of starts on a recorded core.
type outcome struct {
	idleLow, idleHigh float64 // cycles of the probe on the idle core
	rateLow, rateHigh float64 // ticks per cycle of a confirmed start
	most              int     // tries of a confirmed start
	unconfirmed       int     // starts that saw no idle core
}

// outcomes are those of testdata/cores.
var outcomes = map[string]outcome{
	"zen4-genoa":             {1100, 1190, 0.695, 0.722, 12, 1}, // beside one start, a sibling slowed the chains of adds all the time
	"zen4-genoa-starts":      {1100, 1190, 0.695, 0.722, 12, 1},
	"zen3-milan":             {1100, 1175, 0.745, 0.765, 12, 1},
	"zen3-milan-busy":        {1100, 1175, 0.745, 0.765, 12, 1},
	"golden-cove-calm":       {945.5, 964.5, 0.69, 0.93, 1, 0},
	"golden-cove-mixed":      {945.5, 964.5, 0.69, 0.93, 12, 1},
	"golden-cove-busy":       {945.5, 964.5, 0.69, 0.93, 12, 8},
	"golden-cove-never-idle": {945.5, 964.5, 0.69, 0.93, 12, 8},
}

// TestReplay replays the recordings of testdata/cores. What is read and written again is the same.
func TestReplay(t *testing.T) {
	files, narrow := require.Get(filepath.Glob("../../testdata/cores/*.gz"))(t), 0
	require.Equal(t, "recordings", len(outcomes), len(files))
	for name, want := range outcomes {
		t.Run(name, func(t *testing.T) {
			file := require.Get(os.Open("../../testdata/cores/" + name + ".gz"))(t)
			defer file.Close()
			text := require.Get(io.ReadAll(require.Get(gzip.NewReader(file))(t)))(t)
			r, again := &recording.Recording{}, &bytes.Buffer{}
			require.NoError(t, json.Unmarshal(text, r))
			require.NoError(t, r.Write(again))
			if !bytes.Equal(again.Bytes(), text) {
				t.Errorf("it is written as %d bytes of %d, or others", again.Len(), len(text))
			}
			replayStarts(t, r, want)
			narrow += replayBlocks(t, r, want)
		})
	}
	if narrow == 0 {
		t.Error("no recorded block is narrow after half of the layouts")
	}
}

// Every recorded start ends with the core's idle level, whether it saw an idle core or not. As a core without a row,
// it has that level or none.
func replayStarts(t *testing.T, r *recording.Recording, want outcome) {
	t.Helper()
	unconfirmed := 0
	unknown := replay{r, host.CPU{}}
	for i, s := range r.Starts {
		got, tries, err := newReplay(r).Start(i)
		wrong := err != nil || got.ProbeIdle < want.idleLow || got.ProbeIdle > want.idleHigh
		if !got.IdleConfirmed {
			unconfirmed++
		} else {
			wrong = wrong || tries > want.most || got.TicksPerCycle < want.rateLow || got.TicksPerCycle > want.rateHigh
		}
		if wrong {
			t.Errorf("start %d (%s): %+v after %d tries, %v; want %+v", i+1, s.Note, got, tries, err, want)
		}
		got, tries, err = unknown.Start(i)
		if err != nil || got.ProbeIdle != 0 && (got.ProbeIdle < want.idleLow || got.ProbeIdle > want.idleHigh) {
			t.Errorf("start %d, as of an unknown core: %+v after %d tries, %v; want %+v or no level", i+1, got, tries, err, want)
		}
	}
	if unconfirmed > want.unconfirmed {
		t.Errorf("%d starts saw no idle core, want %d", unconfirmed, want.unconfirmed)
	}
}

// Every recorded block has its known cycles inside its interval, at either precision, or is rejected for its
// neighbours; without any, none is. One whose interval is narrow after half of the layouts is timed in the others too
// if the plan wants them.
func replayBlocks(t *testing.T, r *recording.Recording, want outcome) (narrow int) {
	t.Helper()
	core, busy := newReplay(r), 0
	for _, precision := range []float64{0.005, 0.01} {
		for i, b := range r.Blocks {
			if b.High == 0 {
				continue
			}
			if !slices.ContainsFunc(b.Windows, wholeWindow) {
				busy++
				continue
			}
			got, err := core.Time(i, Plan{Precision: precision})
			if verdict.ReasonOf(err).Noise() {
				busy++
				continue
			}
			e := got.Estimate
			widest := 2 * precision * max(e.Value, 1)
			if !got.Design.Repeated() { // neighbours ended it
				widest = UnstableLimit(e)
			}
			low, high := b.Low-0.01*max(b.Low, 1), b.High+0.01*max(b.High, 1)
			if err != nil || e.Value < low || e.Value > high || math.IsNaN(e.Half) || e.Half > widest {
				t.Errorf("%x, %d and %d copies: %.4f ± %.4f of %d windows, %v; want %g to %g",
					b.Code, b.Short, b.Long, e.Value, e.Half, len(got.Windows), err, b.Low, b.High)
			}
			if narrow > 0 || len(got.Windows) > Layouts/2 {
				continue
			}
			narrow++
			if whole, err := core.Time(i, Plan{Precision: precision, Whole: true}); err == nil && len(whole.Design.Cells) <= Layouts/2 {
				t.Errorf("%x: %d windows of %d layouts, and %d of half of them", b.Code, len(whole.Windows), len(whole.Design.Cells), len(got.Windows))
			}
		}
	}
	t.Logf("%d of %d timings are rejected for neighbours", busy, 2*len(r.Blocks))
	if busy > 0 && want.unconfirmed == 0 {
		t.Errorf("%d timings are rejected, though the core is idle", busy)
	}
	return narrow
}
