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

// Speed is what some layouts of a block take.
type Speed struct {
	Cycles  float64 `json:"cycles"`  // per iteration, the mean over these layouts
	Share   float64 `json:"share"`   // of the layouts that were measured
	Layouts []int   `json:"layouts"` // by number (Options.At)
}

// LayoutCycles is what one layout takes.
type LayoutCycles struct {
	Layout int     `json:"layout"` // by number (Options.At)
	Cycles float64 `json:"cycles"` // per iteration
}

// Layouts is how many layouts a block is measured in.
const Layouts = timing.Layouts

// at is the one layout to time in, if there is one.
func (o Options) at() *timing.Layout {
	if o.At == nil {
		return nil
	}
	l := timing.Layout(*o.At)
	return &l
}

// speedsOf are the layouts of a block by speed, the fastest first.
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

// unsteady is the rejection of a block whose time does not repeat within a layout or, if it is to have
// one speed, between layouts.
func (j job) unsteady(t timing.Timed, speeds []Speed) *verdict.Rejection {
	e := t.Estimate
	if !timing.Steady(e) {
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(
			"%d windows give %.3f ± %.3f cycles, allowed are ± %.3f; windows of one layout are %.3f cycles apart (standard deviation)",
			len(t.Windows), e.Value, e.Half, timing.UnstableLimit(e), t.Design.Within)}
	}
	if e.Low() <= 0 {
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(
			"%d windows give %.3f ± %.3f cycles, an interval that reaches 0: no block takes that", len(t.Windows), e.Value, e.Half)}
	}
	for _, v := range speeds {
		if v.Cycles <= 0 {
			return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(
				"in %d of its layouts the shorter image takes longer than the longer one: %s", len(v.Layouts), tellSpeeds(speeds))}
		}
	}
	if j.Strict && len(speeds) > 1 {
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: "its time depends on the layout: " + tellSpeeds(speeds)}
	}
	return nil
}

// tellSpeeds names speeds and in how many layouts each holds.
func tellSpeeds(speeds []Speed) string {
	var s []string
	for _, v := range speeds {
		s = append(s, fmt.Sprintf("%.3f cycles in %d layouts", v.Cycles, len(v.Layouts)))
	}
	return strings.Join(s, ", ")
}

// Impossible is in which way cycles are fewer than a core can take, so that they are a mistake or a discovery.
type Impossible string

const (
	BelowDispatch Impossible = "below_dispatch" // than it takes to rename the instructions
	BelowLatency  Impossible = "below_latency"  // than the longest chain of registers takes
)

// impossibleShare is by how much cycles are below what the core can do before that is said: as much as selftest
// allows a known number to be off.
const impossibleShare = 0.015

// impossible says that cycles are fewer than the core needs to rename the instructions, each of which takes a slot
// at least, or than a chain through registers takes, if they are.
func (s *session) impossible(m *mapping.Mapped, t timing.Timed) (which Impossible, why string) {
	width := s.cpu.DispatchWidth
	slots, chain := float64(len(m.Insts))/float64(max(width, 1)), asm.LeastCycles(m.Insts)
	switch high := t.Estimate.High() / (1 - impossibleShare); {
	case high < chain:
		return BelowLatency, fmt.Sprintf("%.3f cycles are fewer than the %g that a chain through registers takes from one iteration to the next: a discovery, or the number is wrong",
			t.Estimate.Value, chain)
	case width != 0 && high < slots: // 0 is a core that is not known
		return BelowDispatch, fmt.Sprintf("%.3f cycles are fewer than the %.3f that %d instructions need on a core that renames %d a cycle: the core fuses some, or the number is wrong",
			t.Estimate.Value, slots, len(m.Insts), width)
	}
	return "", ""
}
