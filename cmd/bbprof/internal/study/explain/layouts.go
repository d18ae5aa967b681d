package explain

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/profiler"
)

const (
	// fewestLayouts is how many layouts are measured if they all agree.
	fewestLayouts = profiler.Layouts / 2
	// leastNops is the least lead-in everywhere (profiler.Setup.LeadNops), rounded to a multiple of 6 and 2.
	leastNops = 18
)

// differ is the range of layouts without two at either end, as a share of the fastest.
func differ(layouts []profiler.LayoutCycles) float64 {
	const cut = 2
	var all []float64
	for _, l := range layouts {
		all = append(all, l.Cycles)
	}
	if slices.Sort(all); len(all) <= 2*cut || all[cut] <= 0 {
		return 0
	}
	return all[len(all)-1-cut]/all[cut] - 1
}

// renamePhase compares two numbers of nops before a first copy at the same address: the slowest and the fastest at one
// rename phase, with new measurements.
func (q *question) renamePhase() test {
	setup := q.setup
	setup.CodeOffset, setup.LeadNops = nil, 0
	layouts := q.measure(setup).LayoutCycles
	apart, width := differ(layouts), q.base.Host.CPU.DispatchWidth
	here := fmt.Sprintf("%d layouts differ by %.1f %%", len(layouts), 100*apart)
	switch {
	case len(layouts) < fewestLayouts:
		return untested("", "not all layouts were measured")
	case apart < stat.EffectShare:
		return absent("%s", here)
	case width == 0 || q.setup.Mode == profiler.Loop:
		return untested(here, "how many slots the core renames in a cycle is not known")
	}
	var cycles []float64 // by the number of nops
	for n := range width {
		c := q.firstPhase(q.at(0, leastNops+n))
		if c == 0 {
			return untested(here, "not all numbers of nops were measured")
		}
		cycles = append(cycles, c)
	}
	slow, fast := leastNops+slices.Index(cycles, slices.Max(cycles)), leastNops+slices.Index(cycles, slices.Min(cycles))
	t := change(fmt.Sprintf("%s; %d instructions a copy, %d slots in a rename group", here, len(q.insts), width),
		fmt.Sprintf("%d nops before the copies instead of %d, in the same bytes", fast, slow), q.at(0, slow), q.at(0, fast))
	t.With.of, t.Without.of = firstPhase, firstPhase
	return t
}

// firstPhase measures the cycles at the first rename phase, again while disturbed windows leave it out.
func (q *question) firstPhase(s profiler.Setup) (cycles float64) {
	for n := 0; n < pool.Tries && cycles == 0; n++ {
		cycles = firstPhase(q.measure(s))
	}
	return cycles
}

// firstPhase returns the cycles at the first rename phase, 0 if they were not measured.
func firstPhase(r profiler.Result) float64 {
	for _, l := range r.LayoutCycles {
		if timing.Layout(l.Layout).Offset() == 0 {
			return l.Cycles
		}
	}
	return 0
}
