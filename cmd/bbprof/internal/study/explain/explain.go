// Package explain finds which part of a set-up determines a block's time. It forms hypotheses on which bbprof can
// intervene, changes one thing at a time, and measures both set-ups alternately: a difference is then due to the
// change, not to something correlated with it (Pearl, "Causality", 2009, 3.2: intervention).
//
//	measure the base → per hypothesis: is it there? → find the one change that ends it
//	→ measure with and without it, round by round → effect, interval, outcome
package explain

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/profiler"
)

type Explanation struct {
	Base     profiler.Result      `json:"base"`
	Findings []experiment.Finding `json:"findings"`
}

// DefaultRounds gives intervals of a few tenths of a percent on an idle core.
const DefaultRounds = 10

type question struct {
	ctx   context.Context
	p     pool.Profiler
	code  []byte
	insts []asm.Inst
	setup profiler.Setup
	base  profiler.Result
	err   error // the first; nothing is measured after it
}

// Explain explains a block in a set-up, which says where the code stands in its page. The results of p must carry
// predictions and the host (profiler.Options.Detail). If the block cannot be measured in the set-up, the Explanation
// has no findings. The plan's rounds are pairs per hypothesis.
func Explain(ctx context.Context, p pool.Profiler, code []byte, setup profiler.Setup, plan experiment.Plan) (Explanation, error) {
	q := &question{ctx: ctx, p: p, code: code, setup: setup}
	if q.base = q.measure(setup); q.base.Status != profiler.OK || q.base.Predicted == nil || q.base.Host == nil {
		return Explanation{Base: q.base}, q.err
	}
	if q.insts, q.err = asm.Decode(code); q.err != nil {
		return Explanation{Base: q.base}, q.err
	}
	var tests []test
	for _, h := range hypotheses {
		t := h.find(q)
		t.Hypothesis = h.name
		tests = append(tests, t)
	}
	asking := experiment.Asking{Plan: plan, Estimate: experiment.Mean, Least: leastRounds}
	findings, err := experiment.Ask(ctx, asking, tests, func(_ context.Context, a arm) (float64, error) {
		r := q.measureCode(cmp.Or(a.code, string(code)), a.Setup)
		if a.of == nil {
			return r.Cycles, q.err
		}
		return a.of(r), q.err
	})
	if err = cmp.Or(err, q.err); err != nil {
		return Explanation{}, err
	}
	return Explanation{Base: q.base, Findings: findings}, nil
}

// leastRounds is the fewest pairs for Student's interval.
const leastRounds = 3

// test is a hypothesis with the two set-ups, if any, that differ in it alone.
type test = experiment.Question[arm]

type arm struct {
	profiler.Setup
	of   func(profiler.Result) float64 // the compared value; nil means cycles
	code string                        // the block, if changed
}

func change(here, what string, with, without profiler.Setup) test {
	return test{Finding: experiment.Finding{Here: here, Change: what}, With: arm{Setup: with}, Without: arm{Setup: without}}
}

// measure measures the block in a set-up. The result is empty after an error.
func (q *question) measure(s profiler.Setup) profiler.Result { return q.measureCode(string(q.code), s) }

func (q *question) measureCode(code string, s profiler.Setup) (r profiler.Result) {
	if q.err != nil {
		return r
	}
	r, q.err = pool.Undisturbed(q.ctx, q.p, profiler.Block{Code: []byte(code), Setup: s})
	if q.err == nil && r.Status == profiler.Failed {
		q.err = fmt.Errorf("measuring in another set-up: %s", r.Failure)
	}
	return r
}
