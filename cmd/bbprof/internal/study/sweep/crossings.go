package sweep

import (
	"math"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
)

// crossings tells what stands across a boundary at each offset of the first copy, per iteration: instructions across a
// line, and the branch, as one with the instruction that it may fuse with, across a line or across or up to one of 32 bytes, as
// Skylake's op cache does not hold it (Intel, "Mitigations for Jump Conditional Code Erratum", 2.1).
func crossings(code []byte, offsets []int, results []profiler.Result) []Column {
	all := []Column{{Name: "line_crossings"}, {Name: "branch_line_crossings"}, {Name: "branch_32_crossings"}}
	insts, err := asm.Decode(code)
	branch := len(code)
	if _, ok := asm.TrailingBranch(insts); ok {
		last := len(insts) - 1
		if last > 0 && asm.LeastSlots(insts[last-1:], false) == 1 {
			last--
		}
		branch = insts[last].Offset
	}
	for i, r := range results {
		copies := r.UnrollLong
		if r.Loop != nil {
			if copies = r.Loop.CopiesLong; copies > 1 && branch < len(code) {
				copies = 0 // only the last has its branch
			}
		}
		var found [3]float64
		for c := range copies {
			start := offsets[i] + c*len(code)
			for _, in := range insts {
				found[0] += crossing(start+in.Offset, start+in.Offset+len(in.Bytes)-1, 64)
			}
			if branch < len(code) {
				found[1] += crossing(start+branch, start+len(code)-1, 64)
				found[2] += crossing(start+branch, start+len(code), 32)
			}
		}
		for j, n := range found {
			n /= float64(copies)
			if err != nil || copies == 0 {
				n = math.NaN()
			}
			all[j].Values = append(all[j].Values, n)
		}
	}
	return all
}

// crossing is 1 if two addresses are in different blocks of so many bytes, else 0.
func crossing(first, last, size int) float64 {
	if first/size != last/size {
		return 1
	}
	return 0
}
