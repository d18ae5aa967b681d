package sweep

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Open starts a profiler that also counts these events.
type Open func(events []string) (pool.ProfileCloser, error)

// atATime is the number of events per sweep: with the invariants' they fit the child (layout.MaxCounters) in as many
// passes as four counters, the fewest of any core, take.
const atATime = 4

// Screen sweeps the factor once per few events and returns their counts per iteration as columns. As in "Measurement
// Bias from Address Aliasing", an event that correlates with the time may be its cause. An event that the kernel
// refuses says why; the others are still counted. plan.Done receives the number of events done.
func Screen(ctx context.Context, open Open, code []byte, f Factor, events []string, plan experiment.Plan) (all []Column, err error) {
	for some := range slices.Chunk(events, atATime) {
		got, err := screenSome(ctx, open, code, f, some, experiment.Plan{Rounds: plan.Rounds, Seed: plan.Seed})
		if err != nil {
			return nil, err
		}
		if all = append(all, got...); plan.Done != nil {
			plan.Done(len(all))
		}
	}
	return all, nil
}

// screenSome retries each event alone if they cannot all be counted together.
func screenSome(ctx context.Context, open Open, code []byte, f Factor, events []string, plan experiment.Plan) (all []Column, err error) {
	p, err := open(events)
	switch refused := errors.As(err, new(*profiler.EventError)) || errors.As(err, new(*verdict.HostError)); {
	case err == nil:
	case !refused:
		return nil, err
	case len(events) == 1:
		return []Column{{Name: events[0], Why: err.Error(), Values: slices.Repeat([]float64{math.NaN()}, len(f.Values))}}, nil
	default:
		for i := range events {
			got, err := screenSome(ctx, open, code, f, events[i:i+1], plan)
			if err != nil {
				return nil, err
			}
			all = append(all, got...)
		}
		return all, nil
	}
	defer p.Close()
	results, err := Run(ctx, p, code, f, plan)
	if err != nil {
		return nil, err
	}
	for i, name := range events {
		c := Column{Name: name}
		for _, r := range results {
			c.Values = append(c.Values, asked(r, i))
		}
		all = append(all, c)
	}
	return all, nil
}

// asked returns the count per iteration of the i-th requested event; NaN if it was not counted.
func asked(r profiler.Result, i int) float64 {
	asked := slices.DeleteFunc(slices.Clone(r.Counters), func(c profiler.CounterReport) bool { return c.Role != string(pmu.Asked) })
	if i < len(asked) && asked[i].PerIteration != nil { // even if its expected count is unknown
		return *asked[i].PerIteration
	}
	return math.NaN()
}
