package timing

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/recording"
)

// recordings are those of testdata/cores, by the file's name.
func recordings(t *testing.T) map[string]*recording.Recording {
	t.Helper()
	files, err := filepath.Glob("../../testdata/cores/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	all := map[string]*recording.Recording{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r, err := recording.Read(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".gz")] = r
	}
	return all
}

// outcomes are what starts on recorded cores have to come to: between what the probe takes on that core when it is idle, and ticks of its
// clock per cycle. So many of a recording's starts are disturbed, and take more than a try.
var outcomes = map[string]struct {
	idleLow, idleHigh float64 // cycles
	rateLow, rateHigh float64 // ticks per cycle
	most              int     // tries
	doubtful          int     // starts
}{
	// Beside its start 8 a sibling slowed the chains of adds all the time.
	"zen4-genoa":        {1100, 1190, 0.695, 0.722, 12, 1},
	"zen4-genoa-starts": {1100, 1190, 0.695, 0.722, 12, 1},
}

// Every recorded start finds the idle core, in few tries, and tells what took its time.
func TestReplayStarts(t *testing.T) {
	for name, r := range recordings(t) {
		want, ok := outcomes[name]
		if !ok {
			t.Errorf("%s: no outcome is known", name)
		}
		replay, doubtful := NewReplay(r), 0
		for i, s := range r.Starts {
			got, err := replay.Start(i)
			if err != nil {
				t.Errorf("%s, start %d (%s): %v", name, i+1, s.Note, err)
				continue
			}
			t.Logf("%s, start %d (%s): %d tries, idle %.0f, rate %.4f, imul %.3f, burst %.0f, shared %.3f %s", name, i+1, s.Note, got.Tries, got.ProbeIdle, got.TicksPerCycle,
				got.MultiplyCycles, got.Burst, got.Shared, got.Doubt)
			if got.Doubt != "" {
				doubtful++
				continue
			}
			if got.Tries > want.most || got.ProbeIdle < want.idleLow || got.ProbeIdle > want.idleHigh ||
				got.TicksPerCycle < want.rateLow || got.TicksPerCycle > want.rateHigh {
				t.Errorf("%s, start %d (%s): %+v, want %+v", name, i+1, s.Note, got, want)
			}
		}
		if doubtful > want.doubtful {
			t.Errorf("%s: %d starts in doubt, want %d", name, doubtful, want.doubtful)
		}
	}
}

// Every recorded block takes the cycles that are known of it, at either precision, and its interval says so.
func TestReplayBlocks(t *testing.T) {
	for name, r := range recordings(t) {
		replay := NewReplay(r)
		for _, precision := range []float64{0.005, 0.01} {
			for i, b := range r.Blocks {
				if b.High == 0 {
					continue
				}
				got, err := replay.Time(i, Plan{Precision: precision})
				if err != nil {
					t.Errorf("%s, %x: %v", name, b.Code, err)
					continue
				}
				e := got.Estimate
				low, high := b.Low-0.01*max(b.Low, 1), b.High+0.01*max(b.High, 1)
				if e.Value < low || e.Value > high || math.IsNaN(e.Half) || e.Half > 2*precision*max(e.Value, 1) {
					t.Errorf("%s, %x, %d and %d copies: %.4f ± %.4f of %d windows, want %g to %g", name, b.Code, b.Short, b.Long, e.Value, e.Half, len(got.Windows), b.Low, b.High)
				}
			}
		}
	}
}
