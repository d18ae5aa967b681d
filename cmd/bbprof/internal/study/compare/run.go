package compare

import (
	"context"
	"errors"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/verdict"
)

// Measure measures one side once in a layout, in any unit, since differences are percentages. A *verdict.Rejection
// means that the side has no value in this layout; any other error ends the run.
type Measure func(ctx context.Context, l Layout) (float64, error)

type Measured struct {
	Layout Layout
	Sides  [][]float64
}

type Pair struct {
	Layout Layout    `json:"layout"`
	A      []float64 `json:"a"`
	B      []float64 `json:"b"`
}

func Pairs(all []Measured, side int) (pairs []Pair) {
	for _, m := range all {
		pairs = append(pairs, Pair{m.Layout, m.Sides[0], m.Sides[side]})
	}
	return pairs
}

// Dropped is a layout that does not count because one side could not be measured.
type Dropped struct {
	Layout    Layout             `json:"layout"`
	Side      string             `json:"side"` // a, b, …
	Rejection *verdict.Rejection `json:"rejection"`
}

const (
	// leastLayouts is the least number of layouts that gives a test a degree of freedom.
	leastLayouts = 2
	// giveUpAfter is how many layouts may be rejected before any is measured; then the rest is skipped, since each
	// rejection may cost its whole time budget.
	giveUpAfter = 4
)

// Run measures all sides in one layout after another, with plan's rounds in each. The error is a *SideError with a
// *verdict.Rejection if too few layouts could be measured. On error it also returns the layouts before.
func Run(ctx context.Context, layouts []Layout, plan experiment.Plan, sides []Measure) (all []Measured, dropped []Dropped, err error) {
	for i, l := range layouts {
		here := experiment.Plan{Rounds: plan.Rounds, Seed: plan.Seed + uint64(i)<<32, Done: func(n int) {
			if plan.Done != nil {
				plan.Done(i*plan.Rounds*len(sides) + n)
			}
		}}
		values, err := experiment.Run(ctx, len(sides), here, func(ctx context.Context, side int) (float64, error) {
			v, err := sides[side](ctx, l)
			if err != nil && !errors.As(err, new(*SideError)) {
				err = &SideError{Name(side), err}
			}
			return v, err
		})
		var (
			side      *SideError
			rejection *verdict.Rejection
		)
		switch {
		case err == nil:
			all = append(all, Measured{l, values})
			continue
		case !errors.As(err, &side) || !errors.As(err, &rejection):
			return all, dropped, err
		}
		dropped = append(dropped, Dropped{l, side.Side, rejection})
		if len(all) == 0 && len(dropped) == giveUpAfter {
			break
		}
	}
	if len(all) < leastLayouts && len(dropped) > 0 {
		return all, dropped, &SideError{dropped[0].Side, dropped[0].Rejection}
	}
	return all, dropped, nil
}

func Name(side int) string { return string(rune('a' + side)) }

type SideError struct {
	Side string
	Err  error
}

func (e *SideError) Error() string { return FlagOf(e.Side) + ": " + e.Err.Error() }
func (e *SideError) Unwrap() error { return e.Err }

// FlagOf returns the flag that gives a side: -a for the first, -b for the others.
func FlagOf(side string) string {
	if side > "b" {
		return "-b (side " + side + ")"
	}
	return "-" + side
}

// Value summarizes a layout's trials by their median, which one disturbed trial does not affect.
func Value(trials []float64) float64 { return stat.Median(trials) }
