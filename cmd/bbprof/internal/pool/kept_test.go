package pool

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// one measures one block after another on one goroutine.
type one struct{ Profiler }

func (o one) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		done(o.Profile(ctx, b))
	}
	return nil
}

func rejection(reason verdict.Reason) profiler.Result {
	return profiler.Result{Status: profiler.Rejected, Reason: reason, Rejection: &verdict.Rejection{Reason: reason}}
}

// TestKept: what a command measured before it ended comes back whole and in order, by set-up and options; what a busy machine
// is to blame for is measured again.
func TestKept(t *testing.T) {
	var zero uint64
	none, paper := 0.0, initial.Paper()
	full := profiler.Result{Hex: "90", Status: profiler.OK, Cycles: 0.25, CILow: 0.24, CIHigh: 0.26, Init: paper, Warnings: []string{"w"},
		Evidence: []invariants.Evidence{{Invariant: verdict.L1DMiss, Kind: invariants.Counted}},
		Counters: []profiler.CounterReport{{Event: "e", PerIteration: &none}, {Event: "f"}},
		Branch:   &profiler.BranchReport{}, Clock: &profiler.ClockReport{Name: "tsc", ProbeIdle: 955}, Loop: &profiler.LoopReport{CopiesLong: 3},
		Speeds: []profiler.Speed{{Cycles: 1, Layouts: []int{0, 1}}}, Predicted: &invariants.Prediction{}, Host: &profiler.HostReport{OnCPU: 1}}
	rejected := profiler.Result{Hex: "91", Status: profiler.Rejected, Reason: verdict.Unmappable,
		Rejection: &verdict.Rejection{Reason: verdict.Unmappable, Address: &zero, Inst: &verdict.Inst{Text: "i"}}}
	results := []profiler.Result{full, rejected, {Status: profiler.OK, Cycles: 2}, rejection(verdict.Unstable),
		rejection(verdict.BusyCore), {Status: profiler.Failed}}
	blocks := []profiler.Block{{Code: []byte{0x90}}, {Code: []byte{0x91}}, {Code: []byte{0x90}, Setup: profiler.Setup{Mode: profiler.Loop}},
		{Code: []byte{0x92}}, {Code: []byte{0x93}}, {Code: []byte{0x94}}}
	path := filepath.Join(t.TempDir(), "j")
	for start, want := range []int{6, 2, 2} { // measured in each
		j := require.Get(journal.Open(path, "x", true))(t)
		calls := 0
		p := profile(func() (profiler.Result, error) {
			if calls++; start == 0 {
				return results[calls-1], nil
			}
			return rejection(verdict.BusyCore), nil
		})
		kept := Kept{Journal: j, Options: profiler.Options{CPUs: []int{start}}}
		if start == 1 {
			for i, b := range blocks {
				got := require.Get(kept.ProfileCloser(notClosed{p}).Profile(t.Context(), b))(t)
				if i < 4 {
					require.Equal(t, "a result", results[i], got)
				}
			}
		} else {
			require.Get(All(t.Context(), []Measurer{kept.Measurer(one{p})}, blocks, 0, 0, nil))(t)
		}
		require.Equal(t, "measured", want, calls)
		require.NoError(t, j.Close())
	}
	j := require.Get(journal.Open(path, "x", true))(t)
	defer j.Close()
	if _, ok := (&Kept{Journal: j, Options: profiler.Options{Mode: profiler.Loop}}).take(blocks[0]); ok {
		t.Error("other options, and the same result")
	}
}

// TestLeast: on a core that is never idle retries end when they took as long as everything before, or as long as is asked for.
func TestLeast(t *testing.T) {
	const rounds = 50
	for least, more := range map[time.Duration]bool{0: false, time.Hour: true} {
		calls := 0
		p := profile(func() (profiler.Result, error) {
			if calls++; calls == rounds {
				return profiler.Result{Status: profiler.OK}, nil
			}
			for began := time.Now(); time.Since(began) < time.Millisecond; {
			}
			return rejection(verdict.BusyCore), nil
		})
		require.Get(All(t.Context(), []Measurer{one{p}}, []profiler.Block{{}}, 2, least, nil))(t)
		if (calls == rounds) != more {
			t.Errorf("with %v: %d tries", least, calls)
		}
	}
}
