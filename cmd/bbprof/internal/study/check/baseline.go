package check

import (
	"fmt"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Block is a row of a baseline: a block with what it took. Cycles are per iteration.
type Block struct {
	Row    int // of the baseline, from 1
	Code   []byte
	Cycles float64 // 0 if it was not measured
	Half   float64 // half of its 95 % interval
	At     *uint64 // where it stands in its program, nil if that is not known
	Set    initial.Set
	Reason verdict.Reason // of a block that was rejected
}

// setup is that of the baseline's measurement.
func (b Block) setup(tolerate ...verdict.Reason) profiler.Setup {
	return profiler.Setup{Address: b.At, Set: b.Set, Tolerate: tolerate}
}

// leastHalf is half of the last digit that a file has: what was rounded to no interval still has one.
const leastHalf = 0.00005

// NewBlock is a block that was measured, with the ends of its interval.
func NewBlock(row int, code []byte, cycles, low, high float64) (Block, error) {
	if !(cycles > 0 && cycles-cycles == 0 && low <= cycles && cycles <= high) {
		return Block{}, fmt.Errorf("%g cycles with an interval from %g to %g is not a measurement", cycles, low, high)
	}
	return Block{Row: row, Code: code, Cycles: cycles, Half: max((high-low)/2, leastHalf)}, nil
}

// Measured reports whether there is something to compare with.
func (b *Block) Measured() bool { return b.Cycles > 0 }
