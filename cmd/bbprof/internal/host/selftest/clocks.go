package selftest

import "math"

// Comparison is one block's time by either clock, in core cycles per iteration.
type Comparison struct {
	Text  string  `json:"text"`
	Hex   string  `json:"hex"`
	Perf  float64 `json:"perf"`
	TSC   float64 `json:"tsc"`
	Agree bool    `json:"agree"`
}

// CompareClocks holds what hardware counters say against what the time-stamp counter says of the
// same blocks, as far as both could measure them. They agree within what a measurement may be
// off a known answer, or within both intervals.
func CompareClocks(perf, tsc []Outcome) (all []Comparison) {
	byHex := map[string]Outcome{}
	for _, o := range tsc {
		byHex[o.Hex] = o
	}
	for _, p := range perf {
		t, ok := byHex[p.Hex]
		if !ok || p.Cycles == 0 || t.Cycles == 0 {
			continue
		}
		apart := math.Abs(p.Cycles - t.Cycles)
		within := math.Max(tolerance(t.Cycles), (p.CIHigh-p.CILow+t.CIHigh-t.CILow)/2)
		all = append(all, Comparison{p.Text, p.Hex, p.Cycles, t.Cycles, apart <= within})
	}
	return all
}
