package hunt

// shrink takes instructions out of a block for as long as it stays wrong: ddmin (Zeller and Hildebrandt,
// Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28, 2002). The candidates of a step are
// measured together, and the smallest that is wrong is the next block.
type shrink struct {
	block *block
	sign  Sign
	parts int
	done  bool
}

func newShrink(b *block, s Sign) *shrink {
	return &shrink{block: b, sign: s, parts: 2, done: len(b.insts) < 2}
}

// candidates are the blocks of one step: each part alone, and all but each part.
func (s *shrink) candidates() []string {
	if s.done {
		return nil
	}
	n := len(s.block.insts)
	s.parts = min(s.parts, n)
	var alone, rest []string
	for p := range s.parts {
		var in, out []int
		for i := range n {
			if i >= p*n/s.parts && i < (p+1)*n/s.parts {
				in = append(in, i)
			} else {
				out = append(out, i)
			}
		}
		alone = append(alone, s.block.without(out))
		rest = append(rest, s.block.without(in))
	}
	if s.parts == 2 { // each part is all but the other
		return alone
	}
	return append(alone, rest...)
}

// step goes on with the smallest candidate that is wrong as the block is, or with smaller parts.
func (s *shrink) step(wrong func(string) Sign) {
	n := len(s.block.insts)
	var best *block
	alone := false
	for i, c := range s.candidates() {
		if wrong(c) != s.sign {
			continue
		}
		if b := newBlock(c); b != nil && (best == nil || len(b.insts) < len(best.insts)) {
			best, alone = b, i < s.parts
		}
	}
	switch {
	case best != nil && alone:
		s.block, s.parts = best, 2
	case best != nil:
		s.block, s.parts = best, max(2, s.parts-1)
	case s.parts >= n:
		s.done = true
	default:
		s.parts = 2 * s.parts
	}
	s.done = s.done || len(s.block.insts) < 2
}
