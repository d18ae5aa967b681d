package compare

import (
	"context"
	"errors"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/verdict"
)

// Measure measures one side once in a layout, in whatever unit: differences are percentages. A
// *verdict.Rejection says that there is no number in this layout; any other error ends the run.
type Measure func(ctx context.Context, l Layout) (float64, error)

// Pair is what was measured in one layout: a value of either side for each trial.
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

// hopeless is how many layouts a side may be rejected in before any was measured, until it is
// said to be rejected in all.
const hopeless = 4

// noisyTries is how often a value is asked for while other work disturbs it.
const noisyTries = 2

// Run measures both sides in all layouts, trial by trial in the order that was drawn. The error is
// a *SideError with a *verdict.Rejection if a side could not be measured in any of the first layouts.
func Run(ctx context.Context, layouts []Layout, a, b Measure) (pairs []Pair, dropped []Dropped, err error) {
	for _, l := range layouts {
		p := Pair{Layout: l}
		side, err := p.measure(ctx, a, b)
		var rejection *verdict.Rejection
		switch {
		case err == nil:
			pairs = append(pairs, p)
			continue
		case !errors.As(err, &rejection):
			return pairs, dropped, err
		}
		dropped = append(dropped, Dropped{l, side, rejection})
		if len(pairs) == 0 && len(dropped) == min(hopeless, len(layouts)) {
			return nil, dropped, &SideError{side, rejection}
		}
	}
	return pairs, dropped, nil
}

// measure takes the trials of a layout; side is the one that err is about.
func (p *Pair) measure(ctx context.Context, a, b Measure) (side string, err error) {
	one := func(name string, m Measure, to *[]float64) error {
		v, err := patient(ctx, m, p.Layout)
		if err != nil {
			side = name
			return err
		}
		*to = append(*to, v)
		return nil
	}
	for _, bFirst := range p.Layout.BFirst {
		first := func() error { return one("a", a, &p.A) }
		second := func() error { return one("b", b, &p.B) }
		if bFirst {
			first, second = second, first
		}
		if err := first(); err != nil {
			return side, err
		}
		if err := second(); err != nil {
			return side, err
		}
	}
	return "", nil
}

// patient asks again for a value that other work on the core disturbed.
func patient(ctx context.Context, m Measure, l Layout) (v float64, err error) {
	for range noisyTries {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var rejection *verdict.Rejection
		v, err = m(ctx, l)
		if !errors.As(err, &rejection) || !rejection.Reason.Noise() {
			break
		}
	}
	return v, err
}

// RunUnpaired measures a in its layouts and b in others, in turns. Pairs are of no layout in common.
func RunUnpaired(ctx context.Context, ofA, ofB []Layout, a, b Measure) (pairs []Pair, dropped []Dropped, err error) {
	other := map[int]Layout{}
	for _, l := range ofB {
		other[l.Number] = l
	}
	return Run(ctx, ofA, a, func(ctx context.Context, l Layout) (float64, error) { return b(ctx, other[l.Number]) })
}

// Value is what the trials of a layout say: their median, which one that was disturbed does not
// move.
func Value(trials []float64) float64 { return stat.Median(trials) }
