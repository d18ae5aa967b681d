package extract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/verdict"
)

// natural is a natural loop of a function: a block that dominates a jump back to it, and all blocks that reach the jump without passing that
// block.
type natural struct {
	head      int
	lo, hi    int // of its blocks
	blocks    map[int]bool
	innermost bool // it holds no other
	indirect  bool // it has an indirect jump
	calls     bool
}

// loops lists the function's natural loops by address, and how many of them each block is in, by offset.
func (w *walker) loops() (list []natural, depth map[int]int) {
	g := w.graph()
	for _, head := range g.heads() {
		latches := g.latches(head)
		if len(latches) == 0 {
			continue
		}
		loops := []natural{g.loop(head, latches...)}
		if len(loops[0].blocks) > 1 && slices.Contains(latches, head) { // a loop of one block within that of the other jumps
			loops = append(loops, g.loop(head, head))
		}
		list = append(list, slices.DeleteFunc(loops, func(l natural) bool {
			return head == 0 && l.calls && w.o.isGo // the way back from where Go's runtime has grown the stack
		})...)
	}
	depth = map[int]int{}
	for i := range list {
		for b := range list[i].blocks {
			depth[b]++
		}
	}
	for i := range list {
		l := &list[i]
		l.innermost = !slices.ContainsFunc(list, func(o natural) bool { return len(o.blocks) < len(l.blocks) && l.blocks[o.head] })
	}
	slices.SortFunc(list, func(a, b natural) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi)) })
	return list, depth
}

// graph is a function's control flow. A block is its offset.
type graph struct {
	blocks   []int
	entries  []int
	to, from map[int][]int
	end      map[int]int
	calls    map[int]bool
	indirect []int // blocks that end with an indirect jump
}

// graph finds the blocks and the edges between them. A block without a direct predecessor is taken as a target of each
// indirect jump, such as a case of a switch, or else as an entry.
func (w *walker) graph() *graph {
	g := &graph{to: map[int][]int{}, from: map[int][]int{}, end: map[int]int{}, calls: map[int]bool{}}
	for start := range w.cut {
		if w.marks[start]&(markStart|markLeader) == markStart|markLeader {
			g.blocks = append(g.blocks, start)
			w.block(g, start)
		}
	}
	g.entries = slices.DeleteFunc(slices.Clone(g.blocks), func(b int) bool { return b > 0 && len(g.from[b]) > 0 })
	for _, b := range g.entries {
		if b > 0 {
			g.from[b] = g.indirect
			for _, jump := range g.indirect {
				g.to[jump] = append(g.to[jump], b)
			}
		}
	}
	if len(g.indirect) > 0 {
		g.entries = g.entries[:1]
	}
	return g
}

// block walks a block to its end and adds the edges from there.
func (w *walker) block(g *graph, start int) {
	edge := func(b int) bool {
		leads := b >= 0 && b < w.cut && w.marks[b]&markLeader != 0
		if leads {
			g.to[start], g.from[b] = append(g.to[start], b), append(g.from[b], start)
		}
		return leads
	}
	for at := start; ; {
		next := at + int(w.length[at])
		g.end[start] = next
		switch w.flow[at] {
		case asm.FlowCall, asm.FlowCallIndirect:
			g.calls[start] = true
		case asm.FlowBranch, asm.FlowJump:
			s, _ := asm.StepOver(w.code[at:next])
			edge(next + int(s.Target))
		case asm.FlowJumpIndirect:
			g.indirect = append(g.indirect, start)
		}
		if w.flow[at].Ends() || edge(next) || next >= w.cut || w.marks[next]&markStart == 0 {
			return
		}
		at = next
	}
}

// heads lists the blocks that loops may have as theirs.
func (g *graph) heads() []int {
	heads := retreats(g.entries, g.to)
	for _, b := range g.blocks { // a switch may lead into a cycle that has no entry in the code
		if slices.Contains(g.to[b], b) {
			heads = append(heads, b)
		}
	}
	slices.Sort(heads)
	return slices.Compact(heads)
}

// latches lists the blocks that jump to a head and are reached through it alone.
func (g *graph) latches(head int) []int {
	others := reach(g.to, head, g.entries...)
	return slices.DeleteFunc(slices.Clone(g.from[head]), func(b int) bool { return b != head && others[b] })
}

// loop is the loop of a head and some of its latches.
func (g *graph) loop(head int, latches ...int) natural {
	l := natural{head: head, lo: head, blocks: reach(g.from, head, latches...)}
	for b := range l.blocks {
		l.lo, l.hi = min(l.lo, b), max(l.hi, g.end[b])
		l.indirect, l.calls = l.indirect || slices.Contains(g.indirect, b), l.calls || g.calls[b]
	}
	return l
}

// reach finds all blocks that edges lead to, but not past one of them.
func reach(edges map[int][]int, past int, from ...int) map[int]bool {
	seen, work := map[int]bool{past: true}, slices.Clone(from)
	for len(work) > 0 {
		b := work[len(work)-1]
		if work = work[:len(work)-1]; !seen[b] {
			seen[b] = true
			work = append(work, edges[b]...)
		}
	}
	return seen
}

// retreats lists the targets of edges that lead back to a block on the way to where they start, in a search from the entries. Among them are
// the heads of all natural loops.
func retreats(entries []int, to map[int][]int) (heads []int) {
	const open, done = 1, 2
	state := map[int]int{}
	var search func(block int)
	search = func(block int) {
		state[block] = open
		for _, next := range to[block] {
			switch state[next] {
			case open:
				heads = append(heads, next)
			case 0:
				search(next)
			}
		}
		state[block] = done
	}
	for _, entry := range entries {
		if state[entry] == 0 {
			search(entry)
		}
	}
	return heads
}

// mostBytes bounds a loop's range of bytes: half of the L1I of 32 KiB that most cores have.
const mostBytes = 1 << 14

// giveLoops gives out a function's loops that can be measured, and counts the others by why they cannot.
func (e *extraction) giveLoops(f *function) error {
	w := &e.w
	type place struct{ lo, hi, head int }
	given := map[place]bool{} // of two ways round, one of which calls, both loops are the other
	loops, depth := w.loops()
	for _, l := range loops {
		r, from, why := l.region(w.code)
		lo, at := f.lo+uint64(from), place{from, from + len(r.Code), l.head}
		n := uint64(1)
		if e.counts != nil {
			n = e.executions(f, bounds{start: l.head, end: l.head + int(w.length[l.head]), next: l.head + int(w.length[l.head])})
		}
		b, wanted := e.within(f, lo, lo+uint64(len(r.Code)))
		if !wanted || n == 0 || given[at] {
			continue
		}
		given[at] = why == ""
		e.stats.loop(l, why)
		b.Code, b.Instructions, b.Count = r.Code, len(r.Insts), n
		b.Blocks, b.Entry, b.Exits, b.Depth = r.Blocks, r.Entry, r.Exits, depth[l.head]
		if why != "" || !e.opts.takes(&b) {
			continue
		}
		if last := w.blockLast(at.hi); last.terminated() {
			b.Terminator = e.terminator(f, last)
		}
		b.Source = e.lines.at(b.Addr + uint64(r.Entry))
		if err := e.handOut(f, &b); err != nil {
			return err
		}
	}
	return nil
}

// region returns what can be measured of a function's loop, from an offset in the function on, or why nothing can.
func (l *natural) region(function []byte) (r asm.Region, from int, why string) {
	r, err := asm.RegionOf(function[l.lo:l.hi], l.head-l.lo)
	from = l.lo
	if err == nil && r.Loop {
		first, last := r.Insts[0].Offset, &r.Insts[len(r.Insts)-1]
		if end := last.Offset + len(last.Bytes); first > 0 || end < len(r.Code) { // it has ways that do not come round
			from = l.lo + first
			r, err = asm.RegionOf(r.Code[first:end], r.Entry-first)
		}
	}
	switch {
	case !r.Loop && l.calls:
		return r, from, "each way round calls"
	case !r.Loop && l.indirect:
		return r, from, "each way round has an indirect jump"
	case !r.Loop && err == nil:
		return r, from, "control does not come back within its bytes"
	case len(r.Code) > mostBytes:
		return r, from, fmt.Sprintf("its blocks are spread over more than %d bytes", mostBytes)
	case err == nil:
		_, _, err = r.Contained()
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		return r, from, fmt.Sprintf("%s: %s", rejection.Reason, rejection.Detail)
	}
	return r, from, ""
}

// blockLast returns the bounds of the instruction that ends before an offset.
func (w *walker) blockLast(end int) bounds {
	at := end - 1
	for at > 0 && w.marks[at]&markStart == 0 {
		at--
	}
	last, _ := asm.StepOver(w.code[at:end])
	if last.Flow == asm.FlowNext {
		return bounds{}
	}
	return bounds{start: at, end: at, next: end, last: last}
}
