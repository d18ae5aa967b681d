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

// frontEndSlack is a block's front-end slack: the front end starts ahead while the core restores the state of the last run, and serves
// the first copies faster than it could serve a loop of them. More copies use up the slack.
type frontEndSlack struct {
	copies unroll.Factors           // enough to use up the slack
	hides  func(stat.Estimate) bool // reports whether the slack may affect a block with these cycles; nil: never
}

// A block within leadMargin of the dispatch or fetch limit may look faster than it is, because the front end starts ahead.
const leadMargin = 0.125

// frontEndSlack returns the slack of a block in rows of copies whose number bbprof chose.
func (s *session) frontEndSlack(j job, m *mapping.MappedBlock) (slack frontEndSlack) {
	fe := s.cpu.FrontEnd
	if fe.Lead == (unroll.Lead{}) || j.Setup.FewCopies || j.Unroll != nil || m.Loop != nil || j.Options.FrontEnd == Decode {
		return slack
	}
	copies, ok := unroll.PastLead(m.Insts, fe, fe.L1I-m.CodeAround())
	if !ok || copies.Short <= m.Factors.Short {
		return slack
	}
	limit := (1 + leadMargin) * max(float64(len(m.Insts))/float64(s.cpu.DispatchWidth), fe.Served(m.Insts))
	return frontEndSlack{copies, func(e stat.Estimate) bool { return e.Value <= limit }}
}

// describeOpCacheMisses describes the layouts in which the op cache does not hold all copies, if any: a copy takes over slower times few, where few
// is its time with fewer copies and slower the least factor by which the decoders are slower.
func describeOpCacheMisses(t timing.Timed, few, slower float64) string {
	speeds := speedsOf(t)
	slowest := speeds[len(speeds)-1]
	if slowest.Cycles <= slower*few {
		return ""
	}
	in := ""
	if len(speeds) > 1 {
		in = fmt.Sprintf(" in %d layouts", len(slowest.Layouts))
	}
	return fmt.Sprintf("the op cache does not hold them, since each takes %.3f cycles%s", slowest.Cycles, in)
}

// measureSteady measures a block again with enough copies to use up the slack. If that fails,
// it keeps the present number of copies and adds a warning.
func (s *session) measureSteady(j job, first measurement, copies unroll.Factors) (r measurement, err error) {
	r = first
	r.steady = true
	r.block, err = first.block.Again(copies, s.startBudget(mapLimit))
	if err == nil && r.block.Factors.Short < copies.Short {
		return s.keepCopies(j, first, copies, fmt.Sprintf("only %v can be mapped safely", r.block.Factors))
	}
	if err == nil {
		r.timed, err = s.time(r.block, j.plan(r.block))
		few := first.timed.Estimate.Value
		r.timed = r.timed.After(first.timed)
		first.timed = r.timed
		rejection, rejected := errors.AsType[*verdict.Rejection](err)
		switch {
		case rejected && rejection.Reason.Noise():
			return r, err
		case err == nil:
			if why := describeOpCacheMisses(r.timed, few, s.cpu.FrontEnd.Lead.DecodersSlower); why != "" {
				return s.keepCopies(j, first, copies, fmt.Sprintf("%s, and of %v copies %.3f", why, first.block.Factors, few))
			}
			r, _, err = s.checkLinear(j, r)
			first.timed = r.timed
		}
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		return s.keepCopies(j, first, copies, fmt.Sprintf("so many are rejected as %s", rejection.Reason))
	}
	return r, err
}

// keepCopies measures a block with its present number of copies and warns.
func (s *session) keepCopies(j job, r measurement, copies unroll.Factors, why string) (_ measurement, err error) {
	r.warnings = append(r.warnings, fmt.Sprintf(
		"it is so fast that the front end of a loop may not keep up: %v copies would show that, but %s", copies, why))
	return s.timeAgain(j, r, r.block.Factors)
}
