package compare

import (
	"context"
	"errors"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/verdict"
)

// Measure measures one side once in a layout, in any unit: differences are percentages. A
// *verdict.Rejection says that the side has no value in this layout; any other error ends the run.
type Measure func(ctx context.Context, l Layout) (float64, error)

// Pair is what was measured in one layout: a value of either side for each repetition.
type Pair struct {
	Layout Layout    `json:"layout"`
	A      []float64 `json:"a"`
	B      []float64 `json:"b"`
}

// Dropped is a layout in which one side could not be measured, so that neither counts.
type Dropped struct {
	Layout    Layout             `json:"layout"`
	Side      string             `json:"side"` // a or b
	Rejection *verdict.Rejection `json:"rejection"`
}

const (
	// leastLayouts is the smallest number of layouts that a test has a degree of freedom for.
	leastLayouts = 2
	// hopeless is how many layouts may be rejected before any was measured; then the rest is not
	// tried, since each rejected one may cost its whole time budget.
	hopeless = 4
)

// Run measures both sides in all layouts, repetition by repetition in the order that was drawn. The
// error is a *SideError with a *verdict.Rejection if too few layouts could be measured.
func Run(ctx context.Context, layouts []Layout, a, b Measure) (pairs []Pair, dropped []Dropped, err error) {
	for _, l := range layouts {
		p := Pair{Layout: l}
		err := p.measure(ctx, a, b)
		var (
			side      *SideError
			rejection *verdict.Rejection
		)
		switch {
		case err == nil:
			pairs = append(pairs, p)
			continue
		case !errors.As(err, &side) || !errors.As(err, &rejection):
			return pairs, dropped, err
		}
		dropped = append(dropped, Dropped{l, side.Side, rejection})
		if len(pairs) == 0 && len(dropped) == hopeless {
			break
		}
	}
	if len(pairs) < leastLayouts && len(dropped) > 0 {
		return pairs, dropped, &SideError{dropped[0].Side, dropped[0].Rejection}
	}
	return pairs, dropped, nil
}

// measure takes the repetitions of a layout. An error of one side's measurement is a *SideError.
func (p *Pair) measure(ctx context.Context, a, b Measure) error {
	for _, bFirst := range p.Layout.BFirst {
		order := [2]int{0, 1}
		if bFirst {
			order = [2]int{1, 0}
		}
		for _, side := range order {
			if err := ctx.Err(); err != nil {
				return err
			}
			v, err := [2]Measure{a, b}[side](ctx, p.Layout)
			if err != nil {
				return &SideError{sides[side], err}
			}
			values := [2]*[]float64{&p.A, &p.B}[side]
			*values = append(*values, v)
		}
	}
	return nil
}

// RunUnpaired measures a in its layouts and b in others, alternately. The values of a pair then
// have no layout in common.
func RunUnpaired(ctx context.Context, ofA, ofB []Layout, a, b Measure) (pairs []Pair, dropped []Dropped, err error) {
	other := map[int]Layout{}
	for _, l := range ofB {
		other[l.Number] = l
	}
	return Run(ctx, ofA, a, func(ctx context.Context, l Layout) (float64, error) { return b(ctx, other[l.Number]) })
}

// Value is what the repetitions in a layout say: their median, which one disturbed repetition does
// not move.
func Value(repetitions []float64) float64 { return stat.Median(repetitions) }
