package profiler

import (
	"fmt"
	"math"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
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

// linear checks the third number. Where it does not fit, other factors get one chance. Where copies
// take longer the more there are, the time of the first half is that of a block on its way to the steady
// state, and the second half alone may be in it; else the block may leave the op cache, or a predictor's
// reach, somewhere between the two numbers, and smaller ones are tried.
func (s *session) linear(j job, r measured) (measured, error) {
	r, growth, err := s.checkLinear(j, r)
	first := err
	if err == nil || j.tolerates(err, &r.warnings) {
		return r, nil
	}
	other, ok := r.mapped.Factors.Later()
	if growth <= 0 || !ok {
		other, ok = r.mapped.Factors.Smaller()
	}
	if !ok || j.Unroll != nil || r.mapped.Loop != nil {
		return r, err
	}
	if r, err = s.timeAgain(j, r, other); err != nil {
		return r, err
	}
	r, left, err := s.checkLinear(j, r)
	if e := r.timed.Estimate; err == nil && growth > 0 && left > max(e.Half, min(stillGrowing*growth, settledShare*e.Value)) {
		return r, first
	}
	return r, err
}

// timeAgain maps a block once more, with these numbers of copies, and times it.
func (s *session) timeAgain(j job, r measured, factors unroll.Factors) (_ measured, err error) {
	if r.mapped, err = r.mapped.Again(factors, s.allow(mapLimit).over); err != nil {
		return r, err
	}
	earlier := r.timed
	r.timed, err = s.time(r.mapped, j.plan(r.mapped))
	r.timed = r.timed.After(earlier)
	return r, err
}

const (
	// stillGrowing is the share of the growth that may be left in the second half of the copies: of a block
	// that settles little is, of one whose copies each take longer than the one before half.
	stillGrowing = 0.3
	// settledShare is what may be left as a share of the cycles, whatever there was: a quarter of linearShare.
	settledShare = linearShare / 4
)

// checkLinear also says by how much a copy of the second half takes longer than one of the first. The few windows that were timed beside the block
// can only clear it: where they do not, the third number is timed at another place, at all dispatch offsets, and that decides.
func (s *session) checkLinear(j job, r measured) (_ measured, growth float64, err error) {
	third, ok := r.mapped.ThirdFactors()
	if !ok {
		return r, 0, nil
	}
	all := r.mapped.Factors
	if len(r.timed.Third) > 0 {
		if growth, err = judgeLinear(r.timed, r.timed.Third, third, all); err == nil {
			return r, growth, nil
		}
	}
	block := timedBlock{r.mapped}
	plan := j.plan(r.mapped)
	plan.RunsPerSample = r.timed.RunsPerSample
	pair, ok, err := block.thirdAt(plan.PlaceOf(1), 1, s.timer.Clock())
	if err != nil {
		return r, growth, err
	}
	if !ok {
		r.warnings = append(r.warnings, "there is no room to check a third number of copies")
		return r, 0, nil
	}
	offsets := timing.Offsets()
	if plan.At != nil {
		offsets = plan.ThirdOffsets()
	}
	got, err := s.timer.TimeThird(block, pair, offsets, plan)
	if err != nil {
		return r, 0, mapping.Unexpected(err)
	}
	r.timed = r.timed.After(got)
	if len(got.Windows) == 0 {
		r.warnings = append(r.warnings, "no idle moment was left to check a third number of copies")
		return r, 0, nil
	}
	growth, err = judgeLinear(r.timed, got.Windows, third, all)
	return r, growth, err
}

// judgeLinear compares the throughput up to the third number of copies with that up to the longer one,
// at the dispatch offsets of the former, and says by how much the latter is more. It may differ by as much as layouts do.
func judgeLinear(t timing.Timed, windows []timing.Window, third, all unroll.Factors) (growth float64, err error) {
	partial := stat.Median(timing.PerIteration(windows))
	whole, spread := t.AtOffsetsOf(windows)
	allowed := max(2*t.Estimate.Half, linearShare*whole, spread) + linearEnds/float64(third.Long-third.Short)
	growth = whole - partial
	if math.Abs(growth) <= allowed {
		return growth, nil
	}
	return growth, &verdict.Rejection{Reason: verdict.Nonlinear, Detail: fmt.Sprintf(
		"from %d to %d copies each takes %.3f cycles, from %d to %d %.3f; allowed is a difference of %.3f",
		third.Short, third.Long, partial, all.Short, all.Long, whole, allowed)}
}
