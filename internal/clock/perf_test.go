package clock

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

func TestPerfDifferences(t *testing.T) {
	for _, c := range []struct {
		width    int
		from, to uint64
		want     uint64
	}{
		{48, 100, 350, 250},
		{48, 1<<48 - 1, 4, 5},                           // wraps around
		{48, 0xffff_8000_0000_0000, 0x0010, 1<<47 + 16}, // rdpmc does not extend the sign
		{40, 1<<40 - 1, 0, 1},
		{64, ^uint64(0), 1, 2},
	} {
		require.Equal(t, c, c.want, Perf{Width: c.width}.Difference(c.from, c.to))
	}
}

func TestCheckCycles(t *testing.T) {
	for _, c := range []struct {
		add, multiply, byTSC float64 // in cycles; the TSC has 0.7 ticks for an add
		ok                   bool
	}{
		{1, 3, 3, true}, {1, 4, 4, true}, {1.0049, 3, 3, true}, {0.9951, 3, 3, true}, {1, 3.014, 3, true}, {1, 3, 3.014, true},
		{1.0051, 3, 3, false}, {0.9949, 3, 3, false}, {1, 3.016, 3, false}, {1, 3, 3.016, false}, {1, 3, 2.984, false},
		{0.6, 1.8, 3, false}, {0.5, 3, 3, false}, {2, 6, 3, false}, {1.03, 3.09, 3, false}, {0, 0, 3, false}, {1, 3, 0, false},
	} {
		if got, ok := CheckCycles(Chained{taking(c.add), taking(c.multiply)}, Chained{taking(0.7), taking(0.7 * c.byTSC)}); ok != c.ok {
			t.Errorf("%+v: %+v, %v", c, got, ok)
		}
	}
}

// taking returns readings of chains whose instructions take this many ticks.
func taking(ticks float64) [][]float64 {
	return [][]float64{slices.Repeat([]float64{500}, 8), slices.Repeat([]float64{500 + ticks*chainCycles}, 8)}
}
