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

// The time of an image at the midpoint of both numbers of copies must lie on the line through them.
// Otherwise the time per copy is not constant, and the block has no steady state within those copies.
const (
	linearShare = 0.04
	// linearEnds is the largest deviation in cycles that an image's ends alone cause: their
	// alignment with the rename groups, and the filling of the schedulers.
	linearEnds = 4
)

// ensureLinear checks the midpoint. The few windows timed with the first replicates can only clear a block. If they do not, the midpoint timed at
// another place, at all rename phases, decides.
func (s *session) ensureLinear(j job, r measurement) (measurement, error) {
	midpoint, ok := r.block.MidpointFactors()
	if !ok || len(r.timed.Midpoint) > 0 && compareHalves(r.timed, r.timed.Midpoint, midpoint, r.block.Factors) == nil {
		return r, nil
	}
	block := timedBlock{r.block}
	plan := j.plan(r.block)
	plan.RunsPerSample = r.timed.RunsPerSample
	pair, ok, err := block.midpointAt(plan.PlaceOf(1), 1, s.timer.Clock())
	if err != nil {
		return r, err
	}
	if !ok {
		r.warnings = append(r.warnings, "there is no room to check a third number of copies")
		return r, nil
	}
	offsets := timing.Offsets()
	if plan.Layout != nil {
		offsets = plan.MidpointOffsets()
	}
	got, err := s.timer.TimeMidpoint(block, pair, offsets, plan)
	if err != nil {
		return r, mapping.Unexpected(err)
	}
	r.timed = r.timed.After(got)
	if len(got.Windows) == 0 {
		r.warnings = append(r.warnings, "no idle moment was left to check a third number of copies")
		return r, nil
	}
	if err := compareHalves(r.timed, got.Windows, midpoint, r.block.Factors); err != nil && !j.tolerates(err, &r.warnings) {
		return r, err
	}
	return r, nil
}

// compareHalves compares the throughput up to the midpoint with that up to the longer image, at the same
// rename phases. Layouts may cause as much difference as they have themselves.
func compareHalves(t timing.Timed, windows []timing.Window, midpoint, full unroll.Factors) error {
	partial := stat.Median(timing.PerIteration(windows))
	whole, spread := t.AtOffsetsOf(windows)
	allowed := max(2*t.Estimate.Half, linearShare*whole, spread) + linearEnds/float64(midpoint.Long-midpoint.Short)
	if math.Abs(whole-partial) <= allowed {
		return nil
	}
	return &verdict.Rejection{Reason: verdict.Nonlinear, Detail: fmt.Sprintf(
		"from %d to %d copies each takes %.3f cycles, from %d to %d %.3f; allowed is a difference of %.3f",
		midpoint.Short, midpoint.Long, partial, full.Short, full.Long, whole, allowed)}
}

// addEnds adds what both images' ends may differ by to the interval: of a loop that the block's own branch closes, and of numbers of copies that
// the user set, which may be few. Of some iteration counts a predictor learns the exit of one image alone. It rejects a loop whose exit may cost
// more than a steady block may vary, and an interval that reaches 0.
func (j job) addEnds(r *measurement) error {
	ends, e := 0.0, &r.timed.Estimate
	between := float64(r.block.Factors.Long - r.block.Factors.Short)
	switch l := r.block.Loop; {
	case l != nil && l.Exit != nil:
		if ends = timing.Mispredicted / between; j.Unroll == nil && ends > timing.UnstableLimit(*e) {
			err := &verdict.Rejection{Reason: verdict.LoopExit, Detail: fmt.Sprintf(
				"about %.3f cycles, from %d and %d iterations: no others were found to end it, and a mispredicted exit is up to %.3f cycles an iteration",
				e.Value, r.block.Factors.Short, r.block.Factors.Long, ends)}
			if !j.tolerates(err, &r.warnings) {
				return err
			}
		}
	case j.Unroll != nil:
		ends = linearEnds / between
	}
	e.Half = math.Hypot(e.Half, ends)
	if ends > 0 && e.Low() <= 0 {
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf(
			"about %.3f cycles: the ends of images of %v iterations may differ by as much, and larger numbers tell", e.Value, r.block.Factors)}
	}
	return nil
}
