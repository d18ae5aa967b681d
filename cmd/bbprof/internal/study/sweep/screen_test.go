package sweep

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// counting is a core that aliases and has events: "alias" goes along with the cycles, "against" the other
// way, "steady" is always the same, "distance" grows, "half" is counted at every other value.
type counting struct {
	fake
	events []profiler.Event
}

func (c *counting) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	r, err := c.fake.Profile(ctx, b)
	r.Counters = []profiler.CounterReport{{Role: string(pmu.L1IMiss), Kind: invariants.Counted, PerIteration: new(7.0)}}
	d := distance(b.Setup)
	for _, e := range c.events {
		n := map[string]float64{"alias": r.Cycles - 1, "against": 3 - r.Cycles, "steady": 2, "distance": float64(d), "half": r.Cycles}[e.Name]
		report := profiler.CounterReport{Role: string(pmu.Asked), Event: e.By, Kind: invariants.Counted, PerIteration: &n}
		if e.Name == "half" && d%32 != 0 {
			report = profiler.CounterReport{Role: string(pmu.Asked), Event: e.By, Kind: invariants.Unchecked, Why: "it was not counted"}
		}
		r.Counters = append(r.Counters, report)
	}
	return r, err
}

// opener counts what is open, and refuses events called "no".
func opener(open *int, most *int) Open {
	return func(events []profiler.Event) (measure.Profiler, func(), error) {
		*most = max(*most, len(events))
		if slices.ContainsFunc(events, func(e profiler.Event) bool { return e.Name == "no" }) {
			return nil, nil, &verdict.HostError{Missing: "the event no"}
		}
		*open++
		return &counting{fake{of: aliasing}, events}, func() { *open-- }, nil
	}
}

func selected(names ...string) (s []profiler.Event) {
	for _, n := range names {
		s = append(s, profiler.Event{Name: n, By: "r" + n})
	}
	return s
}

// TestScreen: events are ranked by how they go along with the cycles; one that is refused takes none
// with it.
func TestScreen(t *testing.T) {
	var open, most, done int
	f := distances(t, 4000, 4200, 16)
	got := require.Get(Screen(context.Background(), opener(&open, &most), []byte{0x90}, f, selected("steady", "no", "distance", "alias", "half", "against"), Plan{Runs: 1, Seed: 1, Done: func(n int) { done = n }}))(t)
	var names []string
	for _, s := range got {
		names = append(names, s.Column)
		if len(s.Counts) != len(f.Values) {
			t.Errorf("%s: %d counts", s.Column, len(s.Counts))
		}
		switch s.Column {
		case "alias":
			if s.R < 0.999 || s.N != 13 || s.Counts[6] != 0.5 || s.Counts[5] != 0 {
				t.Errorf("%+v", s)
			}
		case "against":
			if s.R > -0.999 {
				t.Errorf("%+v", s)
			}
		case "half":
			if s.N != 7 || s.R < 0.999 || !math.IsNaN(s.Counts[1]) {
				t.Errorf("%+v", s)
			}
		case "distance":
			if math.Abs(s.R) > 0.3 {
				t.Errorf("%+v", s)
			}
		case "no":
			if !strings.Contains(s.Why, "the event no") || !math.IsNaN(s.R) || !math.IsNaN(s.Counts[0]) {
				t.Errorf("%+v", s)
			}
		default:
			if !math.IsNaN(s.R) || s.Why != "" {
				t.Errorf("%+v", s)
			}
		}
	}
	if slices.Sort(names[:3]); !slices.Equal(names, []string{"against", "alias", "half", "distance", "steady", "no"}) {
		t.Errorf("%q", names)
	}
	if open != 0 || most != atATime || done != 6 {
		t.Errorf("%d left open, %d at a time, %d done", open, most, done)
	}
}

func TestScreenErrors(t *testing.T) {
	lost := errors.New("lost")
	_, err := Screen(context.Background(), func([]profiler.Event) (measure.Profiler, func(), error) { return nil, nil, lost }, nil, distances(t, 0, 16, 16), selected("a", "b"), Plan{Runs: 1, Seed: 1})
	if !errors.Is(err, lost) {
		t.Error(err)
	}
	ended := 0
	_, err = Screen(context.Background(), func([]profiler.Event) (measure.Profiler, func(), error) {
		return &fake{of: func(int, profiler.Setup) (profiler.Result, error) { return profiler.Result{}, lost }}, func() { ended++ }, nil
	}, nil, distances(t, 0, 16, 16), selected("a"), Plan{Runs: 1, Seed: 1})
	if !errors.Is(err, lost) || ended != 1 {
		t.Errorf("%v, %d ended", err, ended)
	}
}
