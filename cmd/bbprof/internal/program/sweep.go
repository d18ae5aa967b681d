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
		return Range{}, fmt.Errorf("%q is no range; write FROM:TO:STEP, such as 0:8192:16", s)
	}
	r := Range{Step: 1}
	for i, to := range []*int{&r.From, &r.To, &r.Step}[:len(fields)] {
		n, err := strconv.Atoi(fields[i])
		if err != nil || n < 0 {
			return Range{}, fmt.Errorf("%q in %q is no number from 0 on; write FROM:TO:STEP, such as 0:8192:16", fields[i], s)
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

// Values are the numbers of a range.
func (r Range) Values() []int {
	var all []int
	for n := r.From; n <= r.To; n += r.Step {
		all = append(all, n)
	}
	return all
}

// Point is what a program took in one set-up.
type Point struct {
	Setup  Setup
	Cycles []float64 // core cycles of each run
}

// runner is what sweeps and comparisons need of a Runner.
type runner interface {
	Run(context.Context, Command, Setup) (Sample, error)
	WarmUp(context.Context, Command, Setup) error
}

// Sweep runs a command so many times in each set-up. The order is random by seed and all
// set-ups have had a turn before one has the next, so that a drift of the machine falls on
// all alike. done is told after each run how many there have been.
func Sweep(ctx context.Context, r runner, c Command, setups []Setup, runs int, seed uint64, done func(int)) ([]Point, error) {
	points := make([]Point, len(setups))
	for i, s := range setups {
		points[i].Setup = s
	}
	if err := r.WarmUp(ctx, c, setups[0]); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	count := 0
	for range runs {
		for _, i := range rng.Perm(len(setups)) {
			sample, err := r.Run(ctx, c, setups[i])
			if err != nil {
				return nil, err
			}
			points[i].Cycles = append(points[i].Cycles, sample.Cycles)
			count++
			done(count)
		}
	}
	return points, nil
}

// Pair is what two programs took in the same set-up, or each in one of its own.
type Pair struct {
	Setup Setup     // of a
	A, B  []float64 // core cycles of each run
}

// Compare runs two commands, each in as many set-ups, so many times in each; ofA and ofB are the same
// where set-ups are to be compared in pairs. Runs alternate, in an order drawn by seed for each
// pair, so that nothing that changes with time favours one.
func Compare(ctx context.Context, r runner, a, b Command, ofA, ofB []Setup, runs int, seed uint64, done func(int)) ([]Pair, error) {
	for _, c := range []Command{a, b} {
		if err := r.WarmUp(ctx, c, ofA[0]); err != nil {
			return nil, err
		}
	}
	pairs := make([]Pair, len(ofA))
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range pairs {
		p := &pairs[i]
		p.Setup = ofA[i]
		for run := range runs {
			sides := []struct {
				c      Command
				setup  Setup
				cycles *[]float64
			}{{a, ofA[i], &p.A}, {b, ofB[i], &p.B}}
			if rng.IntN(2) == 1 {
				sides[0], sides[1] = sides[1], sides[0]
			}
			for _, side := range sides {
				sample, err := r.Run(ctx, side.c, side.setup)
				if err != nil {
					return nil, err
				}
				*side.cycles = append(*side.cycles, sample.Cycles)
			}
			done(i*runs + run + 1)
		}
	}
	return pairs, nil
}
