package sweep

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// counting is a core that aliases and has events: "alias" correlates with the cycles, "against" inversely, "steady" is
// constant, "distance" grows, "half" is counted at every other value.
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

// opener counts the open profilers and refuses events called "no".
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

// TestScreen: events are ranked by correlation with the cycles; a refused one does not affect the others.
func TestScreen(t *testing.T) {
	var open, most, done int
	f := distances(t, 4000, 4200, 16)
	columns := require.Get(Screen(context.Background(), opener(&open, &most), []byte{0x90}, f,
		selected("steady", "no", "distance", "alias", "half", "against"),
		experiment.Plan{Rounds: 1, Seed: 1, Done: func(n int) { done = n }}))(t)
	sw := swept(t, &fake{of: aliasing}, f)
	sw.Groups = []Group{{Title: "events", Columns: columns, Brief: true}}
	var names []string
	for _, r := range sw.Relate(sw.Groups[0]) {
		names = append(names, r.Name)
		switch r.Name {
		case "alias":
			if r.R < 0.999 || len(r.Points) != 13 || r.Values[6] != 0.5 || r.Values[5] != 0 {
				t.Errorf("%+v", r)
			}
		case "against":
			if r.R > -0.999 {
				t.Errorf("%+v", r)
			}
		case "half":
			if len(r.Points) != 7 || r.R < 0.999 {
				t.Errorf("%+v", r)
			}
		case "distance":
			if math.Abs(r.R) > 0.3 {
				t.Errorf("%+v", r)
			}
		default:
			if !math.IsNaN(r.R) {
				t.Errorf("%+v", r)
			}
		}
	}
	if slices.Sort(names[:3]); !slices.Equal(names, []string{"against", "alias", "half", "distance", "steady"}) {
		t.Errorf("%q", names)
	}
	text := sw.Summary()
	for _, want := range []string{"bbprof: events:\n", "  the same at all values: steady\n", "  no is not counted: this host cannot measure: the event no",
		"more than 25 % apart: 0 at the fastest value (4000), 0.5 at the slowest (4096)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if open != 0 || most != atATime || done != 6 {
		t.Errorf("%d left open, %d at a time, %d done", open, most, done)
	}
}

func TestScreenErrors(t *testing.T) {
	lost := errors.New("lost")
	_, err := Screen(context.Background(), func([]profiler.Event) (measure.Profiler, func(), error) {
		return nil, nil, lost
	}, nil, distances(t, 0, 16, 16), selected("a", "b"), experiment.Plan{Rounds: 1, Seed: 1})
	if !errors.Is(err, lost) {
		t.Error(err)
	}
	ended := 0
	_, err = Screen(context.Background(), func([]profiler.Event) (measure.Profiler, func(), error) {
		return &fake{of: func(int, profiler.Setup) (profiler.Result, error) { return profiler.Result{}, lost }}, func() { ended++ }, nil
	}, nil, distances(t, 0, 16, 16), selected("a"), experiment.Plan{Rounds: 1, Seed: 1})
	if !errors.Is(err, lost) || ended != 1 {
		t.Errorf("%v, %d ended", err, ended)
	}
}
