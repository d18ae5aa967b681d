package check

import (
	"fmt"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Block is a baseline row. Cycles are per iteration.
type Block struct {
	Row    int // in the baseline, from 1
	Code   []byte
	Cycles float64 // 0 if not measured
	Half   float64 // half-width of the 95 % interval
	At     *uint64 // address in its program, nil if unknown
	Set    initial.Set
	Reason verdict.Reason // if it was rejected
}

func (b Block) again(tolerate ...verdict.Reason) profiler.Block {
	return profiler.Block{Code: b.Code, Setup: profiler.Setup{Address: b.At, Set: b.Set, Tolerate: tolerate}}
}

// leastHalf is half of a file's last digit: the error of an interval rounded to nothing.
const leastHalf = 0.00005

// NewBlock returns a measured block, given the ends of its interval.
func NewBlock(row int, code []byte, cycles, low, high float64) (Block, error) {
	if !(cycles > 0 && cycles-cycles == 0 && low <= cycles && cycles <= high) {
		return Block{}, fmt.Errorf("%g cycles with an interval from %g to %g is not a measurement", cycles, low, high)
	}
	return Block{Row: row, Code: code, Cycles: cycles, Half: max((high-low)/2, leastHalf)}, nil
}

func (b *Block) Measured() bool { return b.Cycles > 0 }
