package invariants

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// flushes are the instructions that take a line out of L1D, or write it back, each time (SDM vol. 2). The block
// itself causes these misses, so no other state avoids them. Direct stores do so too, and do not combine.
var flushes = []string{"clflush", "clflushopt", "clwb", "movdiri"}

// L1DMiss counts the lines of each L1D set, bbprof's own in the same sets included, and infers from them that nothing
// is evicted. L1D is indexed by the address within a page and tagged by the physical one, so pages on one frame share
// their lines. Instructions that move lines otherwise are not modelled: nothing is inferred for them, and a block
// that flushes lines is rejected.
func L1DMiss(t Trace, core Core, own [page / line]int) Finding {
	if i := slices.IndexFunc(t.Insts, func(in asm.Inst) bool { return slices.Contains(flushes, in.Mnemonic) }); i >= 0 {
		return Finding{Rejection: &verdict.Rejection{Reason: verdict.L1DMiss, Inst: t.Insts[i].Verdict(i), Detail: fmt.Sprintf(
			"the block itself takes lines out of L1D or writes them back (%s): its time is that of the caches beyond L1D", t.Insts[i].Mnemonic)}}
	}
	if a, ok := t.evicted(); ok {
		return t.broken(verdict.L1DMiss, a, "the block itself takes this line out of L1D: it stores past the caches to it and accesses it otherwise too")
	}
	used := make([][page / line]bool, t.lastFrame()+1)
	lines, perSet, full := 0, own, -1
	for _, a := range t.Accesses {
		for addr := a.Addr &^ (line - 1); addr < a.Addr+uint64(a.Width); addr += line {
			set := addr & within / line
			if u := &used[t.frame(addr)][set]; !*u {
				*u = true
				lines++
				if perSet[set]++; perSet[set] == core.L1DWays+1 && full < 0 {
					full = a.Copy
				}
			}
		}
	}
	worst := slices.Max(perSet[:])
	if worst > core.L1DWays {
		return Finding{Copy: max(full, 0), Rejection: &verdict.Rejection{Reason: verdict.L1DMiss, Detail: fmt.Sprintf(
			"%d lines, bbprof's own included, share an L1D set of %d ways", worst, core.L1DWays)}}
	}
	if i := slices.IndexFunc(t.Insts, func(in asm.Inst) bool { return asm.StateOf([]asm.Inst{in}).CacheControl }); i >= 0 {
		return Finding{Evidence: Evidence{verdict.L1DMiss, Unchecked, fmt.Sprintf(
			"%s moves lines into or out of the caches beside what it accesses", t.Insts[i].Mnemonic)}}
	}
	return held(verdict.L1DMiss, "lines used: %d, frames: %d; the fullest set holds %d lines with bbprof's own, of %d ways",
		lines, len(t.frames()), worst, core.L1DWays)
}

// evicted finds an access to a line that the block also stores to past the caches. Each such store takes the line out
// of all caches (SDM vol. 1, 10.4.6.2), and the access fetches it from memory again, for hundreds of cycles a copy.
func (t Trace) evicted() (asm.Access, bool) {
	past := make([]bool, len(t.Insts))
	for i, in := range t.Insts {
		past[i] = strings.Contains(in.Mnemonic, "movnt") || in.Mnemonic == "maskmovq" || strings.HasSuffix(in.Mnemonic, "maskmovdqu")
	}
	if !slices.Contains(past, true) {
		return asm.Access{}, false
	}
	place := func(a asm.Access) [2]uint64 { return [2]uint64{uint64(t.frame(a.Addr)), a.Addr & within / line} }
	streamed := map[[2]uint64]bool{}
	streams := func(a asm.Access) bool { return past[a.Inst] && a.Write } // movntdqa is a load
	for _, a := range t.Accesses {
		if streams(a) {
			streamed[place(a)] = true
		}
	}
	for _, a := range t.Accesses {
		if !streams(a) && streamed[place(a)] {
			return a, true
		}
	}
	return asm.Access{}, false
}
