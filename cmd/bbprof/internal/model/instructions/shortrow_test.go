package instructions

import (
	"context"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// filling is a core whose instructions take cycles by length of row, and in a loop; none in a short row means no fixed
// time.
type filling struct{ short, long, loop float64 }

func (f filling) ProfileAll(_ context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		cycles := f.long
		switch {
		case b.Setup.Mode == profiler.Loop:
			cycles = f.loop
		case b.Setup.Unroll != nil && b.Setup.Unroll.Long <= 32:
			cycles = f.short
		}
		result := profiler.Result{Status: profiler.OK, Cycles: cycles, CILow: cycles, CIHigh: cycles}
		if cycles == 0 {
			result = profiler.Result{Status: profiler.Rejected, Reason: verdict.Nonlinear, Rejection: &verdict.Rejection{Reason: verdict.Nonlinear}}
		}
		done(result, nil)
	}
	return nil
}

// TestShortRow: a chain that takes another whole number of cycles in a short row has both; its latency is the long
// row's.
func TestShortRow(t *testing.T) {
	for _, c := range []struct {
		name      string
		core      filling
		latencies string
	}{
		{"a scheduler that fills", filling{1, 2, 2}, "2 to 1: 2.00; 2 to 1 in a short row: 1.00"},
		{"the same", filling{2.01, 2, 2}, "2 to 1: 2.00"},
		{"the start of a row", filling{1.4, 2, 2}, "2 to 1: 2.00"},
		{"no one time in a short row", filling{0, 3, 2}, "2 to 1: 3.00"},
		{"a cycle", filling{2, 1, 1}, "2 to 1: 1.00"},
	} {
		rows := require.Get(Measure(context.Background(), []measure.Measurer{c.core}, []Plan{planOf(t, "pshufd xmm, xmm, i8")}, 0, 0, nil))(t)
		for i := range rows[0].All {
			if m := &rows[0].All[i]; m.Kind == Latency && m.Cycles() != c.core.long {
				t.Errorf("%s: the row has %v, want the long row's", c.name, m.Value)
			}
		}
		require.Equal(t, c.name, c.latencies, rows[0].List(Latency, OtherLatency))
	}
}
