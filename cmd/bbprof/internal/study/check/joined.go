package check

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/profiler"
)

// mostJoined bounds the blocks of a loop that is measured as one row: with more, its way through is one of many.
const mostJoined = 8

// blocks are what a loop of several was before it became one piece.
type blocks struct {
	exits []int // offsets in the loop of the branches out of it
	parts []*Piece
}

// loops counts the loops of a single block.
func loops(pieces []*Piece) (n int) {
	for _, p := range pieces {
		if p.loop {
			n++
		}
	}
	return n
}

// joined replaces each loop of several blocks in a row by one piece: the last block leads back to the first, the others fall through, and
// leave the loop where they do not. A check of bounds makes such a loop of one of a single block.
func joined(pieces []*Piece) (all []*Piece) {
	for i := 0; i < len(pieces); {
		if loop, count := join(pieces[i:]); loop != nil {
			all = append(all, loop)
			i += count
			continue
		}
		all = append(all, pieces[i])
		i++
	}
	return all
}

// join returns the loop that the first of these pieces heads, and how many they are; nil if there is none.
func join(pieces []*Piece) (loop *Piece, count int) {
	first := pieces[0]
	var code []byte
	for n, p := range pieces[:min(len(pieces), mostJoined)] {
		if p.loop || p.Depth == 0 || p.Depth != first.Depth || !p.Placed || p.Address != first.Address+uint64(len(code)) {
			return nil, 0
		}
		code = append(code, p.Bytes...)
		insts, err := asm.Decode(code)
		branch, ok := asm.TrailingBranch(insts)
		switch {
		case err != nil || ok && !branch.Conditional():
			return nil, 0
		case !ok || !branch.ToStart():
			continue
		}
		exits, ok := closeExits(code, insts)
		if !ok {
			return nil, 0
		}
		loop := *first
		if loop.Code = newCode(code); loop.Code == nil {
			return nil, 0
		}
		loop.joined = &blocks{exits, slices.Clone(pieces[:n+1])}
		return &loop, n + 1
	}
	return nil, 0
}

// closeExits has the branches out of a loop lead to its last instruction, for a row of copies, and lists them. ok is false if one does not reach it
// or cannot be inverted, or if there is more than one way through the loop.
func closeExits(code []byte, insts []asm.Inst) (exits []int, ok bool) {
	last := insts[len(insts)-1].Offset
	for i := range insts[:len(insts)-1] {
		branch, ok := asm.TrailingBranch(insts[:i+1])
		at, size := insts[i].Offset, len(insts[i].Bytes)
		next := int64(at + size)
		if !ok || branch.Target == next { // also one whose target a linker fills in
			continue
		}
		if branch.Target >= 0 && branch.Target < int64(len(code)) || !branch.Invertible() {
			return nil, false
		}
		const short, near = 2, 6
		switch by := last - at - size; {
		case size == short && by < 128:
			code[at+1] = byte(by)
		case size == near:
			binary.LittleEndian.PutUint32(code[at+2:], uint32(by))
		default:
			return nil, false
		}
		exits = append(exits, at)
	}
	return exits, true
}

// stay inverts the branches out of a loop that it takes in bbprof's initial state: a program's loop goes on.
func (p *Piece) stay(ctx context.Context, profile pool.Profiler) error {
	if p.joined == nil {
		return nil
	}
	exits := p.joined.exits
	for range exits {
		r, err := profile.Profile(ctx, p.block()) // its path shows even if its time is rejected
		if err != nil {
			return err
		}
		left := slices.IndexFunc(r.Inner, func(b profiler.BranchedReport) bool { return b.Taken > 0 && slices.Contains(exits, b.Offset) })
		if left < 0 {
			return nil
		}
		code, at := slices.Clone(p.Bytes), r.Inner[left].Offset
		const escape = 0x0f
		if code[at] == escape {
			at++
		}
		code[at] ^= 1 // the condition's opposite (SDM vol. 2, B.1.4.7)
		inverted := newCode(code)
		inverted.key, inverted.joined = p.key, p.joined
		p.Code = inverted
	}
	return nil
}

// apart replaces the loops of several blocks among what is compared by those blocks.
func apart(pieces []*Piece) (all []*Piece) {
	for _, p := range pieces {
		if p.joined != nil {
			all = append(all, p.joined.parts...)
		} else {
			all = append(all, p)
		}
	}
	return all
}
