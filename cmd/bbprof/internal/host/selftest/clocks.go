package selftest

import "math"

type Comparison struct {
	Text  string  `json:"text"`
	Hex   string  `json:"hex"`
	Perf  float64 `json:"perf"`
	TSC   float64 `json:"tsc"`
	Agree bool    `json:"agree"`
}

// CompareClocks compares the times of the blocks that both hardware counters and the time-stamp counter
// measured. Two times agree within the tolerance of a known answer, or within both intervals.
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
