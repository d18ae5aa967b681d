package profiler

import (
	"errors"
	"fmt"
	"math"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// A third number of copies, between the two, has to lie on the line through them, or the time
// per copy is no constant and the block has no steady state within those copies.
const (
	linearTries = 20 // stays of two windows, in search of a quiet one
	linearShare = 0.04
	// linearEnds is by how many cycles the time of one image can be off the line for its
	// ends alone: where they meet the rename groups, and when the schedulers fill up.
	linearEnds = 4
)

// linearTurns are the numbers of extra turns of the windows that time the third number.
func linearTurns() []int { return []int{0, lookWindows / 2} }

// linear checks the third number. Where it does not fit, smaller factors get one chance: a
// block may leave the op cache, or a predictor's reach, somewhere between the two.
func (r *run) linear() error {
	err := r.checkLinear()
	var rejection *verdict.Rejection
	if errors.As(err, &rejection) && r.tolerate(rejection) {
		return nil
	}
	fewer, ok := r.factors.Smaller()
	if err == nil || !ok || r.opts.Unroll != nil || r.loops {
		return err
	}
	r.factors, r.cycles = fewer, nil
	r.plan.Late = r.allow(mapLimit).over
	for _, step := range []func() error{r.mapAndTrace, r.time, r.checkLinear} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkLinear() error {
	third := r.thirdFactors()
	if third.Long <= third.Short {
		return nil
	}
	if len(r.third) > 0 && judgeLinear(r.estimate(), stat.Median(r.third), third, r.factors) == nil {
		return nil
	}
	v, ok, err := r.viewThird()
	if err != nil {
		return err
	}
	if !ok {
		r.warn("there is no room to check a third number of copies")
		return nil
	}
	// A suspect is asked again with every number of turns before it is called nonlinear.
	for _, turns := range [][]int{linearTurns(), lookTurns()} {
		v.missing = turns
		if err = r.compareThird(v); err == nil {
			break
		}
	}
	return err
}

// thirdFactors are the smaller number of copies and the third.
func (r *run) thirdFactors() unroll.Factors {
	third := unroll.Factors{Short: r.factors.Short, Long: (r.factors.Short + r.factors.Long) / 2}
	if r.loops {
		third.Long -= third.Long % r.loop.Copies // whole turns
	}
	return third
}

// viewThird places the third number of copies behind all other images; not ok without one or
// without room.
func (r *run) viewThird() (v view, ok bool, err error) {
	third := r.thirdFactors()
	if third.Long <= third.Short {
		return v, false, nil
	}
	image, err := r.image(congruent(r.long.At, r.long.End()), third.Long)
	if err != nil || image.End() > layout.CodeEnd {
		return v, false, err
	}
	r.place(image)
	return view{short: r.short, long: image, factors: third, mapped: true, missing: linearTurns()}, true, r.findDirty(image)
}

// compareThird times the third number of copies, in the windows that it lacks.
func (r *run) compareThird(v view) error {
	timeThird := r.timeThird
	if r.counts() {
		timeThird = r.countThird
	}
	cycles, err := timeThird(v)
	if err != nil {
		return err
	}
	if len(cycles) == 0 {
		r.warn("no quiet moment was left to check a third number of copies")
		return nil
	}
	return judgeLinear(r.estimate(), stat.Median(cycles), v.factors, r.factors)
}

// timeThird is the throughput up to the third number of copies, in each of the windows.
func (r *run) timeThird(v view) (cycles []float64, err error) {
	r.plan.Refill(r.child)
	for try := 0; len(cycles) == 0 && try < linearTries; try++ {
		plan, _ := r.planStay([]view{v}, len(v.missing))
		got, err := r.stay(plan)
		if err != nil {
			return nil, err
		}
		if got.switches > 0 {
			continue
		}
		if known, drifts := r.learnRate(got); !known || drifts {
			continue
		}
		for _, w := range got.windows {
			if w.complete {
				cycles = append(cycles, w.cycles(v.factors, r.clock, r.rate))
			}
		}
	}
	return cycles, nil
}

// judgeLinear compares the throughput up to the third number of copies with that up to the
// longer one.
func judgeLinear(e stat.Estimate, partial float64, third, all unroll.Factors) error {
	allowed := math.Max(2*e.Half, linearShare*e.Value) + linearEnds/float64(third.Long-third.Short)
	if math.Abs(partial-e.Value) <= allowed {
		return nil
	}
	return &verdict.Rejection{Reason: verdict.Nonlinear, Detail: fmt.Sprintf(
		"from %d to %d copies each takes %.3f cycles, from %d to %d %.3f; allowed is a difference of %.3f",
		third.Short, third.Long, partial, all.Short, all.Long, e.Value, allowed)}
}
