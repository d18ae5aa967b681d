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
// .
type lead struct {
	copies unroll.Factors
	hides  func(stat.Estimate) bool // whether it may hide something of a block with these cycles; nil: it does not
}

// leadMargin is by how much more cycles than dispatch alone, or the front end alone, a block may take of which the lead may hide
// something. Of 346 blocks that take 5 to 12.5 % more, 16 take another 5 to 25 % without the lead; of those that take more than that and that so many copies
// change, most are right with few.
const leadMargin = 0.125

// leadOf says what the lead may hide of a block that stands in rows of as many copies as bbprof chooses.
func (s *session) leadOf(j job, m *mapping.Mapped) (l lead) {
	fe := s.cpu.FrontEnd
	if fe.Lead == (unroll.Lead{}) || j.Setup.FewCopies || j.Unroll != nil || m.Loop != nil || j.Options.FrontEnd == Decode {
		return l
	}
	copies, ok := unroll.PastLead(m.Insts, fe, fe.L1I-m.CodeAround())
	if !ok || copies.Short <= m.Factors.Short {
		return l
	}
	most := (1 + leadMargin) * max(float64(len(m.Insts))/float64(s.cpu.DispatchWidth), fe.Served(m.Insts))
	return lead{copies, func(e stat.Estimate) bool { return e.Value <= most }}
}

// leavesOpCache says in how many layouts the op cache does not hold all copies, of which fewer take few cycles each, by the factor that
// the decoders are slower by at least; "" if in none.
func leavesOpCache(t timing.Timed, few, slower float64) string {
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

// pastLead measures a block again, with as many copies as use up the lead. Where that
// is not possible it is measured with the copies that it has, with a warning.
func (s *session) pastLead(j job, first measured, copies unroll.Factors) (r measured, err error) {
	r = first
	r.pastLead = true
	r.mapped, err = first.mapped.Again(copies, s.allow(mapLimit).over)
	if err == nil && r.mapped.Factors.Short < copies.Short {
		return s.withLead(j, first, copies, fmt.Sprintf("only %v can be mapped harmlessly", r.mapped.Factors))
	}
	if err == nil {
		r.timed, err = s.time(r.mapped, j.plan(r.mapped))
		few := first.timed.Estimate.Value
		r.timed = r.timed.After(first.timed)
		first.timed = r.timed
		rejection, rejected := errors.AsType[*verdict.Rejection](err)
		switch {
		case rejected && rejection.Reason.Noise():
			return r, err // as for any other block
		case err == nil:
			if why := leavesOpCache(r.timed, few, s.cpu.FrontEnd.Lead.DecodersSlower); why != "" {
				return s.withLead(j, first, copies, fmt.Sprintf("%s, and of %v copies %.3f", why, first.mapped.Factors, few))
			}
			r, _, err = s.checkLinear(j, r)
			first.timed = r.timed
		}
	}
	if rejection, ok := errors.AsType[*verdict.Rejection](err); ok {
		return s.withLead(j, first, copies, fmt.Sprintf("so many are rejected as %s", rejection.Reason))
	}
	return r, err
}

// withLead measures a block with the copies that it has.
func (s *session) withLead(j job, r measured, copies unroll.Factors, why string) (_ measured, err error) {
	r.warnings = append(r.warnings, fmt.Sprintf(
		"it is so fast that the front end of a loop may not keep up: %v copies would show that, but %s", copies, why))
	return s.timeAgain(j, r, r.mapped.Factors)
}
