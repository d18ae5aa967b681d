// Package cause finds why a program's time depends on the placement of its code and data. It finds the slowest and a
// usual size of the environment, then removes the possible causes one by one at the slowest size, with all else held:
// whatever changes the time is a cause.
//
//	sweep the sizes → slowest and usual → per hypothesis: with and without it, in random order → outcome
package cause

import (
	"cmp"
	"context"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/internal/stat"
)

type Explanation struct {
	Sizes    int                  `json:"sizes"`          // number run
	Slow     int                  `json:"slow_env_bytes"` // the size with the largest median
	Usual    int                  `json:"usual_env_bytes"`
	Findings []experiment.Finding `json:"findings"` // the first: whether the two sizes differ at all
	// Incomplete means interrupted: Findings lacks those with too few rounds.
	Incomplete bool `json:"incomplete,omitzero"`
}

type Plan struct {
	Sizes   []int // of the environment
	Runs    int   // per size, to find the slowest
	Rounds  int   // per test, at least LeastRounds for an interval
	Seed    uint64
	Trace   func(context.Context, program.Setup) (trace.Counts, error)
	NoTrace string      // why Trace is nil
	Done    func(n int) // receives the number of runs; may be nil
}

const hypotheses = 5

func (p Plan) Steps() int { return p.Runs*len(p.Sizes) + 2*p.Rounds*hypotheses }

type runner interface {
	Run(context.Context, program.Command, program.Setup) (program.Sample, error)
	WarmUp(context.Context, program.Command, program.Setup) error
}

// question is a hypothesis with two set-ups, the second without one possible cause.
type question = experiment.Question[program.Setup]

// LeastRounds gives intervals for the medians of all hypotheses that one slow run does not widen.
const LeastRounds = 12

// Explain explains a program. If ctx ends, its error comes with the findings so far.
func Explain(ctx context.Context, r runner, c program.Command, p Plan) (e Explanation, err error) {
	sizes, err := p.sweep(ctx, r, c)
	if len(sizes) == 0 || err != nil && ctx.Err() == nil {
		return e, err
	}
	e = Explanation{Sizes: len(sizes), Slow: sizes[len(sizes)-1], Usual: sizes[len(sizes)/2]}
	var all []question
	if err == nil {
		all, err = p.hypotheses(ctx, e.Slow, e.Usual)
	}
	if err == nil {
		for i := range all {
			if all[i].Outcome == "" {
				all[i].Setup = all[i].Without
			}
		}
		before := p.Runs * len(p.Sizes)
		options := experiment.Asking{Estimate: experiment.Median, // because other work on the core slows single runs
			Least: LeastRounds, Tests: hypotheses,
			Plan: experiment.Plan{Rounds: p.Rounds, Seed: p.Seed, Done: func(n int) { p.Done(before + n) }}}
		e.Findings, err = experiment.Ask(ctx, options, all, func(ctx context.Context, s program.Setup) (float64, error) {
			sample, err := r.Run(ctx, c, s)
			return sample.Cycles, err
		})
	}
	if err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	p.Done(p.Steps())
	e.Incomplete = err != nil
	return e, err
}

// sweep runs the program at each size and returns the sizes that have a run, the fastest first.
func (p Plan) sweep(ctx context.Context, r runner, c program.Command) (sizes []int, err error) {
	var setups []program.Setup
	for _, n := range p.Sizes {
		setups = append(setups, program.Setup{EnvBytes: n})
	}
	runs, err := program.Sweep(ctx, r, program.In(c, setups), experiment.Plan{Rounds: p.Runs, Seed: p.Seed, Done: p.Done})
	median := map[int]float64{}
	for i, of := range runs {
		if len(of) > 0 {
			sizes, median[p.Sizes[i]] = append(sizes, p.Sizes[i]), stat.Median(program.Cycles(of))
		}
	}
	slices.SortStableFunc(sizes, func(a, b int) int { return cmp.Compare(median[a], median[b]) })
	return sizes, err
}
