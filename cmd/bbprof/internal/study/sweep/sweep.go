// Package sweep measures a block while one factor of its set-up varies and all others stay, and
// holds what the addresses predict against the cycles.
package sweep

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/profiler"
)

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

// Plan says how often to measure.
type Plan struct {
	Runs int            // with each value
	Seed uint64         // of the random order
	Done func(runs int) // is told after each run how many are done; may be nil
}

// Run measures the block with every value of the factor. The order is random, and all values have
// a run before any has its next, so that a drift affects all alike. A point is the run with the
// median cycles among those that were measured, so that a short disturbance makes no spike. If ctx
// ends, its error comes with the points so far; a value without any run has the status Interrupted.
func Run(ctx context.Context, p measure.Profiler, code []byte, f Factor, plan Plan) ([]Point, error) {
	results := make([][]profiler.Result, len(f.Values))
	random := rand.New(rand.NewPCG(plan.Seed, 0))
	n := 0
	for range plan.Runs {
		for _, i := range random.Perm(len(f.Values)) {
			r, err := p.Profile(ctx, profiler.Block{Code: code, Setup: f.Setup(f.Values[i])})
			if err != nil && ctx.Err() != nil && n > 0 {
				return middles(f, results), ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			if r.Status == profiler.Failed {
				return nil, fmt.Errorf("%s %d: %s", f.Name, f.Values[i], r.Failure)
			}
			results[i] = append(results[i], r)
			if n++; plan.Done != nil {
				plan.Done(n)
			}
		}
	}
	return middles(f, results), nil
}

// Interrupted is the status of a value that was not reached.
const Interrupted profiler.Status = "interrupted"

// middles makes points of all runs.
func middles(f Factor, results [][]profiler.Result) []Point {
	points := make([]Point, len(f.Values))
	for i, v := range f.Values {
		points[i] = Point{v, profiler.Result{Status: Interrupted}}
		if len(results[i]) > 0 {
			points[i].Result = middle(results[i])
		}
	}
	return points
}

// middle is the measured result with the median cycles, the faster of the middle two, or the
// first if none was measured.
func middle(results []profiler.Result) profiler.Result {
	measured := slices.DeleteFunc(slices.Clone(results), func(r profiler.Result) bool { return r.Status != profiler.OK })
	if len(measured) == 0 {
		return results[0]
	}
	slices.SortStableFunc(measured, func(a, b profiler.Result) int { return cmp.Compare(a.Cycles, b.Cycles) })
	return measured[(len(measured)-1)/2]
}
