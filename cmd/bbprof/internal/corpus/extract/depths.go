package extract

import (
	"slices"

	"github.com/bbprof/bbprof/asm"
)

// depths returns, by offset, how many natural loops each block of the function is in. A natural loop is a block that
// dominates a jump back to it, and all blocks that reach the jump without passing that block. A block without a
// direct predecessor is taken as a target of each indirect jump, such as a case of a switch, or else as an entry.
func (w *walker) depths() map[int]int {
	var blocks, indirect []int
	to, from := map[int][]int{}, map[int][]int{}
	for start := range w.cut {
		if w.marks[start]&(markStart|markLeader) != markStart|markLeader {
			continue
		}
		blocks = append(blocks, start)
		edge := func(b int) bool {
			leads := b >= 0 && b < w.cut && w.marks[b]&markLeader != 0
			if leads {
				to[start], from[b] = append(to[start], b), append(from[b], start)
			}
			return leads
		}
		for at := start; ; {
			next := at + int(w.length[at])
			if w.flow[at] == asm.FlowBranch || w.flow[at] == asm.FlowJump {
				s, _ := asm.StepOver(w.code[at:next])
				edge(next + int(s.Target))
			}
			if w.flow[at] == asm.FlowJumpIndirect {
				indirect = append(indirect, start)
			}
			if w.flow[at].Ends() || edge(next) || next >= w.cut || w.marks[next]&markStart == 0 {
				break
			}
			at = next
		}
	}
	// reach follows edges, but not past a block.
	reach := func(edges map[int][]int, past int, work ...int) map[int]bool {
		seen := map[int]bool{past: true}
		for len(work) > 0 {
			b := work[len(work)-1]
			if work = work[:len(work)-1]; !seen[b] {
				seen[b] = true
				work = append(work, edges[b]...)
			}
		}
		return seen
	}
	entries := slices.DeleteFunc(slices.Clone(blocks), func(b int) bool { return b > 0 && len(from[b]) > 0 })
	for _, b := range entries {
		if b > 0 {
			from[b] = indirect
			for _, jump := range indirect {
				to[jump] = append(to[jump], b)
			}
		}
	}
	if len(indirect) > 0 {
		entries = entries[:1]
	}
	depths := map[int]int{}
	for _, head := range blocks {
		back := slices.DeleteFunc(slices.Clone(from[head]), func(b int) bool { return b < head })
		if len(back) == 0 {
			continue
		}
		others := reach(to, head, slices.Clone(entries)...)
		if back = slices.DeleteFunc(back, func(b int) bool { return b != head && others[b] }); len(back) > 0 {
			for b := range reach(from, head, back...) {
				depths[b]++
			}
		}
	}
	return depths
}
