package sweep

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Open starts a profiler that counts these events too; done ends it.
type Open func(events []profiler.Event) (p measure.Profiler, done func(), err error)

// Screened is what came of one event.
type Screened struct {
	Correlation           // of its count with the cycles that were measured beside it; Column is its name
	Counts      []float64 // per iteration at each value; NaN where it was not counted
	Why         string    // it cannot be counted at all
}

// atATime is how many events are counted in one sweep: with those of the invariants they fit the
// child (layout.MaxCounters) in as many passes as four counters take, the fewest of any core.
const atATime = 4

// Screen sweeps the factor once for every few events and correlates each with the cycles, the
// strongest first, as is done in "Measurement Bias from Address Aliasing": what goes along with the
// time is a candidate for its cause. An event that the kernel refuses says why; the others are still
// counted. plan.Done is told how many events are done.
func Screen(ctx context.Context, open Open, code []byte, f Factor, events []profiler.Event, plan Plan) ([]Screened, error) {
	var all []Screened
	for len(events) > 0 {
		some := events[:min(atATime, len(events))]
		got, err := screenSome(ctx, open, code, f, some, plan)
		if err != nil {
			return nil, err
		}
		all, events = append(all, got...), events[len(some):]
		if plan.Done != nil {
			plan.Done(len(all))
		}
	}
	slices.SortStableFunc(all, func(a, b Screened) int { return compareStrength(a.R, b.R) })
	return all, nil
}

// screenSome asks again for each event alone where not all of them can be counted.
func screenSome(ctx context.Context, open Open, code []byte, f Factor, events []profiler.Event, plan Plan) ([]Screened, error) {
	p, end, err := open(events)
	switch {
	case err == nil:
	case !refused(err):
		return nil, err
	case len(events) == 1:
		none := Screened{Correlation: Correlate(events[0].Name, nil, nil), Counts: make([]float64, len(f.Values)), Why: err.Error()}
		for i := range none.Counts {
			none.Counts[i] = math.NaN()
		}
		return []Screened{none}, nil
	default:
		var all []Screened
		for i := range events {
			got, err := screenSome(ctx, open, code, f, events[i:i+1], plan)
			if err != nil {
				return nil, err
			}
			all = append(all, got...)
		}
		return all, nil
	}
	defer end()
	plan.Done = nil
	points, err := Run(ctx, p, code, f, plan)
	if err != nil {
		return nil, err
	}
	var all []Screened
	for i, e := range events {
		s := Screened{}
		var x, cycles []float64
		for _, p := range points {
			n := asked(p.Result, i)
			if n == n && p.Result.Status == profiler.OK {
				x, cycles = append(x, n), append(cycles, p.Result.Cycles)
			}
			s.Counts = append(s.Counts, n)
		}
		s.Correlation = Correlate(e.Name, x, cycles)
		all = append(all, s)
	}
	return all, nil
}

// refused reports whether an error is about the events.
func refused(err error) bool {
	return errors.As(err, new(*profiler.EventError)) || errors.As(err, new(*verdict.HostError))
}

// asked is the count per iteration of the i-th event that was asked for; NaN if it was not counted.
func asked(r profiler.Result, i int) float64 {
	for _, c := range r.Counters {
		if c.Role != string(pmu.Asked) {
			continue
		}
		if i == 0 {
			if c.PerIteration != nil { // also where nobody knows what it must count
				return *c.PerIteration
			}
			break
		}
		i--
	}
	return math.NaN()
}
