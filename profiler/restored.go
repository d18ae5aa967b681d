package profiler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/mapper"
	"github.com/bbprof/bbprof/verdict"
)

// restoration is a block with a captured state put back before each copy.
type restoration struct {
	regs        []string
	left        *mapper.Left // where copies leave the state without that
	once, twice stat.Estimate
	set         stat.Estimate // once, with no wait from copy to copy; zero if it was not asked for
	why         string        // why it gives no number; "" if it does
}

// knownShare is how wide the interval may be that putting registers back leaves, as a share of the cycles.
const knownShare = 0.1

// preciseShare is from how wide an interval on a third measurement is made that may narrow it.
const preciseShare = 0.02

// leavesEarly reports whether too few copies stay within a captured state for their time to be that of a copy.
func leavesEarly(m *mapper.Mapped, err error) bool {
	r := (*verdict.Rejection)(nil)
	if errors.As(err, &r) {
		return r.Reason == verdict.LeavesState && m.Plan.Replay.Left.Copy > 0
	}
	return err == nil && m.LeavesEarly()
}

// restored measures a block whose copies leave the state early with what addresses depend on put back before
// each copy. Where that gives no number the copies that stay within are measured, if those are at least two.
func (s *session) restored(j job, r reached, few error) (reached, error) {
	back := &restoration{left: r.mapped.Plan.Replay.Left}
	got, err := s.putBack(j, r, back)
	if err != nil && !errors.As(err, new(*verdict.Rejection)) {
		return r, err
	}
	if err == nil {
		got.decoded, got.repeated, got.restored = r.decoded, r.repeated, back
		return got, nil
	}
	back.regs = nil
	if rejection := (*verdict.Rejection)(nil); errors.As(few, &rejection) {
		rejection.Detail += "; " + err.(*verdict.Rejection).Detail
		return r, few
	}
	if r, err = s.timed(j, r); err == nil {
		r.restored = back
	}
	return r, err
}

// putBack measures the block with registers put back once before each copy, and twice.
func (s *session) putBack(j job, r reached, back *restoration) (got reached, err error) {
	no := func(format string, args ...any) error {
		back.why = fmt.Sprintf(format, args...)
		return &verdict.Rejection{Reason: verdict.LeavesState, Detail: back.why}
	}
	after, _, err := s.task(j, r.decoded, repeated{}).Once(j.Setup.Captured)
	if err != nil {
		return got, err
	}
	p, ok := planPutBack(r.decoded.insts, j.Setup.Captured, after)
	if !ok {
		return got, no("no register can be put back: no address depends on one that a copy changes, or none is free to help")
	}
	for _, reg := range p.regs {
		back.regs = append(back.regs, reg.String())
	}
	names := strings.Join(back.regs, ", ")
	got, err = s.withCode(j, p.code, p.start)
	if err == nil {
		if i := p.meets(got.mapped.Trace, s.cpu.Core); i >= 0 {
			return got, no("with %s put back before each copy: instruction %d loads what the copy before stored", names, i+1)
		}
		back.once = got.measured.timed.Estimate
		back.twice, err = s.estimate(j, p.twice, p.again)
	}
	e := within(back.once, back.twice, stat.Estimate{})
	if err == nil && e.Half > preciseShare*e.Value && p.set != nil {
		back.set, err = s.estimate(j, p.set, p.placed)
		e = within(back.once, back.twice, back.set)
	}
	rejection := (*verdict.Rejection)(nil)
	switch {
	case errors.As(err, &rejection):
		return got, no("with %s put back before each copy: %s: %s", names, rejection.Reason, rejection.Detail)
	case err != nil:
		return got, err
	case e.Half > knownShare*e.Value:
		return got, no("with %s put back before each copy: a copy takes from %.3f to %.3f cycles, of which putting back may be a part", names, e.Low(), e.High())
	}
	got.measured.timed.Estimate = e
	return got, nil
}

// withCode measures the block with code ahead of each copy, in a state that has it stand there.
func (s *session) withCode(j job, code []byte, start *initial.Captured) (r reached, err error) {
	b := j.Block
	b.Code, b.Setup.Captured = slices.Concat(code, j.Code), start
	j = s.job(b)
	if r, err = s.prepared(j); err != nil {
		return r, err
	}
	if r.mapped.LeavesEarly() {
		return r, r.mapped.Plan.Replay.Left.Why
	}
	return s.timed(j, r)
}

func (s *session) estimate(j job, code []byte, start *initial.Captured) (stat.Estimate, error) {
	r, err := s.withCode(j, code, start)
	return r.measured.timed.Estimate, err
}

// meets is the first instruction of the block that loads, at an address which is put back, what an earlier copy
// stored; −1 if none does. In the program that address has moved on.
func (p putBack) meets(t invariants.Trace, core invariants.Core) int {
	for _, f := range invariants.Predict(t, core).Forwards {
		if i := f.Load - len(p.regs); f.Copies > 0 && i >= 0 && p.walks[i] {
			return i
		}
	}
	return -1
}

// within is the time of a copy alone, by that with registers put back once and twice. Each resource of a core
// takes as much more time for the second as for the first, and the one that takes longest decides: so the
// first costs no more than the second, and maybe nothing. Where it is the wait from copy to copy that takes
// longest, the first costs as much as the second; all else takes no longer than copies without that wait, set.
func within(once, twice, set stat.Estimate) stat.Estimate {
	cost := max(0, twice.Value-once.Value)
	low, high := max(0, once.Value-cost), once.Value
	if set.Value > 0 {
		high = min(high, max(low, set.Value))
	}
	return stat.Estimate{Value: (low + high) / 2, Half: (high-low)/2 + max(once.Half, set.Half), N: once.N}
}

// report says in a result what was put back, or why not enough copies are all there is.
func (b *restoration) report(r *Result) {
	switch {
	case b == nil:
		return
	case b.regs == nil:
		r.warn("only %d copies stay within the captured state, and their time may be that of a start: %s", b.left.Copy, b.why)
		return
	}
	r.Captured.addLeft(b.left)
	r.Captured.PutBack, r.Captured.Once, r.Captured.Twice = b.regs, b.once.Value, b.twice.Value
	r.Captured.Set = b.set.Value
}
