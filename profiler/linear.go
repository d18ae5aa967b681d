package profiler

import (
	"fmt"
	"math"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// A third number of copies, between the two, has to lie on the line through them, or the time
// per copy is no constant and the block has no steady state within those copies.
const (
	linearShare = 0.04
	// linearEnds is by how many cycles the time of one image can be off the line for its
	// ends alone: where they meet the rename groups, and when the schedulers fill up.
	linearEnds = 4
)

// linear checks the third number. Where it does not fit, smaller factors get one chance: a
// block may leave the op cache, or a predictor's reach, somewhere between the two.
func (s *session) linear(j job, r measured) (measured, error) {
	r, err := s.checkLinear(j, r)
	if err == nil || j.tolerates(err, &r.warnings) {
		return r, nil
	}
	fewer, ok := r.mapped.Factors.Smaller()
	if !ok || j.Unroll != nil || r.mapped.Loop != nil {
		return r, err
	}
	earlier := r.timed
	if r.mapped, err = r.mapped.Again(fewer, s.allow(mapLimit).over); err != nil {
		return r, err
	}
	r.timed, err = s.time(j, r.mapped)
	r.timed = r.timed.After(earlier)
	if err != nil {
		return r, err
	}
	return s.checkLinear(j, r)
}

func (s *session) checkLinear(j job, r measured) (measured, error) {
	third, ok := r.mapped.ThirdFactors()
	if !ok {
		return r, nil
	}
	all := r.mapped.Factors
	if len(r.timed.Third) > 0 && judgeLinear(r.timed.Estimate, stat.Median(r.timed.Third), third, all) == nil {
		return r, nil
	}
	block := timedBlock{r.mapped}
	pair, ok, err := block.Third(s.timer.Clock())
	if err != nil {
		return r, err
	}
	if !ok {
		r.warnings = append(r.warnings, "there is no room to check a third number of copies")
		return r, nil
	}
	plan := j.plan(r.mapped)
	plan.RunsPerSample = r.timed.RunsPerSample
	// A suspect is asked again with every dispatch offset before it is called nonlinear.
	for _, offsets := range [][]int{timing.ThirdOffsets(), timing.Offsets()} {
		var got timing.Timed
		if got, err = s.timer.TimeThird(block, pair, offsets, plan); err != nil {
			return r, mapper.Unexpected(err)
		}
		r.timed = r.timed.After(got)
		if len(got.Windows) == 0 {
			r.warnings = append(r.warnings, "no idle moment was left to check a third number of copies")
			return r, nil
		}
		if err = judgeLinear(r.timed.Estimate, stat.Median(got.Windows), third, all); err == nil {
			break
		}
	}
	return r, err
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
