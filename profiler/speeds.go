package profiler

import (
	"fmt"
	"slices"
	"strings"

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

// Images may run in different states in one window of mixedShare.
const mixedShare = 8

// unstable returns the rejection of a block whose time does not repeat within a layout or, with Strict,
// between layouts.
func (j job) unstable(t timing.Timed, speeds []Speed) *verdict.Rejection {
	reject := func(format string, args ...any) *verdict.Rejection {
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(format, args...)}
	}
	e := t.Estimate
	if n := len(t.Windows); t.Mixed > n/mixedShare {
		return reject("in %d of %d windows the images ran in different states: what one iteration takes changes from start to start", t.Mixed, n)
	}
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
		r := reject("its time depends on the layout: %s", describeSpeeds(speeds))
		r.Remedy = "-layout N measures in one layout alone (-v lists them); without -strict the mean over all is the answer, where it repeats"
		return r
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
