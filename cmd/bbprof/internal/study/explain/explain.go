// Package explain asks which part of a set-up makes a block's time. It forms the hypotheses that
// bbprof can intervene on, changes one thing at a time, holds all others, and measures both
// set-ups in turn: what a difference comes from is then what was changed, and not what merely goes
// along with it (Pearl, "Causality", 2009, 3.2: intervention).
//
//	measure the base → per hypothesis: is it there? → find the one change that ends it
//	→ measure with and without it, round by round → effect, interval, verdict
package explain

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
)

// Outcomes of a hypothesis that no experiment tests.
const (
	Absent   stat.Outcome = "absent"   // the set-up has nothing of it to take away
	Untested stat.Outcome = "untested" // no change was found that takes it away and nothing else
)

// Finding is about one hypothesis.
type Finding struct {
	Hypothesis string       `json:"hypothesis"`
	Outcome    stat.Outcome `json:"verdict"`
	Here       string       `json:"here"`             // what of it is in the set-up asked for
	Change     string       `json:"change,omitempty"` // what was done about it
	// With and Without are mean cycles per iteration in both set-ups, Effect is the mean of their
	// differences, round by round, and Low to High its interval: all tested hypotheses' intervals
	// together hold the truth with 95 % probability.
	With    float64 `json:"with_cycles,omitzero"`
	Without float64 `json:"without_cycles,omitzero"`
	Effect  float64 `json:"effect_cycles,omitzero"`
	Low     float64 `json:"effect_low,omitzero"`
	High    float64 `json:"effect_high,omitzero"`
	Rounds  int     `json:"rounds,omitzero"`
}

// Explanation is what came of a block.
type Explanation struct {
	Base     profiler.Result `json:"base"`
	Findings []Finding       `json:"findings"`
	// Layouts says what decides between layouts; nil if not all of them were measured.
	Layouts *Layouts `json:"layouts,omitempty"`
}

// Causes are the confirmed hypotheses.
func (e Explanation) Causes() (names []string) {
	for _, f := range e.Findings {
		if f.Outcome == stat.Confirmed {
			names = append(names, f.Hypothesis)
		}
	}
	return names
}

// Options say how carefully to ask.
type Options struct {
	Rounds int    // pairs for each hypothesis, default DefaultRounds
	Seed   uint64 // of the random order within a round
}

// DefaultRounds are pairs enough for an interval of some tenths of a percent on an idle core.
const DefaultRounds = 10

type question struct {
	ctx   context.Context
	p     measure.Profiler
	code  []byte
	insts []asm.Inst
	setup profiler.Setup
	base  profiler.Result
	opts  Options
	grid  *grid    // where layouts differ
	found *Layouts // what came of it
}

// Explain explains a block in a set-up; where that leaves the code's place open, it is the start
// of a page. The results of p must carry predictions and the host (profiler.Options.Detail). A block
// that cannot be measured in the set-up has an Explanation without findings.
func Explain(ctx context.Context, p measure.Profiler, code []byte, setup profiler.Setup, opts Options) (Explanation, error) {
	if opts.Rounds == 0 {
		opts.Rounds = DefaultRounds
	}
	if setup.CodeOffset == nil {
		setup.CodeOffset = new(0)
	}
	q := &question{ctx: ctx, p: p, code: code, setup: setup, opts: opts}
	var err error
	if q.base, err = q.measure(setup); err != nil || q.base.Status != profiler.OK || q.base.Predicted == nil || q.base.Host == nil {
		return Explanation{Base: q.base}, err
	}
	if q.insts, err = asm.Decode(code); err != nil {
		return Explanation{Base: q.base}, err
	}
	var tests []test
	for _, h := range hypotheses {
		t, err := h.find(q)
		if err != nil {
			return Explanation{}, err
		}
		t.finding.Hypothesis = h.name
		tests = append(tests, t)
	}
	if err := q.compare(tests); err != nil {
		return Explanation{}, err
	}
	e := Explanation{Base: q.base, Layouts: q.found}
	for _, t := range tests {
		e.Findings = append(e.Findings, t.finding)
	}
	return e, nil
}

// test is a hypothesis with the two set-ups that differ in it alone, if there are any.
type test struct {
	finding       Finding
	with, without profiler.Setup
	of            func(profiler.Result) float64 // what is compared; nil is the cycles
	pairs         [][2]float64
}

func (t *test) open() bool { return t.finding.Outcome == "" }

func (q *question) measure(s profiler.Setup) (r profiler.Result, err error) {
	r, err = measure.Undisturbed(q.ctx, q.p, profiler.Block{Code: q.code, Setup: s})
	if err == nil && r.Status == profiler.Failed {
		err = fmt.Errorf("measuring in another set-up: %s", r.Failure)
	}
	return r, err
}

// compare runs all open tests, round by round, the set-ups of all in random order.
func (q *question) compare(tests []test) error {
	random := rand.New(rand.NewPCG(q.opts.Seed, 0))
	type arm struct {
		test int
		side int
	}
	for range q.opts.Rounds {
		var arms []arm
		for i := range tests {
			if tests[i].open() {
				arms = append(arms, arm{i, 0}, arm{i, 1})
			}
		}
		random.Shuffle(len(arms), func(i, j int) { arms[i], arms[j] = arms[j], arms[i] })
		got := make([][2]float64, len(tests))
		for _, a := range arms {
			setup := [2]profiler.Setup{tests[a.test].with, tests[a.test].without}[a.side]
			r, err := q.measure(setup)
			if err != nil {
				return err
			}
			got[a.test][a.side] = r.Cycles
			if of := tests[a.test].of; of != nil {
				got[a.test][a.side] = of(r)
			}
		}
		for i := range tests {
			if got[i][0] > 0 && got[i][1] > 0 {
				tests[i].pairs = append(tests[i].pairs, got[i])
			}
		}
	}
	open := 0
	for i := range tests {
		if tests[i].open() {
			open++
		}
	}
	for i := range tests {
		if tests[i].open() {
			tests[i].judge(open)
		}
	}
	return nil
}

// judge derives effect, interval and verdict from the pairs. The level is shared among all tests
// (Bonferroni), so that one confirmation in twenty explanations is false at most.
func (t *test) judge(tests int) {
	f := &t.finding
	f.Rounds = len(t.pairs)
	if f.Rounds < 3 {
		f.Outcome = stat.Unclear
		f.Change += "; other work on the core left too few rounds"
		return
	}
	var with, without, differences []float64
	for _, p := range t.pairs {
		with, without = append(with, p[0]), append(without, p[1])
		differences = append(differences, p[0]-p[1])
	}
	effect := stat.OneSample(differences)
	half := stat.Student(effect.DF).Quantile(1-0.025/float64(tests)) * effect.Error
	f.With, f.Without = stat.Mean(with), stat.Mean(without)
	f.Effect, f.Low, f.High = effect.Mean, effect.Mean-half, effect.Mean+half
	f.Outcome = stat.OutcomeOf(f.Effect, f.Low, f.High, min(f.With, f.Without))
}
