package timing

import (
	"fmt"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
)

// TestSamples times images with scripted clocks: run n of the short image takes 2n-1 ticks, and of the long one eight times as many.
// Each timing covers the last runs, and the time of one run is their core.
func TestSamples(t *testing.T) {
	const warm, runs = 2, 3
	b := bench(t)
	e := asm.NewEmitter(b.images)
	square := func(counter uint64, shift byte) image {
		entry := e.PC()
		harness.Epilogue(e, entry, func(e *asm.Emitter) {
			e.IncMem(counter)
			e.Load(asm.RAX, counter)
			e.Raw(0x48, 0x0f, 0xaf, 0xc0) // imul rax, rax
			e.Raw(0x48, 0xc1, 0xe0, shift)
		})
		return image{entry, warm, runs, 0}
	}
	b.CPU.SettlesAtOnce = false
	plan := runPlan{
		pairs:   []pairPlan{{nil, square(layout.Log, 0), square(layout.Log+8, 3), []int{0, 3}}},
		samples: 1, times: windowSamples, polls: windowPolls, idle: anyReading,
	}
	copy(b.child.Code()[b.images-layout.Code:], e.Bytes())
	got := require.Get(b.run(plan))(t)
	ran := [2]float64{}
	for i, ahead := range [][2]float64{{warmShort, warmLong}, {offsetRuns, offsetRuns}} {
		var sums, ones [2][]float64
		for range windowSamples {
			for image, ticks := range []float64{1, 8} {
				ran[image] += ahead[image] + warm + runs
				middle := 2*(ran[image]-1) - 1
				sums[image] = append(sums[image], runs*middle*ticks)
				ones[image] = append(ones[image], middle*ticks)
			}
			ahead = [2]float64{}
		}
		w := got.windows[i]
		images := w.columns[len(w.columns)-2:]
		require.Equal(t, fmt.Sprintf("window %d, all runs", i), [][]float64{sums[0], sums[1]}, images)
		require.Equal(t, fmt.Sprintf("window %d, one run", i), ones, w.perRun)
		if w.samples() != windowSamples || !w.complete {
			t.Errorf("window %d: %d samples", i, w.samples())
		}
	}
}
