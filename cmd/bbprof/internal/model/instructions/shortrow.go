package instructions

import (
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

// shortRow is the note of a chain in a row that does not fill the schedulers. On Zen 5 most one-cycle vector operations
// take two cycles in a row that does: 1.00 up to 32 of them, 2.00 from 64 on (docs/instructions.md, "Zen 5").
const shortRow = "in a short row"

// inShortRow repeats chains of a cycle and a half or more in rows of 16 and 32.
func (j *job) inShortRow() (probe Probe, ok bool) {
	const fast, short, long = 1.5, 16, 32 // cycles, instructions
	insts, err := asm.Decode(j.probe.Code)
	links := len(insts)
	if j.probe.Kind != Latency || j.plan < 0 || err != nil || links != j.probe.Links || j.result.Status != profiler.OK ||
		j.repeat != inRow || j.result.Cycles < fast*float64(links) {
		return probe, false
	}
	probe = j.probe
	probe.Kind, probe.Note = OtherLatency, shortRow
	probe.Unroll = &unroll.Factors{Short: short / links, Long: long / links}
	return probe, probe.Unroll.Short > 0
}

// unlikeLong keeps short-row chains that take a whole number of cycles, which the start of a row never does, and differ
// from the long row.
func unlikeLong(all []Measurement) (kept []Measurement) {
	const same = 0.02 // share: most intervals are ± 0.5 %
	long := map[string]float64{}
	for i := range all {
		if m := &all[i]; m.ok() && m.Kind == Latency {
			long[m.Pair] = m.Cycles()
		}
	}
	for i := range all {
		m := &all[i]
		if m.Kind != OtherLatency || m.Note != shortRow || m.ok() && whole(m.Cycles()) && math.Abs(m.Cycles()-long[m.Pair]) > same*long[m.Pair] {
			kept = append(kept, *m)
		}
	}
	return kept
}
