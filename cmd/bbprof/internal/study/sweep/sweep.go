// Package sweep measures a block while one factor of its set-up varies and all others stay, and
// holds what the addresses predict against the cycles.
package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bbprof/bbprof/profiler"
)

// Measurer is what a sweep needs of a profiler.
type Measurer interface {
	Profile(context.Context, profiler.Block) (profiler.Result, error)
}

// Factor is what a sweep varies.
type Factor struct {
	Name   string // of its column, with the unit, such as code_offset_bytes
	Label  string // of its axis
	Values []int
	// Setup is the set-up with a value.
	Setup func(value int) profiler.Setup
}

// Point is one value of the factor and what was measured with it.
type Point struct {
	Value  int
	Result profiler.Result // of the run with the median cycles
}

// Run measures the block with every value, runs times each. The order is random, of the seed, and
// every value has a run before one has its next, so that whatever drifts meets all values alike. A
// point is the run with the median cycles among those that were measured, so that a moment's
// disturbance makes no spike; done, which may be nil, hears of every run.
func Run(ctx context.Context, m Measurer, code []byte, f Factor, runs int, seed uint64, done func(n int)) ([]Point, error) {
	results := make([][]profiler.Result, len(f.Values))
	random := rand.New(rand.NewPCG(seed, 0))
	n := 0
	for range runs {
		for _, i := range random.Perm(len(f.Values)) {
			r, err := m.Profile(ctx, profiler.Block{Code: code, Setup: f.Setup(f.Values[i])})
			if err != nil {
				return nil, err
			}
			if r.Status == profiler.Failed {
				return nil, fmt.Errorf("%s %d: %s", f.Name, f.Values[i], r.Failure)
			}
			results[i] = append(results[i], r)
			if n++; done != nil {
				done(n)
			}
		}
	}
	points := make([]Point, len(f.Values))
	for i, v := range f.Values {
		points[i] = Point{v, middle(results[i])}
	}
	return points, nil
}

// middle is the measured result with the median cycles, the faster of the middle two, or the
// first if none was measured.
func middle(results []profiler.Result) profiler.Result {
	measured := slices.DeleteFunc(slices.Clone(results), func(r profiler.Result) bool { return r.Status != profiler.OK })
	if len(measured) == 0 {
		return results[0]
	}
	slices.SortStableFunc(measured, func(a, b profiler.Result) int {
		switch {
		case a.Cycles < b.Cycles:
			return -1
		case a.Cycles > b.Cycles:
			return 1
		}
		return 0
	})
	return measured[(len(measured)-1)/2]
}
