package hunt

import (
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
)

// shrink removes instructions from a block while it stays wrong: ddmin (Zeller and Hildebrandt, Simplifying and
// Isolating Failure-Inducing Input, IEEE TSE 28, 2002). The candidates of a step are measured together, and the smallest
// wrong one is the next block.
//
// The remaining instructions keep their addresses; candidates that cannot are skipped.
type shrink struct {
	surveyed *block
	kept     []int // instruction indices
	block    *block
	sign     score.Direction
	parts    int
	done     bool
	step     []candidate
}

type candidate struct {
	kept  []int
	alone bool // one part, not all but one
	block *block
}

func newShrink(b *block, s score.Direction) *shrink {
	kept := make([]int, len(b.insts))
	for i := range kept {
		kept[i] = i
	}
	return &shrink{surveyed: b, kept: kept, block: b, sign: s, parts: 2, done: len(b.insts) < 2}
}

// candidates lists the blocks of a step: each part alone, and all but each part.
func (s *shrink) candidates() (list []Case) {
	s.step = nil
	if s.done {
		return nil
	}
	n := len(s.kept)
	s.parts = min(s.parts, n)
	for p := range s.parts {
		from, to := p*n/s.parts, (p+1)*n/s.parts
		s.step = append(s.step, candidate{kept: s.kept[from:to], alone: true})
		if s.parts > 2 { // of two, each is the other's complement
			s.step = append(s.step, candidate{kept: slices.Concat(s.kept[:from], s.kept[to:])})
		}
	}
	for i := range s.step {
		c := &s.step[i]
		if c.block = s.surveyed.only(c.kept); c.block != nil {
			list = append(list, c.block.asCase())
		}
	}
	return list
}

// advance continues with the smallest candidate that is wrong in the same direction, or with smaller parts.
func (s *shrink) advance(wrong func(Case) score.Direction) {
	var best *candidate
	for i := range s.step {
		c := &s.step[i]
		if c.block != nil && wrong(c.block.asCase()) == s.sign && (best == nil || len(c.kept) < len(best.kept)) {
			best = c
		}
	}
	switch n := len(s.kept); {
	case best != nil:
		s.block, s.kept = best.block, best.kept
		s.parts = max(2, s.parts-1)
		if best.alone {
			s.parts = 2
		}
	case s.parts >= n:
		s.done = true
	default:
		s.parts = 2 * s.parts
	}
	s.done = s.done || len(s.kept) < 2
}
