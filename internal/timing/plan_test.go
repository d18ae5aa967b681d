package timing

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// A child run has a limited number of windows, of the first placements that lack some. A placement that was
// mapped once is mapped again the next time.
func TestPlanRun(t *testing.T) {
	timer := &TSC{clock: clock.TSC{StepTicks: 1}, rate: clockRate{ticks: 1}}
	remap := tracee.UnmapAll(0)
	all := []placement{{remap: remap, mapped: true, missing: []int{0, 1, 2}}, {remap: remap}, {remap: remap, missing: []int{4, 5}}}
	for _, c := range []struct {
		most    int
		offsets [][]int
		remaps  []bool
	}{
		{2, [][]int{{0, 1}}, []bool{false}},
		{3, [][]int{{0, 1, 2}}, []bool{true}},
		{4, [][]int{{0, 1, 2}, {4}}, []bool{true, true}},
		{9, [][]int{{0, 1, 2}, {4, 5}}, []bool{true, true}},
	} {
		plan, of := timer.planRun(Plan{}, all, c.most, 0)
		var offsets [][]int
		var remaps []bool
		for _, p := range plan.pairs {
			offsets = append(offsets, p.offsets)
			remaps = append(remaps, len(p.setup) > 1) // more than the reset image
		}
		if d := cmp.Diff(c.offsets, offsets) + cmp.Diff(c.remaps, remaps); d != "" {
			t.Errorf("at most %d: %s", c.most, d)
		}
		if of[0] != &all[0] || len(of) > 1 && of[1] != &all[2] {
			t.Errorf("at most %d: not the placements that lack windows", c.most)
		}
	}
}

// Replicates, and checks of the midpoint, cycle through the places, unless the plan has one.
func TestPlaceOf(t *testing.T) {
	at := LayoutOf(2, 5)
	for _, c := range []struct {
		name string
		plan Plan
		want [Places + 1]int
	}{
		{"all", Plan{}, [...]int{0, 1, 2, 3, 0}},
		{"one place", Plan{OnePlace: true}, [...]int{0, 0, 0, 0, 0}},
		{"one layout", Plan{Layout: &at}, [...]int{2, 2, 2, 2, 2}},
	} {
		for n, want := range c.want {
			if got := c.plan.PlaceOf(n); got != want {
				t.Errorf("%s: replicate %d is at place %d, want %d", c.name, n, got, want)
			}
		}
	}
}

// Blocks do not share their missing offsets: each has its own slice.
func TestOffsetsAreNotShared(t *testing.T) {
	for _, offsets := range []func() []int{Offsets, Plan{}.MidpointOffsets} {
		want := offsets()
		clear(offsets())
		require.Equal(t, "it", want, offsets())
	}
}
