// Package cause asks what makes a program's time depend on the size of its environment. It finds the
// slowest size and a usual one, then takes the possible causes away one by one at the slowest, and
// holds all else: what the time follows is a cause.
//
//	sweep the sizes → slowest and usual → per hypothesis: with and without it, in random order → verdict
package cause

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/internal/stat"
)

// Finding is about one hypothesis.
type Finding struct {
	Hypothesis string        `json:"hypothesis"`
	Change     string        `json:"change"`
	Setup      program.Setup `json:"setup"` // without the cause
	Outcome    stat.Outcome  `json:"verdict"`
	// With and Without are median cycles, Effect is the median of their differences, run by run, and Low
	// to High its 95 % interval from order statistics.
	With    float64 `json:"with_cycles"`
	Without float64 `json:"without_cycles"`
	Effect  float64 `json:"effect_cycles"`
	Low     float64 `json:"effect_low"`
	High    float64 `json:"effect_high"`
}

// Explanation is what came of a program.
type Explanation struct {
	Sizes    int       `json:"sizes"`          // that were run
	Slow     int       `json:"slow_env_bytes"` // the size whose median is largest
	Usual    int       `json:"usual_env_bytes"`
	Findings []Finding `json:"findings"` // the first is whether the two sizes differ at all
	// Incomplete says that it was interrupted: Findings lack what had too few rounds.
	Incomplete bool `json:"incomplete,omitzero"`
}

// Plan says how carefully to ask.
type Plan struct {
	Sizes  []int // of the environment
	Runs   int   // of each, to find the slowest
	Rounds int   // of each test, at least 6 for an interval
	Seed   uint64
	Done   func(n int) // is told how many runs there were
}

// Steps is how many runs a plan has.
func (p Plan) Steps() int { return p.Runs*len(p.Sizes) + p.Rounds*2*len(hypotheses) }

// runner is what this asks of a program.Runner.
type runner interface {
	Run(context.Context, program.Command, program.Setup) (program.Sample, error)
	WarmUp(context.Context, program.Command, program.Setup) error
}

// far is an odd number of lines, a quarter of a page.
const (
	page = 4096 // beyond which addresses repeat in their low 12 bits
	far  = 1088
)

// stackBelow is by how much the stack starts lower at a size of the environment than with none.
func stackBelow(size int) int { return (size + 15) / 16 * 16 }

// hypotheses make of the slow and the usual size the two set-ups that differ in one thing.
var hypotheses = []struct {
	name, change string
	setups       func(slow, usual int) (with, without program.Setup)
}{
	{"size of the environment", "the usual size",
		func(slow, usual int) (with, without program.Setup) {
			return program.Setup{EnvBytes: slow}, program.Setup{EnvBytes: usual}
		}},
	{"start of the stack", "the stack starts where it does at the usual size; the environment is as large as before",
		func(slow, usual int) (with, without program.Setup) {
			shift := (stackBelow(usual) - stackBelow(slow) + 64*page) % page
			return program.Setup{EnvBytes: slow}, program.Setup{EnvBytes: slow, StackShift: shift}
		}},
	{"environment itself", "the usual size, with the stack where it starts at the slow one",
		func(slow, usual int) (with, without program.Setup) {
			shift := (stackBelow(slow) - stackBelow(usual) + 64*page) % page
			return program.Setup{EnvBytes: slow}, program.Setup{EnvBytes: usual, StackShift: shift}
		}},
	{"start of the heap", "the heap starts 1088 bytes higher",
		func(slow, _ int) (with, without program.Setup) {
			return program.Setup{EnvBytes: slow}, program.Setup{EnvBytes: slow, HeapShift: far}
		}},
}

// leastRounds is the fewest for an interval of a median.
const leastRounds = 6

// Explain explains a program. If ctx ends, its error comes with what the runs until then say.
func Explain(ctx context.Context, r runner, c program.Command, p Plan) (Explanation, error) {
	setups := make([]program.Setup, len(p.Sizes))
	for i, n := range p.Sizes {
		setups[i].EnvBytes = n
	}
	points, err := program.Sweep(ctx, r, c, setups, program.Plan{Runs: p.Runs, Seed: p.Seed, Done: p.Done})
	points = slices.DeleteFunc(points, func(p program.Point) bool { return len(p.Cycles) == 0 })
	if len(points) == 0 || err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	slices.SortStableFunc(points, func(a, b program.Point) int { return cmp.Compare(stat.Median(a.Cycles), stat.Median(b.Cycles)) })
	e := Explanation{Sizes: len(points), Slow: points[len(points)-1].Setup.EnvBytes, Usual: points[len(points)/2].Setup.EnvBytes}
	var pairs [][2][]float64
	if err == nil {
		pairs, err = intervene(ctx, r, c, p, e)
	}
	if err != nil && ctx.Err() == nil {
		return Explanation{}, err
	}
	e.Incomplete = err != nil
	for i, sides := range pairs {
		rounds := min(len(sides[0]), len(sides[1]))
		if rounds < leastRounds {
			continue
		}
		h := hypotheses[i]
		f := judge(sides[0][:rounds], sides[1][:rounds])
		_, f.Setup = h.setups(e.Slow, e.Usual)
		f.Hypothesis, f.Change = h.name, h.change
		e.Findings = append(e.Findings, f)
	}
	return e, err
}

// intervene runs the program with and without each cause: the cycles of both by hypothesis. With an error come those
// of the runs before it.
func intervene(ctx context.Context, r runner, c program.Command, p Plan, e Explanation) ([][2][]float64, error) {
	pairs := make([][2][]float64, len(hypotheses))
	random := rand.New(rand.NewPCG(p.Seed, 4))
	done := p.Runs * len(p.Sizes)
	for range p.Rounds {
		for _, arm := range random.Perm(2 * len(hypotheses)) {
			with, without := hypotheses[arm/2].setups(e.Slow, e.Usual)
			sample, err := r.Run(ctx, c, [2]program.Setup{with, without}[arm%2])
			if err != nil {
				return pairs, err
			}
			side := &pairs[arm/2][arm%2]
			*side = append(*side, sample.Cycles)
			done++
			p.Done(done)
		}
	}
	return pairs, nil
}

// judge derives effect, interval and outcome. Medians, because other work on the core slows single runs.
func judge(with, without []float64) (f Finding) {
	var differences []float64
	for i := range with {
		differences = append(differences, with[i]-without[i])
	}
	f.With, f.Without = stat.Median(with), stat.Median(without)
	f.Effect, f.Low, f.High = stat.MedianInterval(differences)
	f.Outcome = stat.OutcomeOf(f.Effect, f.Low, f.High, min(f.With, f.Without))
	return f
}
