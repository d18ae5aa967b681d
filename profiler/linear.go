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
	r, growth, err := s.checkLinear(j, r, false)
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
	r, left, err := s.checkLinear(j, r, true)
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

// checkLinear also says by how much a copy of the second half takes longer than one of the first. A suspect
// is asked again at all dispatch offsets, and is nonlinear only if it is so at two places, and one that was called so before
// it is called linear; and up to three times where that is near the limit. Each time is at another place: windows at one share what
// the op cache made of the code.
func (s *session) checkLinear(j job, r measured, suspect bool) (_ measured, growth float64, err error) {
	third, ok := r.mapped.ThirdFactors()
	if !ok {
		return r, 0, nil
	}
	all := r.mapped.Factors
	if len(r.timed.Third) > 0 && !suspect {
		if growth, _, err := judgeLinear(r.timed, r.timed.Third, third, all); err == nil {
			return r, growth, nil
		}
	}
	block := timedBlock{r.mapped}
	plan := j.plan(r.mapped)
	plan.RunsPerSample = r.timed.RunsPerSample
	rounds := [][]int{plan.ThirdOffsets(), timing.Offsets(), timing.Offsets(), timing.Offsets()}
	if plan.At != nil {
		rounds = [][]int{plan.ThirdOffsets(), plan.ThirdOffsets()}
	}
	if suspect {
		rounds = rounds[1:]
	}
	var windows []timing.Window
	beyond := 0 // places at which the difference is more than allowed
	for i, offsets := range rounds {
		pair, ok, err := block.thirdAt(plan.PlaceOf(i), i, s.timer.Clock())
		if err != nil {
			return r, growth, err
		}
		if !ok {
			r.warnings = append(r.warnings, "there is no room to check a third number of copies")
			return r, 0, nil
		}
		got, err := s.timer.TimeThird(block, pair, offsets, plan)
		if err != nil {
			return r, 0, mapping.Unexpected(err)
		}
		r.timed = r.timed.After(got)
		if len(got.Windows) == 0 && len(windows) == 0 {
			r.warnings = append(r.warnings, "no idle moment was left to check a third number of copies")
			return r, 0, nil
		}
		windows = append(windows, got.Windows...)
		var used float64
		growth, used, err = judgeLinear(r.timed, windows, third, all)
		if i == 0 && !suspect { // so few can only clear it
			if err == nil {
				return r, growth, nil
			}
			windows = nil
			continue
		}
		if _, _, err := judgeLinear(r.timed, got.Windows, third, all); len(got.Windows) > 0 && err != nil {
			beyond++
		}
		if settles(used, beyond) || i == len(rounds)-1 {
			return r, growth, err
		}
	}
	return r, growth, nil
}

// nearLimit is by how much, as a share of what is allowed, a difference is beyond or below it that a few windows decide on. Nearer
// ones get more, or one run of bbprof would take other numbers of copies than the next.
const nearLimit = 0.25

// settles reports whether windows of which the difference is that share of what is allowed decide, if it is more than allowed at so many places by
// itself. One place does not make a block nonlinear: now and then an image at one runs slower all the time, most likely because the op cache has lost lines of it.
func settles(used float64, beyond int) bool {
	return used < 1-nearLimit || used > 1+nearLimit && beyond > 1
}

// judgeLinear compares the throughput up to the third number of copies with that up to the longer one,
// at the dispatch offsets of the former, and says by how much the latter is more, and how much of what is
// allowed that is. It may differ by as much as layouts do.
func judgeLinear(t timing.Timed, windows []timing.Window, third, all unroll.Factors) (growth, used float64, err error) {
	partial := stat.Median(timing.PerIteration(windows))
	whole, spread := t.AtOffsetsOf(windows)
	allowed := max(2*t.Estimate.Half, linearShare*whole, spread) + linearEnds/float64(third.Long-third.Short)
	growth = whole - partial
	if used = math.Abs(growth) / allowed; used <= 1 {
		return growth, used, nil
	}
	return growth, used, &verdict.Rejection{Reason: verdict.Nonlinear, Detail: fmt.Sprintf(
		"from %d to %d copies each takes %.3f cycles, from %d to %d %.3f; allowed is a difference of %.3f",
		third.Short, third.Long, partial, all.Short, all.Long, whole, allowed)}
}
