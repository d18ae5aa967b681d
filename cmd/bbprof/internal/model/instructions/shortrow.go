package instructions

import (
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

// inShortRow repeats chains of a cycle and a half or more in rows of 16 and 32, which do not fill the schedulers. On Zen
// 5 most one-cycle vector operations take two cycles in a row that does: 1.00 up to 32 of them, 2.00 from 64 on
// (docs/instructions.md, "Zen 5").
func (j *job) inShortRow() (probe Probe, ok bool) {
	const fast, short, long = 1.5, 16, 32 // cycles, instructions
	insts, err := asm.Decode(j.probe.Code)
	links := len(insts)
	if j.probe.Kind != Latency || j.plan < 0 || err != nil || links != j.probe.Links || j.result.Status != profiler.OK ||
		j.repeat != inRow || j.result.Cycles < fast*float64(links) {
		return probe, false
	}
	probe = j.probe
	probe.Kind, probe.Note = OtherLatency, "in a short row"
	probe.Unroll = &unroll.Factors{Short: short / links, Long: long / links}
	return probe, probe.Unroll.Short > 0
}

// unlikeLong reports whether a chain in a short row takes a whole number of cycles, which the start of a row never does,
// and another one than in a long row.
func (r *Row) unlikeLong(m *Measurement) bool {
	const same = 0.02 // share: most intervals are ± 0.5 %
	long := 0.0
	for _, o := range r.All {
		if o.ok() && o.Kind == Latency && o.Pair == m.Pair {
			long = o.Cycles()
		}
	}
	return m.ok() && whole(m.Cycles()) && math.Abs(m.Cycles()-long) > same*long
}
