package profiler

import (
	"errors"
	"fmt"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

// lead is what the front end's lead may hide of a block, and the numbers of copies that show it. The front end works ahead while the
// core waits for what the last run changed, and serves the first copies faster than it could serve a loop of them
// (docs/front-end.md, "The front end's lead").
type lead struct {
	past  unroll.Factors
	hides func(stat.Estimate) bool // whether it may do so at these cycles; nil: at none
}

// atWidth is by how much more cycles than dispatch alone a block may take that the front end may limit. It was chosen; of
// 2,800 blocks of registers on Zen 5 none took 1.5 to 3 % more, and four 3 to 5 %.
const atWidth = 0.05

// leadOf is the lead on a block that is measured in rows of as many copies as bbprof chooses.
func (s *session) leadOf(j job, m *mapping.Mapped) (l lead) {
	fe := s.cpu.FrontEnd
	if fe.Lead == 0 || j.Unroll != nil || m.Loop != nil || j.Options.FrontEnd == Decode {
		return l
	}
	around := m.CodeBytes() - (m.Factors.Short+m.Factors.Long)*m.Size()
	past, ok := unroll.PastLead(m.Insts, fe, fe.L1I-around)
	if !ok || past.Short <= m.Factors.Short {
		return l
	}
	slots := float64(len(m.Insts)) / float64(s.cpu.DispatchWidth)
	return lead{past, func(e stat.Estimate) bool { return e.Value <= (1+atWidth)*slots }}
}

// pastLead measures a block again that executes as fast as the core dispatches, with as many copies as use up the lead. One that
// cannot be measured so is measured as others are, with a warning; past is false then.
func (s *session) pastLead(j job, first measured, l lead) (r measured, past bool, err error) {
	r = first
	if r.mapped, err = first.mapped.Again(l.past, s.allow(mapLimit).over); err == nil {
		if r.timed, err = s.time(r.mapped, j.plan(r.mapped)); err != nil {
			return r, false, err
		}
		r.timed = r.timed.After(first.timed)
		if r, _, err = s.checkLinear(j, r, false); err == nil {
			err = longerThan(first, r)
		}
	}
	if err == nil {
		return r, true, nil
	}
	rejection, ok := errors.AsType[*verdict.Rejection](err)
	if !ok {
		return r, false, err
	}
	earlier := r.timed
	r = first
	r.warnings = append(r.warnings, fmt.Sprintf(
		"it takes no longer than dispatch, and the front end of a loop may not keep up: more copies would show that, but with %v it is %v", l.past, rejection))
	if r.mapped, err = first.mapped.Again(first.mapped.Factors, s.allow(mapLimit).over); err != nil {
		return r, false, err
	}
	r.timed, err = s.time(r.mapped, j.plan(r.mapped))
	r.timed = r.timed.After(earlier)
	return r, false, err
}

// longerThan is a rejection if a block got no more copies than the first time, or has no one speed with them.
func longerThan(first, r measured) error {
	switch e := r.timed.Estimate; {
	case r.mapped.Factors.Short <= first.mapped.Factors.Short:
		return &verdict.Rejection{Reason: verdict.Unmappable, Detail: "it has harmless memory for fewer copies"}
	case !timing.Steady(e):
		return &verdict.Rejection{Reason: verdict.Unstable, Detail: fmt.Sprintf("%.3f ± %.3f cycles", e.Value, e.Half)}
	}
	return nil
}
