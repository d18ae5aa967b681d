package profiler

import (
	"errors"
	"fmt"

	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
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
	if fe.Lead == 0 || j.Setup.FewCopies || j.Unroll != nil || m.Loop != nil || j.Options.FrontEnd == Decode {
		return l
	}
	past, ok := unroll.PastLead(m.Insts, fe, fe.L1I-m.CodeAround())
	if !ok || past.Short <= m.Factors.Short {
		return l
	}
	slots := float64(len(m.Insts)) / float64(s.cpu.DispatchWidth)
	return lead{past, func(e stat.Estimate) bool { return e.Value <= (1+atWidth)*slots }}
}

// leftOpCache is how many times as long more copies take at least of which the op cache does not hold all: on Zen 5 the decoders serve
// four instructions a cycle, half of what it dispatches, and the op cache six and more.
const leftOpCache = 1.75

// pastLead measures a block again that executes as fast as the core dispatches, with as many copies as use up the lead. past is false
// where so many cannot be mapped, or the op cache does not hold them: the block is then measured as others are, with a warning.
func (s *session) pastLead(j job, first measured, l lead) (r measured, past bool, err error) {
	r = first
	r.mapped, err = first.mapped.Again(l.past, s.allow(mapLimit).over)
	switch rejection, ok := errors.AsType[*verdict.Rejection](err); {
	case ok:
		return s.withLead(j, first, l, rejection.Error())
	case err != nil:
		return r, false, err
	case r.mapped.Factors.Short <= first.mapped.Factors.Short:
		return s.withLead(j, first, l, "there is harmless memory for fewer")
	}
	if r.timed, err = s.time(r.mapped, j.plan(r.mapped)); err != nil {
		return r, false, err
	}
	few, more := first.timed.Estimate.Value, r.timed.Estimate.Value
	r.timed = r.timed.After(first.timed)
	if more > leftOpCache*few {
		first.timed = r.timed
		return s.withLead(j, first, l, fmt.Sprintf("the op cache does not hold them, since each takes %.3f cycles, and of %v copies %.3f", more, first.mapped.Factors, few))
	}
	r, _, err = s.checkLinear(j, r, false)
	return r, true, err
}

// withLead measures a block with the copies that it has.
func (s *session) withLead(j job, r measured, l lead, why string) (_ measured, past bool, err error) {
	r.warnings = append(r.warnings, fmt.Sprintf(
		"it takes no longer than dispatch, and the front end of a loop may not keep up: %v copies would show that, but %s", l.past, why))
	if r.mapped, err = r.mapped.Again(r.mapped.Factors, s.allow(mapLimit).over); err != nil {
		return r, false, err
	}
	earlier := r.timed
	r.timed, err = s.time(r.mapped, j.plan(r.mapped))
	r.timed = r.timed.After(earlier)
	return r, false, err
}
