package timing

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
)

// TestChooseRuns lets the child choose the number of runs per timing from scripted run times.
func TestChooseRuns(t *testing.T) {
	const phases, searched, warm = 4, 4, 2
	wanted := harness.Runs{Ticks: 1000, Least: 6, Most: 64, Longest: 3000}
	b := bench(t)
	e := asm.NewEmitter(b.images)
	entry := harness.ChooseRuns(e, []int{phases - 2, phases - 1}, searched, wanted, b.child.Resume())
	copy(b.child.Code()[b.images-layout.Code:], e.Bytes())
	for _, c := range []struct {
		took [searched - 1]uint64 // ticks of each run but the first
		want uint64
	}{
		{[...]uint64{100, 100, 100}, 10},
		{[...]uint64{101, 100, 102}, 10}, // the fastest counts,
		{[...]uint64{99, 100, 101}, 11},  // first
		{[...]uint64{101, 102, 99}, 11},  // or last
		{[...]uint64{199, 199, 199}, 6},
		{[...]uint64{200, 200, 200}, 6}, // 5 fill Ticks
		{[...]uint64{599, 599, 599}, 6},
		{[...]uint64{600, 600, 600}, 5}, // and 5 Longest
		{[...]uint64{2999, 2999, 2999}, 2},
		{[...]uint64{3000, 3000, 3000}, 1},
		{[...]uint64{1 << 40, 1 << 40, 1 << 40}, 1},
		{[...]uint64{17, 17, 17}, 59},
		{[...]uint64{16, 16, 16}, 63},
		{[...]uint64{15, 15, 15}, 64},
		{[...]uint64{0, 0, 0}, 64},
	} {
		end := uint64(1 << 50)
		for left := searched; left > 0; left-- {
			b.child.SetWord(layout.Times+8*uint64(left), end)
			if left > 1 {
				end += c.took[searched-left]
			}
		}
		stop, err := b.child.Do([]tracee.Op{tracee.Run(entry, warm)}, runLimit)
		if err != nil || !stop.Done {
			t.Fatalf("%v: %+v, %v", c.took, stop, err)
		}
		require.Equal(t, c.took, c.want, b.child.Word(layout.SlotRuns))
		for phase := uint64(0); phase < phases; phase++ {
			at := layout.Phases + phase*layout.PhaseSize
			got := [2]uint64{b.child.Word(at + 8), b.child.Word(at + 16)}
			ahead := warm + uint64(harness.WarmFor(int(c.want)))
			if is := got == [...]uint64{ahead + c.want, c.want}; is != (phase >= phases-2) {
				t.Errorf("%v ticks: row %d has %d", c.took, phase, got)
			}
		}
	}
}
