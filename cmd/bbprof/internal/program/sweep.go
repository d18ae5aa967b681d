package program

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Range is the numbers From, From+Step, … up to To.
type Range struct{ From, To, Step int }

// ParseRange reads FROM:TO:STEP, such as 0:8192:16; :STEP may be left away and is then 1.
func ParseRange(s string) (Range, error) {
	fields := strings.Split(s, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return Range{}, fmt.Errorf("%q is not a range; write FROM:TO:STEP, such as 0:8192:16", s)
	}
	r := Range{Step: 1}
	for i, to := range []*int{&r.From, &r.To, &r.Step}[:len(fields)] {
		n, err := strconv.Atoi(fields[i])
		if err != nil || n < 0 {
			return Range{}, fmt.Errorf("%q in %q is not a number from 0 on; write FROM:TO:STEP, such as 0:8192:16", fields[i], s)
		}
		*to = n
	}
	switch {
	case r.Step == 0:
		return Range{}, fmt.Errorf("a step of 0 in %q never ends; write FROM:TO:STEP, such as 0:8192:16", s)
	case r.From > r.To:
		return Range{}, fmt.Errorf("%q starts above its end; write FROM:TO:STEP, such as 0:8192:16", s)
	}
	return r, nil
}

func (r Range) Values() []int {
	var all []int
	for n := r.From; ; n += r.Step {
		all = append(all, n)
		if n > r.To-r.Step { // the next one, which may be more than an int holds
			return all
		}
	}
}

// Point is what a program took in one set-up.
type Point struct {
	Setup  Setup
	Cycles []float64 // core cycles of each run
	// Faults and Switches are the page faults and context switches of each run.
	Faults, Switches []float64
	Counts           []float64 // of the event that a Counter counted
}

// Plan says how often to run.
type Plan struct {
	Runs int            // in each set-up
	Seed uint64         // of the random order
	Done func(runs int) // is told how many are done
}

// runner is what sweeps and comparisons need of a Runner or a Counter.
type runner interface {
	Run(context.Context, Command, Setup) (Sample, error)
	WarmUp(context.Context, Command, Setup) error
}

// Sweep runs a command in each set-up. The order is random, and all set-ups have a run before any
// has its next, so that a drift of the machine affects all alike. If ctx ends, its error comes with the
// runs so far.
func Sweep(ctx context.Context, r runner, c Command, setups []Setup, plan Plan) ([]Point, error) {
	points := make([]Point, len(setups))
	for i, s := range setups {
		points[i].Setup = s
	}
	if err := r.WarmUp(ctx, c, setups[0]); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(plan.Seed, 1))
	count := 0
	for range plan.Runs {
		for _, i := range rng.Perm(len(setups)) {
			sample, err := r.Run(ctx, c, setups[i])
			if err != nil && ctx.Err() != nil {
				return points, ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			p := &points[i]
			p.Cycles = append(p.Cycles, sample.Cycles)
			p.Faults, p.Switches = append(p.Faults, float64(sample.Faults)), append(p.Switches, float64(sample.Switches))
			p.Counts = append(p.Counts, sample.Count)
			count++
			plan.Done(count)
		}
	}
	return points, nil
}

// Place is a program in a set-up.
type Place struct {
	Command Command
	Setup   Setup
}

// In are the places of one program in some set-ups.
func In(c Command, setups []Setup) []Place {
	places := make([]Place, len(setups))
	for i, s := range setups {
		places[i] = Place{c, s}
	}
	return places
}

// Pair is what two programs took in the same place, or each in one of its own.
type Pair struct {
	Setup Setup     // of a
	A, B  []float64 // core cycles of each run
}

// Compare runs two programs, each in its places, of which there are as many for both; they are the
// same where places are to be compared in pairs. The two alternate, and which of them runs first is
// drawn for each pair of runs, so that nothing that changes with time favours one. If ctx ends, its
// error comes with the places that were completed.
func Compare(ctx context.Context, r runner, a, b []Place, plan Plan) ([]Pair, error) {
	for _, side := range [][]Place{a, b} {
		if err := r.WarmUp(ctx, side[0].Command, a[0].Setup); err != nil {
			return nil, err
		}
	}
	pairs := make([]Pair, len(a))
	rng := rand.New(rand.NewPCG(plan.Seed, 2))
	for i := range pairs {
		p := &pairs[i]
		p.Setup = a[i].Setup
		for run := range plan.Runs {
			order := []struct {
				Place
				cycles *[]float64
			}{{a[i], &p.A}, {b[i], &p.B}}
			if rng.IntN(2) == 1 {
				order[0], order[1] = order[1], order[0]
			}
			for _, side := range order {
				sample, err := r.Run(ctx, side.Command, side.Setup)
				if err != nil && ctx.Err() != nil {
					return pairs[:i], ctx.Err()
				}
				if err != nil {
					return nil, err
				}
				*side.cycles = append(*side.cycles, sample.Cycles)
			}
			plan.Done(2 * (i*plan.Runs + run + 1))
		}
	}
	return pairs, nil
}
