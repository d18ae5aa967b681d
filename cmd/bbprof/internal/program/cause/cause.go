// Package cause finds why a program's time depends on the placement of its code and data. It finds the slowest and a
// usual size of the environment, then removes the possible causes one by one at the slowest size, with all else held:
// whatever changes the time is a cause.
//
//	sweep the sizes → slowest and usual → per hypothesis: with and without it, in random order → outcome
//	→ if the stack is a cause: the same sizes with the stack held, and whether they still differ
package cause

import (
	"cmp"
	"context"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/internal/stat"
)

// Held is the result of the same sizes with the stack fixed where it starts at the usual size: their slowest against
// another usual one.
type Held struct {
	Slow    int          `json:"slow_env_bytes"`
	Usual   int          `json:"usual_env_bytes"`
	Outcome stat.Outcome `json:"verdict"`
	experiment.Effect
}

type Explanation struct {
	Sizes    int                  `json:"sizes"`          // number run
	Slow     int                  `json:"slow_env_bytes"` // the size whose fastest run is the slowest
	Usual    int                  `json:"usual_env_bytes"`
	Findings []experiment.Finding `json:"findings"` // the first: whether the two sizes differ at all
	Held     *Held                `json:"held,omitempty"`
	// Incomplete means interrupted: Findings lacks those with too few rounds.
	Incomplete bool `json:"incomplete,omitzero"`
}

type Plan struct {
	Sizes   []int // of the environment
	Runs    int   // per size, to find the slowest
	Rounds  int   // per test, at least LeastRounds for an interval
	Seed    uint64
	Movable bool // the program's code can be moved
	Trace   func(context.Context, launch.Setup) (trace.Counts, error)
	NoTrace string      // why Trace is nil
	Done    func(n int) // receives the number of runs
}

const (
	hypotheses = 8
	tests      = hypotheses // one is never tested, and the held stack is
)

func (p Plan) Steps() int { return 2*p.Runs*len(p.Sizes) + 2*p.Rounds*tests }

// question is a hypothesis with two set-ups, the second without one possible cause.
type question = experiment.Question[launch.Setup]

type explainer struct {
	Plan
	runner  launch.Measurer
	command launch.Command
	done    int
}

// LeastRounds gives intervals for the medians of all hypotheses and the held stack that one slow run does not widen.
const LeastRounds = 12

// Explain explains a program. If ctx ends, its error comes with the findings so far.
func Explain(ctx context.Context, r launch.Measurer, c launch.Command, p Plan) (Explanation, error) {
	a := &explainer{Plan: p, runner: r, command: c}
	sizes, err := a.sweep(ctx, func(size int) launch.Setup { return launch.Setup{EnvBytes: size} })
	if len(sizes) == 0 || err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	e := Explanation{Sizes: len(sizes), Slow: sizes[len(sizes)-1], Usual: sizes[len(sizes)/2]}
	var all []question
	if err == nil {
		all, err = a.hypotheses(ctx, e.Slow, e.Usual)
	}
	if err == nil {
		e.Findings, err = a.ask(ctx, all)
	}
	if err == nil && slices.Contains(experiment.Confirmed(e.Findings), stackStart) {
		e.Held, err = a.hold(ctx, e.Usual)
	}
	if err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	a.Done(a.Steps())
	e.Incomplete = err != nil
	return e, err
}

func (a *explainer) progress() func(n int) {
	before := a.done
	return func(n int) {
		a.done = before + n
		a.Done(a.done)
	}
}

// sweep runs the program at each size and returns the sizes that have a run, the fastest first. A size is as fast as its
// fastest run: other work on the core makes runs slower, never faster, and of few runs it decides the median of some
// size among hundreds.
func (a *explainer) sweep(ctx context.Context, setup func(size int) launch.Setup) (sizes []int, err error) {
	var setups []launch.Setup
	for _, n := range a.Sizes {
		setups = append(setups, setup(n))
	}
	runs, err := launch.Sweep(ctx, a.runner, launch.In(a.command, setups), experiment.Plan{Rounds: a.Runs, Seed: a.Seed, Done: a.progress()})
	fastest := map[int]float64{}
	for i, of := range runs {
		if len(of) > 0 {
			sizes, fastest[a.Sizes[i]] = append(sizes, a.Sizes[i]), slices.Min(of)
		}
	}
	slices.SortStableFunc(sizes, func(a, b int) int { return cmp.Compare(fastest[a], fastest[b]) })
	return sizes, err
}

// ask runs the program with and without each cause. It uses medians, because other work on the core slows single runs.
func (a *explainer) ask(ctx context.Context, all []question) ([]experiment.Finding, error) {
	for i := range all {
		if all[i].Outcome == "" {
			all[i].Setup = all[i].Without
		}
	}
	options := experiment.Asking{Estimate: experiment.Median, Least: LeastRounds, Tests: tests,
		Plan: experiment.Plan{Rounds: a.Rounds, Seed: a.Seed, Done: a.progress()}}
	return experiment.Ask(ctx, options, all, func(ctx context.Context, s launch.Setup) (float64, error) {
		return a.runner.Run(ctx, a.command, s)
	})
}

// hold sweeps the sizes with the stack fixed and compares the slowest with a usual one in new runs, since the slowest
// of many is slow partly by chance.
func (a *explainer) hold(ctx context.Context, at int) (*Held, error) {
	held := func(size int) launch.Setup { return launch.Setup{EnvBytes: size, StackShift: lower(size, at)} }
	sizes, err := a.sweep(ctx, held)
	if err != nil {
		return nil, err
	}
	h := &Held{Slow: sizes[len(sizes)-1], Usual: sizes[len(sizes)/2]}
	found, err := a.ask(ctx, []question{{With: held(h.Slow), Without: held(h.Usual)}})
	if err != nil {
		return nil, err
	}
	h.Effect, h.Outcome = *found[0].Effect, found[0].Outcome
	return h, nil
}
