package profiler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/verdict"
)

// Speed is the time of a group of layouts of a block.
type Speed struct {
	Cycles  float64 `json:"cycles"`  // per iteration, the mean over these layouts
	Share   float64 `json:"share"`   // of all measured layouts
	Layouts []int   `json:"layouts"` // numbers, as of Options.Layout
}

// LayoutCycles is the time of one layout.
type LayoutCycles struct {
	Layout int     `json:"layout"` // number, as of Options.Layout
	Cycles float64 `json:"cycles"` // per iteration
}

// Layouts is the number of layouts of the design.
const Layouts = timing.Layouts

// onlyLayout returns the only layout to time in, if any.
func (o Options) onlyLayout() *timing.Layout {
	if o.Layout == nil {
		return nil
	}
	l := timing.Layout(*o.Layout)
	return &l
}

// speedsOf groups the layouts of a block by speed, the fastest first.
func speedsOf(t timing.Timed) (speeds []Speed) {
	for _, cells := range t.Speeds {
		s := Speed{Share: float64(len(cells)) / float64(len(t.Design.Cells))}
		for _, c := range cells {
			s.Cycles += c.Mean / float64(len(cells))
			s.Layouts = append(s.Layouts, c.Number)
		}
		slices.Sort(s.Layouts)
		speeds = append(speeds, s)
	}
	if len(speeds) == 1 {
		speeds[0].Cycles = t.Estimate.Value
	}
	return speeds
}

// unstable returns the rejection of a block whose time does not repeat within a layout or, with Strict,
// between layouts.
func (j job) unstable(t timing.Timed, speeds []Speed) *verdict.Rejection {
	reject := func(format string, args ...any) *verdict.Rejection {
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(format, args...)}
	}
	e := t.Estimate
	if !timing.Steady(e) {
		return reject("%d windows give %.3f ± %.3f cycles, allowed are ± %.3f; windows of one layout are %.3f cycles apart (standard deviation)",
			len(t.Windows), e.Value, e.Half, timing.UnstableLimit(e), t.Design.Within)
	}
	if e.Low() <= 0 {
		return reject("%d windows give %.3f ± %.3f cycles, an interval that reaches 0: no block takes that", len(t.Windows), e.Value, e.Half)
	}
	for _, v := range speeds {
		if v.Cycles <= 0 {
			return reject("in %d of its layouts the shorter image takes longer than the longer one: %s", len(v.Layouts), describeSpeeds(speeds))
		}
	}
	if j.Strict && len(speeds) > 1 {
		return reject("its time depends on the layout: %s", describeSpeeds(speeds))
	}
	return nil
}

// describeSpeeds describes speeds with their numbers of layouts.
func describeSpeeds(speeds []Speed) string {
	var s []string
	for _, v := range speeds {
		s = append(s, fmt.Sprintf("%.3f cycles in %d layouts", v.Cycles, len(v.Layouts)))
	}
	return strings.Join(s, ", ")
}

// Impossible names the limit of the core that cycles are below: a mistake or a discovery.
type Impossible string

const (
	BelowDispatch Impossible = "below_dispatch" // of renaming the instructions
	BelowLatency  Impossible = "below_latency"  // of the longest chain through registers
)

// Cycles that are impossibleShare below a limit of the core are reported: selftest allows the same deviation from a
// known number.
const impossibleShare = 0.015

// impossible reports whether cycles are below the time to rename the instructions, each of which takes at least one
// slot, or below the latency of a chain through registers.
func (s *session) impossible(m *mapping.MappedBlock, t timing.Timed) (which Impossible, why string) {
	width := s.cpu.DispatchWidth
	slots, chain := float64(len(m.Insts))/float64(max(width, 1)), asm.LeastCycles(m.Insts)
	switch high := t.Estimate.High() / (1 - impossibleShare); {
	case high < chain:
		return BelowLatency, fmt.Sprintf("%.3f cycles are fewer than the %g that a chain through registers takes from one iteration to the next: "+
			"a discovery, or the number is wrong", t.Estimate.Value, chain)
	case width != 0 && high < slots: // 0: unknown core
		return BelowDispatch, fmt.Sprintf("%.3f cycles are fewer than the %.3f that %d instructions need on a core that renames %d a cycle: "+
			"the core fuses some, or the number is wrong", t.Estimate.Value, slots, len(m.Insts), width)
	}
	return "", ""
}
