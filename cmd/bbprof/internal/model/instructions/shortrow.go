package instructions

import (
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

// shortRow is the note of a chain in a row that does not fill the schedulers. On Zen 5 most vector operations of one
// cycle take two in a row that does: 1.00 up to 32 of them, and 2.00 from 64 on (docs/instructions.md, "Zen 5").
const shortRow = "in a short row"

// inShortRow is a chain of instructions that take a cycle and a half or more, again in rows of 16 and 32.
func (j *job) inShortRow() []Probe {
	const fast, short, long = 1.5, 16, 32 // cycles, instructions
	insts, err := asm.Decode(j.probe.Code)
	links := len(insts)
	if j.probe.Kind != Latency || j.plan < 0 || err != nil || links != j.probe.Links || j.result.Status != profiler.OK ||
		j.repeat != inRow || j.result.Cycles < fast*float64(links) {
		return nil
	}
	probe := j.probe
	probe.Kind, probe.Note = OtherLatency, shortRow
	probe.Unroll = &unroll.Factors{Short: short / links, Long: long / links}
	if probe.Unroll.Short == 0 {
		return nil
	}
	return []Probe{probe}
}

// unlikeLong keeps of the chains in short rows those that take a whole number of cycles, which no start of a row does,
// and otherwise than in a long one.
func unlikeLong(all []Measured) (kept []Measured) {
	const same = 0.02 // as a share: most intervals are ± 0.5 %
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
