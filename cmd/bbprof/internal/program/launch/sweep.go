package launch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
)

// Range is the numbers From, From+Step, … up to To.
type Range struct{ From, To, Step int }

// ParseRange reads FROM:TO:STEP, such as 0:8192:16; STEP defaults to 1.
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
		if n > r.To-r.Step { // the next one might overflow
			return all
		}
	}
}

// Measurer is a [Runner], or a test's.
type Measurer interface {
	Run(context.Context, Command, Setup) (float64, error)
	WarmUp(context.Context, Command, Setup) error
}

type Place struct {
	Command Command
	Setup   Setup
}

// In returns the places of one program in several set-ups.
func In(c Command, setups []Setup) []Place {
	places := make([]Place, len(setups))
	for i, s := range setups {
		places[i] = Place{c, s}
	}
	return places
}

// Sweep runs a program in each place, round by round, and returns the cycles by place; on error those of the runs before it.
func Sweep(ctx context.Context, r Measurer, places []Place, plan experiment.Plan) ([][]float64, error) {
	if err := r.WarmUp(ctx, places[0].Command, places[0].Setup); err != nil {
		return nil, err
	}
	return experiment.Run(ctx, len(places), plan, func(ctx context.Context, i int) (float64, error) {
		return r.Run(ctx, places[i].Command, places[i].Setup)
	})
}
