// Package cause asks what makes a program's time depend on where its code and data stand. It finds the
// slowest size of the environment and a usual one, then takes the possible causes away one by one at the slowest,
// and holds all else: what the time follows is a cause.
//
//	sweep the sizes → slowest and usual → per hypothesis: with and without it, in random order → outcome
//	→ if the stack is a cause: the same sizes with the stack held, and whether they still differ
package cause

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/internal/stat"
)

const (
	Absent   stat.Outcome = "absent"   // the hypothesis does not apply
	Untested stat.Outcome = "untested" // no change was found that takes the cause away and leaves all else
)

// Finding is about one hypothesis.
type Finding struct {
	Hypothesis string         `json:"hypothesis"`
	Change     string         `json:"change"`          // or why there is none
	Setup      *program.Setup `json:"setup,omitempty"` // without the cause
	Outcome    stat.Outcome   `json:"verdict"`
	*Effect
}

// Effect is what a change does. With and Without are median cycles, Size is the median of their differences, run by
// run, and Low to High its interval from order statistics: those of all hypotheses together hold with 95 %.
type Effect struct {
	With    float64 `json:"with_cycles"`
	Without float64 `json:"without_cycles"`
	Size    float64 `json:"effect_cycles"`
	Low     float64 `json:"effect_low"`
	High    float64 `json:"effect_high"`
}

// Held is the same sizes of the environment with the stack held where it starts at the usual one: the slowest of these
// again, against another usual one.
type Held struct {
	Slow    int          `json:"slow_env_bytes"`
	Usual   int          `json:"usual_env_bytes"`
	Outcome stat.Outcome `json:"verdict"`
	Effect
}

// Explanation is what came of a program.
type Explanation struct {
	Sizes    int       `json:"sizes"`          // that were run
	Slow     int       `json:"slow_env_bytes"` // the size whose median is largest
	Usual    int       `json:"usual_env_bytes"`
	Findings []Finding `json:"findings"` // the first is whether the two sizes differ at all
	Held     *Held     `json:"held,omitempty"`
	// Incomplete says that it was interrupted: Findings lack what had too few rounds.
	Incomplete bool `json:"incomplete,omitzero"`
}

// Plan says how carefully to ask.
type Plan struct {
	Sizes   []int // of the environment
	Runs    int   // of each, to find the slowest
	Rounds  int   // of each test, at least LeastRounds for an interval
	Seed    uint64
	Movable bool // the program's code can be moved
	Trace   func(context.Context, program.Setup) (trace.Counts, error)
	NoTrace string      // why Trace is nil
	Done    func(n int) // is told how many runs there were, or need not be
}

// hypotheses is how many there are.
const hypotheses = 6

// Steps is how many runs a plan has at most.
func (p Plan) Steps() int { return 2*p.Runs*len(p.Sizes) + 2*p.Rounds*(hypotheses+1) }

// runner is what this asks of a program.Runner.
type runner interface {
	Run(context.Context, program.Command, program.Setup) (program.Sample, error)
	WarmUp(context.Context, program.Command, program.Setup) error
}

// arms are two set-ups of which the second lacks one thing that may be a cause.
type arms struct {
	name, change  string
	with, without program.Setup
	outcome       stat.Outcome // if there is nothing to run
}

// asking is one explanation under way.
type asking struct {
	Plan
	runner  runner
	command program.Command
	done    int
}

// LeastRounds is the fewest for intervals of as many medians as there are hypotheses, and of the stack held, that one run
// that other work slowed does not widen.
const LeastRounds = 12

const tests = hypotheses + 1

// Explain explains a program. If ctx ends, its error comes with what the runs until then say.
func Explain(ctx context.Context, r runner, c program.Command, p Plan) (Explanation, error) {
	a := &asking{Plan: p, runner: r, command: c}
	points, err := a.sweep(ctx, func(size int) program.Setup { return program.Setup{EnvBytes: size} })
	if len(points) == 0 || err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	e := Explanation{Sizes: len(points), Slow: points[len(points)-1].Setup.EnvBytes, Usual: points[len(points)/2].Setup.EnvBytes}
	var all []arms
	if err == nil {
		all, err = a.hypotheses(ctx, e.Slow, e.Usual)
	}
	var sides [][2][]float64
	if err == nil {
		sides, err = a.intervene(ctx, all)
	}
	e.Findings = findings(all, sides)
	if err == nil && e.confirmed(stackStart) {
		e.Held, err = a.hold(ctx, e.Usual)
	}
	if err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	a.Done(a.Steps())
	e.Incomplete = err != nil
	return e, err
}

func (e Explanation) confirmed(hypothesis string) bool {
	return slices.ContainsFunc(e.Findings, func(f Finding) bool { return f.Hypothesis == hypothesis && f.Outcome == stat.Confirmed })
}

// sweep runs the program with each size: the points that have a run, the fastest first.
func (a *asking) sweep(ctx context.Context, setup func(size int) program.Setup) ([]program.Point, error) {
	var setups []program.Setup
	for _, n := range a.Sizes {
		setups = append(setups, setup(n))
	}
	before := a.done
	points, err := program.Sweep(ctx, a.runner, a.command, setups, program.Plan{Runs: a.Runs, Seed: a.Seed, Done: func(n int) {
		a.done = before + n
		a.Done(a.done)
	}})
	points = slices.DeleteFunc(points, func(p program.Point) bool { return len(p.Cycles) == 0 })
	slices.SortStableFunc(points, func(a, b program.Point) int { return cmp.Compare(stat.Median(a.Cycles), stat.Median(b.Cycles)) })
	return points, err
}

// intervene runs the program with and without each cause: the cycles of both by hypothesis. With an error come those
// of the runs before it.
func (a *asking) intervene(ctx context.Context, all []arms) ([][2][]float64, error) {
	sides := make([][2][]float64, len(all))
	random := rand.New(rand.NewPCG(a.Seed, 4))
	for range a.Rounds {
		for _, one := range random.Perm(2 * len(all)) {
			h := all[one/2]
			if h.outcome != "" {
				continue
			}
			sample, err := a.runner.Run(ctx, a.command, [2]program.Setup{h.with, h.without}[one%2])
			if err != nil {
				return sides, err
			}
			side := &sides[one/2][one%2]
			*side = append(*side, sample.Cycles)
			a.done++
			a.Done(a.done)
		}
	}
	return sides, nil
}

// hold sweeps the sizes with the stack held, and compares the slowest with a usual one again, in new runs: the
// slowest of many is slow by chance too.
func (a *asking) hold(ctx context.Context, at int) (*Held, error) {
	held := func(size int) program.Setup { return program.Setup{EnvBytes: size, StackShift: lower(size, at)} }
	points, err := a.sweep(ctx, held)
	if err != nil {
		return nil, err
	}
	h := &Held{Slow: points[len(points)-1].Setup.EnvBytes, Usual: points[len(points)/2].Setup.EnvBytes}
	sides, err := a.intervene(ctx, []arms{{with: held(h.Slow), without: held(h.Usual)}})
	if err != nil {
		return nil, err
	}
	h.Effect, h.Outcome = judge(sides[0][0], sides[0][1])
	return h, nil
}

// findings are those of the hypotheses that had enough rounds, or need none.
func findings(all []arms, sides [][2][]float64) (found []Finding) {
	for i, h := range all {
		f := Finding{Hypothesis: h.name, Change: h.change, Outcome: h.outcome}
		if h.outcome == "" {
			rounds := 0
			if len(sides) > 0 {
				rounds = min(len(sides[i][0]), len(sides[i][1]))
			}
			if rounds < LeastRounds {
				continue
			}
			f.Setup = &all[i].without
			var e Effect
			e, f.Outcome = judge(sides[i][0][:rounds], sides[i][1][:rounds])
			f.Effect = &e
		}
		found = append(found, f)
	}
	return found
}

// judge derives effect, interval and outcome. Medians, because other work on the core slows single runs. The level is
// shared among all tests, so that one confirmation in twenty explanations is false at most.
func judge(with, without []float64) (e Effect, o stat.Outcome) {
	var differences []float64
	for i := range with {
		differences = append(differences, with[i]-without[i])
	}
	e.With, e.Without = stat.Median(with), stat.Median(without)
	e.Size, e.Low, e.High = stat.JointMedianInterval(differences, tests)
	return e, stat.OutcomeOf(e.Size, e.Low, e.High, min(e.With, e.Without))
}
