package compare

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// verdicts compares two blocks with several seeds and counts the verdicts. It skips the test if a difference of percent
// might be missed.
func verdicts(t *testing.T, p *profiler.Profiler, a, b []byte, layouts, seeds int, percent float64) (says map[Verdict]int, last Conclusion) {
	t.Helper()
	ctx := require.Context(t)
	says = map[Verdict]int{}
	for seed := range uint64(seeds) {
		measure, _, err := Blocks(ctx, p, []profiler.Block{{Code: a}, {Code: b}})
		var all []Measured
		if err == nil {
			all, _, err = Run(ctx, Draw(seed, layouts), experiment.Plan{Rounds: 3, Seed: seed}, measure)
		}
		if err == nil {
			last, err = Paired(Pairs(all, 1), 1)
		}
		var rejection *verdict.Rejection
		if errors.As(err, &rejection) && rejection.Reason.Noise() {
			require.Skip(t, require.Idle, "the core is not left alone: %v", err)
		}
		require.Measure(t, err)
		// A difference twice as large as one found four times in five is missed once in 10,000.
		if 2*last.Detects > percent {
			require.Skip(t, require.Idle, "the core is not left alone: %d layouts detect %.2f %%", layouts, last.Detects)
		}
		says[last.Verdict]++
	}
	return says, last
}

// TestMeasured: a block is no faster than itself (one comparison in 20 may say so; six do in one run of 3,000). One more
// add in a chain of adds is always found, whether it doubles the chain or adds a hundredth.
func TestMeasured(t *testing.T) {
	require.Slow(t)
	p, err := profiler.New(t.Context(), profiler.Options{})
	require.Measure(t, err)
	t.Cleanup(p.Close)
	block := []byte{0x48, 0x8b, 0x03, 0x48, 0x0f, 0xaf, 0xc1, 0x48, 0x01, 0xc2} // load, imul, add
	if says, last := verdicts(t, p, block, block, 17, 20, math.Inf(1)); says[Same] < 15 {
		t.Errorf("%v; the last: %+v", says, last)
	}
	add := []byte{0x48, 0x01, 0xc0}
	for _, c := range []struct{ adds, layouts, seeds int }{{1, 9, 10}, {100, 33, 3}} {
		want := 100 / float64(c.adds)
		says, last := verdicts(t, p, bytes.Repeat(add, c.adds), bytes.Repeat(add, c.adds+1), c.layouts, c.seeds, want)
		if says[Slower] != c.seeds || last.High < 0.9*want || last.Low > 1.1*want {
			t.Errorf("%d adds and one more: %v; %.3f %% slower, %.3f to %.3f, want %.3f %%", c.adds, says, last.Mean, last.Low, last.High, want)
		}
	}
}
