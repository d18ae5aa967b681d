package timing

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
)

// TestWarmAtPhase: both images warm up at the rename phase of their window, and an image whose first run is timed does not run before.
func TestWarmAtPhase(t *testing.T) {
	const short, long, first = 0x1000, 0x2000, 0x3000
	timer := &TSC{samplers: map[int]sampler{128: {sample: 0x4000}}}
	list, _ := timer.list(runPlan{rows: windowRows, pairs: []pairPlan{
		{nil, image{entry: short, warm: 1, runs: 1}, image{entry: long, warm: 1, runs: 1}, []int{2, 5}},
		{nil, image{entry: first, runs: 1}, image{entry: long, warm: 1, runs: 1}, []int{3}},
	}}, output{})
	at := func(from int, op tracee.Op) int {
		i := slices.Index(list[from:], op)
		if i < 0 {
			return len(list)
		}
		return from + i
	}
	from := 0
	for n, offset := range []uint64{2, 5, 3} {
		runs := [][2]uint64{{warmShort, warmLong}, {offsetRuns, offsetRuns}, {0, warmLong}}[n]
		phase := at(from, tracee.Put(layout.SlotDispatch, offset))
		sample := at(phase, tracee.Run(0x4000, 0))
		warm := []int{at(from, tracee.Run(short, runs[0])), at(from, tracee.Run(long, runs[1]))}
		if offset == 3 {
			warm = warm[1:]
		}
		for i, run := range warm {
			if run < phase || run > sample {
				t.Errorf("phase %d: image %d warms up at step %d, not between its phase at %d and its sample at %d", offset, i, run, phase, sample)
			}
		}
		from = sample + 1
	}
	if slices.ContainsFunc([]uint64{1, offsetRuns, warmShort}, func(n uint64) bool { return slices.Contains(list, tracee.Run(first, n)) }) {
		t.Error("an image whose first run is timed runs before")
	}
}
