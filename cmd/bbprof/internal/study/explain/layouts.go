package explain

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
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
func (q *question) renamePhase() (test, error) {
	setup := q.setup
	setup.CodeOffset, setup.LeadNops = nil, 0
	all, err := q.measure(setup)
	if err != nil {
		return test{}, err
	}
	apart, width := differ(all.LayoutCycles), q.base.Host.CPU.DispatchWidth
	here := fmt.Sprintf("%d layouts differ by %.1f %%", len(all.LayoutCycles), 100*apart)
	switch {
	case len(all.LayoutCycles) < fewestLayouts:
		return untested("", "not all layouts were measured"), nil
	case apart < stat.EffectShare:
		return absent("%s", here), nil
	case width == 0 || q.setup.Mode == profiler.Loop:
		return untested(here, "how many slots the core renames in a cycle is not known"), nil
	}
	var cycles []float64 // by the number of nops
	for n := range width {
		c, err := q.firstPhase(q.at(0, leastNops+n))
		if err != nil {
			return test{}, err
		}
		if c == 0 {
			return untested(here, "not all numbers of nops were measured"), nil
		}
		cycles = append(cycles, c)
	}
	slow, fast := leastNops+slices.Index(cycles, slices.Max(cycles)), leastNops+slices.Index(cycles, slices.Min(cycles))
	t := change(fmt.Sprintf("%s; %d instructions a copy, %d slots in a rename group", here, len(q.insts), width),
		fmt.Sprintf("%d nops before the copies instead of %d, in the same bytes", fast, slow), q.at(0, slow), q.at(0, fast))
	t.With.of, t.Without.of = firstPhase, firstPhase
	return t, nil
}

// firstPhase measures the cycles at the first rename phase, again while disturbed windows leave it out.
func (q *question) firstPhase(s profiler.Setup) (float64, error) {
	for range measure.Tries {
		r, err := q.measure(s)
		if c := firstPhase(r); err != nil || c > 0 {
			return c, err
		}
	}
	return 0, nil
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
