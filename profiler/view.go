package profiler

import (
	"errors"

	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// view is a pair of images where they are timed, and the windows that it lacks.
type view struct {
	short, long unroll.Image
	factors     unroll.Factors
	mapped      bool      // its pages are there, from the trial or for the view before
	missing     []int     // turns
	cycles      []float64 // of the windows that it has
}

// planStay is a stay of at most so many of the windows that views lack, and the view of each scene.
func (r *run) planStay(views []view, most int) (plan stayPlan, of []*view) {
	plan = r.plannedStay()
	for i := range views {
		v := &views[i]
		if turns := v.missing[:min(most, len(v.missing))]; len(turns) > 0 {
			plan.scenes = append(plan.scenes, r.sceneOf(*v, turns))
			of = append(of, v)
			v.mapped = false // the next time
			most -= len(turns)
		}
	}
	return plan, of
}

// layViews places the images of looks, by the layout of each, as many as there is room for. In
// L1I they all stand in the same sets, the layout's shift aside.
func (r *run) layViews(first, most int) (views []view, err error) {
	at := r.images
	for n := first; n < first+most; n++ {
		if err := r.build(at, uint64(n%layouts)*layoutStep); err != nil {
			if tooLarge := (*verdict.Rejection)(nil); len(views) > 0 && errors.As(err, &tooLarge) {
				break
			}
			return nil, err
		}
		views = append(views, view{short: r.short, long: r.long, factors: r.factors, missing: lookTurns()})
		at = congruent(at, r.long.End())
	}
	last := views[len(views)-1]
	r.short, r.long = last.short, last.long
	return views, nil
}

// congruent is the first address from end on that stands where at does in a page, and so in L1I.
func congruent(at, end uint64) uint64 {
	return at + (end-at+layout.PageSize-1)&^(layout.PageSize-1)
}

// plannedStay is a stay without scenes yet.
func (r *run) plannedStay() stayPlan {
	return stayPlan{samples: windowSamples, wait: waitPolls, polls: windowPolls, quiet: r.quietTicks(), calmStores: r.calmStoresTicks(), vectorBits: r.vectorBits}
}

// sceneOf times a view in some windows.
func (r *run) sceneOf(v view, turns []int) scene {
	timed := func(im unroll.Image) timedImage { return timedImage{im.At, r.warmBefore(), r.result.RunsPerSample} }
	s := scene{short: timed(v.short), long: timed(v.long), turns: turns}
	if !v.mapped {
		s.setup = r.mapping.Remap()
	}
	s.setup = append(s.setup, tracee.Run(r.fresh, 1))
	return s
}
