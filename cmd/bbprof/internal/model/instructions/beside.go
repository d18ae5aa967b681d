package instructions

import (
	"fmt"
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
)

// fillers each keep one of the two units of 512-bit operations busy, so that a chain beside them uses the other: on
// Intel's server cores port 5, and ports 0 and 1 joined (uops.info has each on that alone).
var fillers = []string{"vpermd zmm, zmm, zmm", "vpslld zmm, zmm, i8"}

// besides are chains that tell whether a 512-bit latency is a mean of two units': beside each kind of filler, in numbers
// that nearly fill a unit. The time through one unit is unknown, so several numbers are tried: half a cycle below each
// whole number from half of the latency up.
func (j *job) besides() (list []Probe) {
	const shortest = 2.5 // cycles; below, one filler is too coarse
	latency := j.result.Cycles / float64(j.probe.Links)
	insts, err := asm.Decode(j.probe.Code)
	if j.probe.Kind != Latency || j.plan < 0 || j.bits != 512 || err != nil || len(insts) != j.probe.Links || latency < shortest ||
		j.result.Status != profiler.OK || j.repeat != inRow {
		return nil
	}
	for _, filler := range fillers {
		if asm.FormNamed(filler) == nil {
			continue
		}
		for n := int(math.Ceil(latency / 2)); float64(n) < latency+0.9; n++ {
			list = append(list, j.beside(insts, filler, n))
		}
	}
	return list
}

// beside makes a chain of two instructions, with n fillers after the first and one fewer after the second.
func (j *job) beside(insts []asm.Inst, filler string, n int) Probe {
	const destinations, first, source = 8, 16, 28 // registers of no chain
	var code body
	filled := 0
	for link := range 2 {
		in := &insts[link%len(insts)]
		code.code = append(code.code, j.probe.Code[in.Offset:in.Offset+len(in.Bytes)]...)
		for range n - link {
			last := int64(1) // the shift count
			if filler == fillers[0] {
				last = source + 1
			}
			code.named(filler, int64(first+filled%destinations), source, last)
			filled++
		}
	}
	return Probe{Kind: Beside, Pair: j.probe.Pair, Note: filler, Code: code.code, Links: 2, Fill: float64(filled) / 2, Set: j.probe.Set, err: code.err}
}

// units keeps the chains through one unit that differ from the chain alone: per pair and filler the one with the most
// fillers that takes longer than they do, a whole number of cycles, at most the chain alone rounded up.
func units(all []Measurement) (kept []Measurement) {
	const longer, same = 1.03, 0.02 // shares: most intervals are ± 0.5 %
	alone, one := map[string]float64{}, map[string]*Measurement{}
	for i := range all {
		if m := &all[i]; m.ok() && m.Kind == Latency {
			alone[m.Pair] = m.Cycles()
		}
	}
	for i := range all {
		m := &all[i]
		pair, c := alone[m.Pair], m.Cycles()
		if m.Kind != Beside || !m.ok() || c < longer*m.Fill || !whole(c) || math.Abs(c-pair) <= same*pair || c > math.Ceil(pair*(1-off))*(1+off) {
			continue
		}
		if best := one[m.Pair+m.Note]; best == nil || m.Fill > best.Fill {
			one[m.Pair+m.Note] = m
		}
	}
	for i := range all {
		if m := &all[i]; m.Kind != Beside || one[m.Pair+m.Note] == m {
			kept = append(kept, *m)
		}
	}
	return kept
}

// whole reports whether cycles are a whole number.
func whole(cycles float64) bool { return math.Abs(cycles-math.Round(cycles)) <= off*cycles }

// besideText names a chain beside fillers in column latencies.
func (m *Measurement) besideText() string {
	return fmt.Sprintf("%s beside %g %s", m.Pair, m.Fill, m.Note)
}
