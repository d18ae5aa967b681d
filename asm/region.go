package asm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/bbprof/bbprof/verdict"
)

// Region is code of several blocks, in one range of bytes: a loop, or a block with branches to its own later instructions. It runs
// from its entry until control leaves it.
type Region struct {
	Code  []byte
	Entry int    // offset of the first instruction to run; of a loop, of its header
	Loop  bool   // the entry is reached again
	Insts []Inst // ascending; bytes between them are not the region's
	// Branches lists the direct branches and jumps.
	Branches []RegionBranch
	Blocks   int
	Exits    int // edges that leave
}

// RegionBranch is a direct branch or jump of a region.
type RegionBranch struct {
	Branch
	Index int  // of its instruction
	Out   bool // taken, it leaves the region
	Falls bool // not taken, it leaves
}

// RegionOf finds the loop whose header is at an offset in code: every instruction from which control comes back there, directly, without
// a call and without leaving code. If control does not come back, it is all instructions that control reaches, calls the last of them.
// A *verdict.Rejection as error names the instruction that must not run.
func RegionOf(code []byte, entry int) (r Region, err error) {
	r = Region{Code: code, Entry: entry}
	if entry < 0 || entry >= len(code) {
		return r, &verdict.Rejection{Reason: verdict.ControlFlow, Detail: fmt.Sprintf("its entry is at byte %d of %d", entry, len(code))}
	}
	reached, err := reach(code, entry)
	if err != nil {
		return r, err
	}
	keep := func(int) bool { return true }
	if back := comingBack(reached, entry); back[entry] {
		r.Loop, keep = true, func(at int) bool { return back[at] }
	}
	for at, n := range reached {
		if keep(at) {
			r.Insts = append(r.Insts, n.inst)
		}
	}
	slices.SortFunc(r.Insts, func(a, b Inst) int { return cmp.Compare(a.Offset, b.Offset) })
	return r, r.connect(reached, keep)
}

// node is an instruction of a region with the offsets of its successors, which may lie outside of the code. A call has none: a loop that
// calls on one of its paths, such as to refill a buffer, ends there.
type node struct {
	inst Inst
	to   []int
}

// reach decodes what control reaches in code from an offset.
func reach(code []byte, entry int) (map[int]node, error) {
	nodes := map[int]node{}
	for work := []int{entry}; len(work) > 0; {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if _, known := nodes[at]; known || at < 0 || at >= len(code) {
			continue
		}
		var n node
		if err := n.inst.decode(code[at:]); err != nil {
			return nil, undecodable(code, at, len(nodes), err)
		}
		n.inst.Offset = at
		step, next := n.inst.raw.step(), at+len(n.inst.Bytes)
		if step.Flow == FlowBranch || step.Flow == FlowJump {
			n.to = append(n.to, next+int(step.Target))
		}
		if calls := step.Flow == FlowCall || step.Flow == FlowCallIndirect; !calls && !step.Flow.Ends() {
			n.to = append(n.to, next)
		}
		nodes[at] = n
		work = append(work, n.to...)
	}
	return nodes, nil
}

// comingBack returns the instructions from which control comes to the entry again.
func comingBack(nodes map[int]node, entry int) map[int]bool {
	from := map[int][]int{}
	for at, n := range nodes {
		for _, to := range n.to {
			from[to] = append(from[to], at)
		}
	}
	back := map[int]bool{}
	for work := slices.Clone(from[entry]); len(work) > 0; {
		at := work[len(work)-1]
		if work = work[:len(work)-1]; !back[at] {
			back[at] = true
			work = append(work, from[at]...)
		}
	}
	return back
}

// connect finds the branches, blocks and exits of the instructions that were kept, and refuses what must not run.
func (r *Region) connect(nodes map[int]node, keep func(int) bool) error {
	inside := func(at int) bool {
		_, ok := nodes[at]
		return ok && keep(at)
	}
	leaders := map[int]bool{r.Entry: true}
	end := 0
	for i := range r.Insts {
		in := &r.Insts[i]
		if in.Offset < end {
			return &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "a branch leads into an instruction, which overlaps another", Inst: in.Verdict(i)}
		}
		end = in.Offset + len(in.Bytes)
		branch, ok := TrailingBranch(r.Insts[i : i+1])
		if !ok {
			if rejection := Refuse(r.Insts[i : i+1]); rejection != nil {
				rejection.Inst.Index = i
				return rejection
			}
			if !inside(end) {
				r.Exits++
			}
			continue
		}
		b := RegionBranch{Branch: branch, Index: i, Out: !inside(int(branch.Target)), Falls: branch.Conditional() && !inside(end)}
		for _, out := range []bool{b.Out, b.Falls} {
			if out {
				r.Exits++
			}
		}
		if !b.Out {
			leaders[int(branch.Target)] = true
		}
		if inside(end) {
			leaders[end] = true
		}
		r.Branches = append(r.Branches, b)
	}
	r.Blocks = len(leaders)
	return nil
}

// Leads lists the offsets at which control leaves, ascending; some may be outside of the code.
func (r *Region) Leads() (list []int64) {
	inside := func(at int64) bool {
		return slices.ContainsFunc(r.Insts, func(in Inst) bool { return int64(in.Offset) == at })
	}
	for i := range r.Insts {
		next := int64(r.Insts[i].Offset + len(r.Insts[i].Bytes))
		b, branches := r.branchAt(i)
		if branches && b.Out {
			list = append(list, b.Target)
		}
		if !inside(next) && (!branches || b.Falls) {
			list = append(list, next)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

const jumpBytes, shortJumpBytes = 5, 2 // jmp rel32, jmp rel8

// Contained returns the code with every exit led to its end: branches that leave are redirected, and bytes that are not the region's trap, or
// jump there. before is such a jump too, for the bytes right before the code. It fails if an exit cannot be redirected where it stands.
func (r *Region) Contained() (before, code []byte, err error) {
	last := &r.Insts[len(r.Insts)-1]
	code = slices.Clone(r.Code[:last.Offset+len(last.Bytes)])
	jump := func(from int) []byte { // to the end of the code
		to := uint32(len(code) - from - jumpBytes)
		return []byte{0xe9, byte(to), byte(to >> 8), byte(to >> 16), byte(to >> 24)}
	}
	places := []int{len(code), -jumpBytes} // from where control comes to the end
	var small []int
	at := 0
	hole := func(end int) {
		for i := at; i < end; i++ {
			code[i] = 0xcc // int3
		}
		switch size := end - at; {
		case size >= jumpBytes:
			copy(code[at:], jump(at))
			places = append(places, at)
		case size >= shortJumpBytes:
			small = append(small, at)
		}
	}
	for i := range r.Insts {
		hole(r.Insts[i].Offset)
		at = r.Insts[i].Offset + len(r.Insts[i].Bytes)
	}
	for _, at := range small {
		if short := []byte{0xeb, 0}; redirect(short, at+len(short), places) {
			copy(code[at:], short)
			places = append(places, at)
		}
	}
	for i := range r.Insts {
		in := &r.Insts[i]
		next := in.Offset + len(in.Bytes)
		b, branches := r.branchAt(i)
		if branches && b.Out && !redirect(code[in.Offset:next], next, places) {
			return nil, nil, &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "no exit is within reach of the branch", Inst: in.Verdict(i)}
		}
		falls := branches && b.Falls || !branches && (i+1 == len(r.Insts) || r.Insts[i+1].Offset != next)
		if falls && !slices.Contains(places, next) {
			return nil, nil, &verdict.Rejection{Reason: verdict.ControlFlow, Detail: "there is no room for an exit after it", Inst: in.Verdict(i)}
		}
	}
	return jump(-jumpBytes), code, nil
}

func (r *Region) branchAt(index int) (b RegionBranch, ok bool) {
	i, ok := slices.BinarySearchFunc(r.Branches, index, func(b RegionBranch, at int) int { return cmp.Compare(b.Index, at) })
	if ok {
		b = r.Branches[i]
	}
	return b, ok
}

// redirect makes a branch, which ends before the offset next, lead to the first place that it reaches.
func redirect(branch []byte, next int, places []int) bool {
	near := branch[0] == 0xe9 || len(branch) > 5 && branch[len(branch)-6] == 0x0f
	if near || len(branch) > 5 && branch[len(branch)-5] == 0xe9 {
		to := uint32(places[0] - next)
		copy(branch[len(branch)-4:], []byte{byte(to), byte(to >> 8), byte(to >> 16), byte(to >> 24)})
		return true
	}
	for _, place := range places {
		if to := place - next; to == int(int8(to)) {
			branch[len(branch)-1] = byte(to)
			return true
		}
	}
	return false
}
