package profiler

import (
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/verdict"
)

// Impossible names the limit of the core that cycles are below: a mistake or a discovery.
type Impossible string

const (
	BelowDispatch Impossible = "below_dispatch" // of renaming the instructions
	BelowBranches Impossible = "below_branches" // of branches
	BelowMemory   Impossible = "below_memory"   // of loads or stores
	BelowLatency  Impossible = "below_latency"  // of the longest chain through registers
)

const (
	// Cycles that are impossibleShare below a limit of the core are reported: selftest allows the same deviation from a
	// known number.
	impossibleShare = 0.015
	// A single layout may be impossibleLayout below it: few windows tell of it.
	impossibleLayout = 0.1
)

// limit is the least number of cycles of an iteration, by one resource of the core.
type limit struct {
	which  Impossible
	cycles float64
	why    string
}

// limits lists what the core allows at most. Unknown rates set no limit.
func (s *session) limits(m *mapping.MappedBlock) (list []limit) {
	if m.Region != nil { // not all of it runs in each iteration
		return nil
	}
	add := func(which Impossible, n int, rate float64, format string) {
		if rate > 0 && n > 0 {
			c := float64(n) / rate
			list = append(list, limit{which, c, fmt.Sprintf("the %.3f that "+format, c, n, rate)})
		}
	}
	core := s.cpu
	insts := m.Insts
	loads, stores, branches := 0, 0, len(asm.InnerBranches(m.Ran))
	if m.Ran != nil {
		insts = m.Ran
	}
	for i := range insts {
		for _, mem := range insts[i].Mem {
			if mem.Repeat == asm.Once && !mem.CanBeSuppressed() {
				loads, stores = loads+count(mem.Read), stores+count(mem.Write)
			}
		}
	}
	if _, ends := asm.TrailingBranch(m.Insts); ends {
		branches++
	}
	if m.Loop != nil && m.Loop.Exit != nil && m.Loop.Bodies.Long > 1 {
		insts = asm.WithoutBranch(insts) // the last copy has it
	}
	add(BelowDispatch, asm.LeastSlots(insts, core.FusesNops), float64(core.DispatchWidth), "%d instructions and fused pairs need on a core that renames %g a cycle")
	if m.Loop != nil && m.Loop.Exit != nil {
		branches = 0
		if core.BranchesPerCycle > 0 {
			add(BelowBranches, 1, float64(m.Loop.Bodies.Long), "%d taken branch needs in each turn of %g copies")
		}
	}
	add(BelowBranches, branches, float64(core.BranchesPerCycle), "%d branch needs on a core that executes %g a cycle")
	if m.Forwards.Fed == 0 { // else some loads may be none
		add(BelowMemory, loads, float64(core.LoadsPerCycle), "%d loads need on a core that executes %g a cycle")
		add(BelowMemory, stores, float64(core.StoresPerCycle), "%d stores need on a core that executes %g a cycle")
	}
	if chain := asm.LeastCycles(insts); chain > 0 {
		list = append(list, limit{BelowLatency, chain, fmt.Sprintf("the %g that a chain through registers takes from one iteration to the next", chain)})
	}
	return list
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// impossible returns the limit of the core that the whole interval or one of the layouts is below, and the rejection that says so; nil if there
// is none.
func (s *session) impossible(m *mapping.MappedBlock, t timing.Timed) (which Impossible, rejection *verdict.Rejection) {
	for _, l := range s.limits(m) {
		if t.Estimate.High() < (1-impossibleShare)*l.cycles {
			return l.which, &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf("%.3f cycles are fewer than %s: a mistake or a discovery",
				t.Estimate.Value, l.why)}
		}
		for _, c := range t.Design.Cells {
			if c.Mean < (1-impossibleLayout)*l.cycles {
				return l.which, &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf("in layout %d %.3f cycles are fewer than %s: its two images "+
					"ran in different states", c.Number, c.Mean, l.why)}
			}
		}
	}
	return "", nil
}
