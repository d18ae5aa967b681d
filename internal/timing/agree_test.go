package timing

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/verdict"
)

// timings returns n timings of each count, in that order.
func timings(pairs ...any) (all []Timing) {
	for i := 0; i < len(pairs); i += 2 {
		timing := Timing{Cycles: 100}
		if cycles, clean := pairs[i+1].(int); clean {
			timing.Cycles = uint64(cycles)
		} else {
			timing.Dirty = pairs[i+1].(verdict.Reason)
		}
		all = append(all, slices.Repeat([]Timing{timing}, pairs[i].(int))...)
	}
	return all
}

// The paper's rule: 8 clean identical timings of 16, and not 7.
func TestPaperRule(t *testing.T) {
	for _, c := range []struct {
		name    string
		timings []Timing
		want    verdict.Reason // "" accepted
		cycles  uint64
		clean   int
		same    int
	}{
		{"all identical", timings(16, 100), "", 100, 16, 16},
		{"8 identical, 8 scattered", timings(8, 100, 1, 101, 1, 102, 1, 103, 1, 104, 1, 105, 1, 106, 1, 107, 1, 108), "", 100, 16, 8},
		{"7 identical, 9 scattered", timings(7, 100, 1, 101, 1, 102, 1, 103, 1, 104, 1, 105, 1, 106, 1, 107, 1, 108, 1, 109), verdict.Unstable, 100, 16, 7},
		{"8 clean, all identical", timings(8, 100, 8, verdict.L1DMiss), "", 100, 8, 8},
		{"7 clean", timings(7, 100, 9, verdict.L1DMiss), verdict.L1DMiss, 100, 7, 7},
		{"8 clean, 7 identical", timings(7, 100, 1, 101, 8, verdict.L1IMiss), verdict.Unstable, 100, 8, 7},
		{"8 and 8", timings(8, 101, 8, 100), "", 100, 16, 8},
		{"identical, but none clean", timings(16, verdict.Misaligned), verdict.Misaligned, 0, 0, 0},
		{"switched", timings(16, verdict.ContextSwitch), verdict.ContextSwitch, 0, 0, 0},
		{"the most frequent reason", timings(4, 100, 5, verdict.L1IMiss, 7, verdict.L1DMiss), verdict.L1DMiss, 100, 4, 4},
		{"none", nil, verdict.Unstable, 0, 0, 0},
	} {
		a, rejection := Agree(c.timings, PaperIdentical)
		var got verdict.Reason
		if rejection != nil {
			got = rejection.Reason
		}
		if got != c.want || a != (Agreement{c.cycles, c.clean, c.same}) {
			t.Errorf("%s: %q, %+v, want %q", c.name, got, a, c.want)
		}
	}
	for _, clean := range []int{3, 4} { // relaxed by a flag
		if _, rejection := Agree(timings(clean, 100, 16-clean, verdict.L1DMiss), 4); (rejection == nil) != (clean == 4) {
			t.Errorf("%d pass where 4 are needed: %v", clean, rejection)
		}
	}
}
