package timing

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/verdict"
)

// The rule of the BHive paper (IISWC 2019, section 3): each image is timed 16 times, and its time
// counts if at least 8 of the timings are clean and identical to the cycle. On the TSC, whose
// ticks are no cycles, windows and a prediction interval stand in for it.
const (
	PaperTimings   = 16
	PaperIdentical = 8
)

// Timing is one run of an image between two readings of the counters.
type Timing struct {
	Cycles uint64
	// Dirty is what was counted that must not happen, "" if nothing was: l1d_miss, l1i_miss,
	// misaligned or context_switch.
	Dirty verdict.Reason
}

// Agreement is what timings agree on.
type Agreement struct {
	Cycles    uint64 // of those that are clean and identical
	Clean     int
	Identical int
}

// Agree holds the paper's rule against the timings of one image: the most frequent count among
// the clean ones counts if at least least have it; of equally frequent ones the lowest.
func Agree(timings []Timing, least int) (a Agreement, rejection *verdict.Rejection) {
	times, dirty := map[uint64]int{}, map[verdict.Reason]int{}
	for _, t := range timings {
		if t.Dirty != "" {
			dirty[t.Dirty]++
			continue
		}
		a.Clean++
		times[t.Cycles]++
	}
	for cycles, n := range times {
		if n > a.Identical || n == a.Identical && cycles < a.Cycles {
			a.Cycles, a.Identical = cycles, n
		}
	}
	switch {
	case a.Clean < least:
		reason := verdict.Unstable // no timings at all
		for r, n := range dirty {
			if n > dirty[reason] || n == dirty[reason] && r < reason {
				reason = r
			}
		}
		return a, &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf(
			"only %d of %d timings are clean, %d are needed; %s was counted in %d of the others",
			a.Clean, len(timings), least, reason, dirty[reason])}
	case a.Identical < least:
		return a, &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(
			"only %d of %d clean timings agree to the cycle, on %d, and %d are needed; all of them: %v",
			a.Identical, a.Clean, a.Cycles, least, cyclesOf(timings))}
	}
	return a, nil
}

// cyclesOf are the clean timings' cycles, ascending.
func cyclesOf(timings []Timing) (cycles []uint64) {
	for _, t := range timings {
		if t.Dirty == "" {
			cycles = append(cycles, t.Cycles)
		}
	}
	slices.Sort(cycles)
	return cycles
}
