package timing

import (
	"fmt"
	"time"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/recording"
	"github.com/bbprof/bbprof/internal/tracee"
)

// recordedReplicates are those of each block in a recording, whatever its interval: every layout four times.
const recordedReplicates = 8 * passReplicates

// note records the windows of a child run, those of a third number of iterations left out.
func (s *series) note(got childRun, of []*placement) {
	if s.Record == nil {
		return
	}
	b := &s.Record.Blocks[s.number]
	b.Short, b.Long = s.pairs[0].Short.Iterations, s.pairs[0].Long.Iterations
	for _, w := range got.windows {
		p := of[w.pair]
		if p.Long.Iterations != b.Long {
			continue
		}
		at := recording.Window{Replicate: p.number, Layout: int(LayoutOf(p.place, w.offset)), Switched: got.switches > 0}
		if w.samples() > 0 {
			at.Probe = uint64(w.columns[columnProbe][0])
			for _, chain := range w.chains(len(s.chains)) {
				at.Chains = append(at.Chains, uint64(chain[0]))
			}
			at.Runs = w.raw
		}
		b.Windows = append(b.Windows, at)
	}
}

// Replay is a recorded core in place of the one at hand.
type Replay struct {
	r   *recording.Recording
	cpu host.CPU
}

// NewReplay takes what is known of the core from the table of cores.
func NewReplay(r *recording.Recording) Replay {
	core := cpu.Of(cpu.Name(r.CPU.Core)) // a hypervisor may have replaced the model's number
	return Replay{r, host.CPU{AddsPerCycle: core.AddsPerCycle, NopsPerCycle: core.NopsPerCycle}}
}

// timer is a TSC that has the recording's clock, probe and CPU, and no child.
func (r Replay) timer() *TSC {
	t := NewTSC(Config{CPU: r.cpu, CPUs: oneCPU{}})
	t.clock, t.probe = clock.TSC{StepTicks: r.r.Step}, harness.Probe{Iterations: r.r.Iterations, Nops: r.r.Nops}
	t.report.TicksPerSecond = r.r.TicksPerSecond
	t.chains = make([]image, len(t.clock.Chains()))
	return t
}

// ReplayedStart is what a start found in a recording.
type ReplayedStart struct {
	Report
	Burst float64 // cycles of a burst of stores on an idle core, 0 if they do not tell
	Tries int
}

// Start replays a start. The tries that were recorded come again once they are used up.
func (r Replay) Start(number int) (got ReplayedStart, err error) {
	t := r.timer()
	s := start{clock: t.clock, confirmed: t.confirms}
	recorded := r.r.Starts[number]
	f, err := s.find(&replayedStart{tries: recorded.Tries})
	got.Tries = len(s.tries)
	if err != nil {
		return got, err
	}
	t.rate = clockRate{ticks: f.rate}
	var bursts []float64
	for _, b := range recorded.Bursts {
		bursts = append(bursts, float64(b))
	}
	got.Report = Report{TicksPerCycle: f.rate, MultiplyCycles: f.multiply, ProbeIdle: f.idle, Shared: f.shared, Doubt: t.doubt(f)}
	got.Burst = t.idleBurst(bursts)
	return got, nil
}

// replayedStart gives samples of recorded tries, startSamples at a time.
type replayedStart struct {
	tries [][]recording.Sample
	at    int
}

func (r *replayedStart) sample(int) (window, error) {
	columns := recording.Columns(r.tries[r.at%len(r.tries)])
	r.at++
	return window{columns: columns, complete: true}, nil
}

// next implements startReadings: a start that is recorded has the time of as many tries as a live one.
func (r *replayedStart) next() (bool, error) { return r.at < int(startLimit/startPause), nil }

// Time replays a block: its windows come again in the order in which they were recorded, layout by layout.
func (r Replay) Time(number int, p Plan) (Timed, error) {
	b := r.r.Blocks[number]
	t := r.timer()
	s, err := r.Start(0)
	if err != nil {
		return Timed{}, err
	}
	t.idle, t.rate = s.ProbeIdle, clockRate{ticks: s.TicksPerCycle}
	again := replayed{block: b, clock: t.clock, next: map[int]int{}}
	t.run = again.run
	p.Budget = time.Hour
	return t.Time(again, p)
}

// replayed is a block out of a recording.
type replayed struct {
	block recording.Block
	clock clock.Clock
	next  map[int]int // window by layout
}

// run gives the next window of each layout that the plan asks for.
func (r replayed) run(p runPlan) (got childRun, err error) {
	got.windows = p.windows()
	for i := range got.windows {
		w := &got.windows[i]
		l := int(LayoutOf(int(p.pairs[w.pair].long.entry), w.offset))
		recorded, ok := r.window(l)
		if !ok {
			return got, fmt.Errorf("the recording has no window of layout %d of %x", l, r.block.Code)
		}
		if recorded.Switched {
			got.switches++ // and the child run with it
		}
		w.polls = windowPolls
		w.columns = make([][]float64, 1+len(recorded.Chains)+2)
		if w.complete = len(recorded.Chains) > 0; !w.complete {
			continue
		}
		w.columns[columnProbe] = []float64{float64(recorded.Probe)}
		for k, ticks := range recorded.Chains {
			w.columns[columnChains+k] = []float64{float64(ticks)}
		}
		for k, runs := range recorded.Runs {
			all, one := runTimes(floats(runs), r.clock)
			column := 1 + len(recorded.Chains) + k%2
			w.columns[column] = append(w.columns[column], all)
			w.perRun[k%2] = append(w.perRun[k%2], one)
			w.runs, got.runs = len(runs), len(runs)
		}
	}
	return got, nil
}

// window is the next one of a layout. After the last comes the first.
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
		pairs = append(pairs, Pair{Image{uint64(place), r.block.Short}, Image{uint64(place), r.block.Long}})
	}
	return pairs, nil
}

func (replayed) Third(harness.Clock) (pair Pair, ok bool, err error) { return pair, false, nil }
func (replayed) Refill()                                             {}
func (replayed) Remap(int) []tracee.Op                               { return nil }

// oneCPU is all that a recording has.
type oneCPU struct{}

func (oneCPU) Current() int              { return 0 }
func (oneCPU) Next(*tracee.Tracee) error { return nil }
