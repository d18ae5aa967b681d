package profiler

import (
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
)

// Simulated is a CPU that is not there, for tests of packages above: what an iteration of the block
// takes, and how often the events that were asked for occur in it, a script says.
func Simulated(k *pmutest.Kernel, cycles func() uint64, occur func(pmu.Event) uint64) Options {
	return scripted(k, &simulation{
		block: func(events pmu.Pass, iterations int, t *timings) {
			t.say(137 + uint64(iterations)*cycles())
			for i, e := range events {
				if e.Role != pmu.Asked {
					continue
				}
				for j := range t.counts[i] {
					t.counts[i][j] = uint64(iterations) * occur(e)
				}
			}
		},
		chain: scriptedChains(1),
	})
}
