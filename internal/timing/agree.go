package timing

import (
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/verdict"
)

// The rule of the BHive paper (IISWC 2019, section 3): time each image 16 times and accept its time
// if at least 8 timings are clean and identical to the cycle. TSC ticks are not cycles, so the TSC
// timer uses windows and a prediction interval instead.
const (
	PaperTimings   = 16
	PaperIdentical = 8
)

// Timing holds one run of an image between two readings of the counters.
type Timing struct {
	Cycles uint64
	// Dirty names the forbidden event that was counted, if any: l1d_miss, l1i_miss, misaligned or context_switch.
	Dirty verdict.Reason
}

// Agreement is the most frequent clean time of an image.
type Agreement struct {
	Cycles    uint64
	Clean     int
	Identical int
}

// Agree applies the paper's rule to the timings of one image. It accepts the most frequent clean
// count (the lowest of equally frequent ones) if at least least timings have it.
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

func cyclesOf(timings []Timing) (cycles []uint64) {
	for _, t := range timings {
		if t.Dirty == "" {
			cycles = append(cycles, t.Cycles)
		}
	}
	slices.Sort(cycles)
	return cycles
}
