package explain

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// TestRenamePhase: on a made-up core what decides between layouts is confirmed, and nothing else.
func TestRenamePhase(t *testing.T) {
	odd := func(n int) float64 { return float64(n % 2) }
	high := func(at int) float64 { return float64(at / 32) }
	for _, c := range []struct {
		name   string
		layout func(at, nops, offset int) float64
		causes []string
	}{
		{"no difference", func(int, int, int) float64 { return 0 }, nil},
		{"1 %", func(_, nops, _ int) float64 { return 0.1 * odd(nops) }, nil},
		{"two slots a copy", func(_, nops, offset int) float64 { return odd(nops + offset) }, []string{"rename phase"}},
		{"three", func(_, nops, offset int) float64 { return float64((nops + offset) % 3) }, []string{"rename phase"}},
		{"a slow slot of six", func(_, nops, offset int) float64 { return float64((nops + offset) % 6 / 5) }, []string{"rename phase"}},
		{"place", func(at, _, _ int) float64 { return high(at) }, []string{"code alignment"}},
		{"place and slots", func(at, nops, offset int) float64 { return high(at) + 0.7*odd(nops+offset) }, []string{"code alignment", "rename phase"}},
	} {
		for seed := range uint64(5) {
			m := &core{layout: c.layout, noise: 0.001, random: rand.New(rand.NewPCG(seed, 2))}
			e := require.Get(Explain(context.Background(), m, unhex(t, pair), pointers(0x10000, 0x10100, 1), plan(seed)))(t)
			if got := experiment.Confirmed(e.Findings); !slices.Equal(got, c.causes) {
				t.Errorf("%s, seed %d: causes %q, want %q: %+v", c.name, seed, got, c.causes, e.Findings)
			}
		}
	}
}

// TestDiffer: two layouts at either end do not count.
func TestDiffer(t *testing.T) {
	of := func(cycles ...float64) (all []profiler.LayoutCycles) {
		for i, c := range cycles {
			all = append(all, profiler.LayoutCycles{Layout: i, Cycles: c})
		}
		return all
	}
	for _, c := range []struct {
		cycles []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{1, 2, 3, 4}, 0},
		{[]float64{9, 1, 1, 2, 9, 3}, 0.5},
		{[]float64{9, 1, 2, 2, 9, 3}, 0.5},
		{[]float64{0, 0, 0, 1, 1, 1}, 0},
	} {
		require.Equal(t, c.cycles, c.want, differ(of(c.cycles...)))
	}
}
