// Package experiment compares arms (set-ups, blocks or programs). It measures them in rounds, each arm once per round
// in random order, so that drift affects all equally. Effects are differences within rounds.
package experiment

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/bbprof/bbprof/internal/stat"
)

type Plan struct {
	Rounds int
	Seed   uint64      // for the random order
	Done   func(n int) // receives the number of measurements so far; may be nil
}

// Run measures each arm once per round. The values are by arm, then by round. On error it also returns the values
// before it; if ctx has ended, the error is ctx's.
func Run[T any](ctx context.Context, arms int, p Plan, measure func(ctx context.Context, arm int) (T, error)) ([][]T, error) {
	values := make([][]T, arms)
	random := rand.New(rand.NewPCG(p.Seed, 0))
	n := 0
	for range p.Rounds {
		for _, arm := range random.Perm(arms) {
			if err := ctx.Err(); err != nil {
				return values, err
			}
			v, err := measure(ctx, arm)
			if err != nil {
				return values, cmp.Or(ctx.Err(), err)
			}
			values[arm] = append(values[arm], v)
			if n++; p.Done != nil {
				p.Done(n)
			}
		}
	}
	return values, nil
}

// Estimate returns a location estimate with its interval. The intervals of all tests hold jointly in 95 % of cases.
type Estimate func(values []float64, tests int) (middle, low, high float64)

func Mean(values []float64, tests int) (middle, low, high float64) {
	t := Joint(stat.OneSample(values), tests)
	return t.Mean, t.Low, t.High
}

// Median uses an interval from order statistics, for values that disturbances may enlarge.
func Median(values []float64, tests int) (middle, low, high float64) {
	return stat.JointMedianInterval(values, tests)
}

// Joint adjusts one of several tests: their intervals hold jointly in 95 % of cases, and the chance of any false
// positive is at most 5 % (Bonferroni).
func Joint(t stat.Test, tests int) stat.Test {
	if t.DF > 0 && tests > 1 {
		half := stat.Student(t.DF).Quantile(1-stat.Level/2/float64(tests)) * t.Error
		t.Low, t.High, t.P = t.Mean-half, t.Mean+half, min(t.P*float64(tests), 1)
	}
	return t
}

const (
	Absent   stat.Outcome = "absent"   // the cause is not present
	Untested stat.Outcome = "untested" // no change removes this cause and nothing else
)

type Finding struct {
	Hypothesis string       `json:"hypothesis"`
	Outcome    stat.Outcome `json:"verdict"`
	Here       string       `json:"here,omitempty"`   // how much of the cause is present
	Change     string       `json:"change,omitempty"` // what removes it, or why nothing does
	Setup      any          `json:"setup,omitempty"`  // without the cause
	*Effect
}

// Effect is the estimated difference between arms, round by round, with its interval.
type Effect struct {
	With    float64 `json:"with_cycles"`
	Without float64 `json:"without_cycles"`
	Size    float64 `json:"effect_cycles"`
	Low     float64 `json:"effect_low"`
	High    float64 `json:"effect_high"`
	Rounds  int     `json:"rounds"`
}

// Question is a hypothesis with two arms that differ in it alone. If Outcome is set, it needs no measurement.
type Question[A any] struct {
	Finding
	With, Without A
}

type Asking struct {
	Plan
	Estimate Estimate
	Least    int // rounds of both arms needed for an outcome
	Tests    int // number of joint intervals; 0: all questions that need measurements
}

// Ask measures the arms of all open questions. A round with a measurement of 0 does not count. On error it also returns
// the findings with enough rounds.
func Ask[A any](ctx context.Context, a Asking, questions []Question[A], measure func(context.Context, A) (float64, error)) ([]Finding, error) {
	var open []int
	for i, q := range questions {
		if q.Outcome == "" {
			open = append(open, i)
		}
	}
	if a.Tests == 0 {
		a.Tests = len(open)
	}
	values, err := Run(ctx, 2*len(open), a.Plan, func(ctx context.Context, arm int) (float64, error) {
		q := questions[open[arm/2]]
		return measure(ctx, []A{q.With, q.Without}[arm%2])
	})
	for k, i := range open {
		questions[i].evaluate(a, values[2*k], values[2*k+1])
	}
	var found []Finding
	for _, q := range questions {
		switch {
		case q.Outcome == "" && err != nil:
			continue
		case q.Outcome == "":
			q.Outcome = stat.Unclear
			q.Change += "; other work on the core left too few rounds"
		}
		found = append(found, q.Finding)
	}
	return found, err
}

func (q *Question[A]) evaluate(a Asking, with, without []float64) {
	var x, y, differences []float64
	for i := range min(len(with), len(without)) {
		if with[i] > 0 && without[i] > 0 {
			x, y, differences = append(x, with[i]), append(y, without[i]), append(differences, with[i]-without[i])
		}
	}
	if len(differences) < a.Least {
		return
	}
	e := &Effect{Rounds: len(differences)}
	e.With, _, _ = a.Estimate(x, 1)
	e.Without, _, _ = a.Estimate(y, 1)
	e.Size, e.Low, e.High = a.Estimate(differences, a.Tests)
	q.Effect, q.Outcome = e, stat.OutcomeOf(e.Size, e.Low, e.High, min(e.With, e.Without))
}

func Confirmed(findings []Finding) (names []string) {
	for _, f := range findings {
		if f.Outcome == stat.Confirmed {
			names = append(names, f.Hypothesis)
		}
	}
	return names
}
