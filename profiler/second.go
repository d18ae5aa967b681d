package profiler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/verdict"
)

// MostStates is how many initial states Options.Init can name.
const MostStates = 2

// SecondState is what a block takes in the other of two initial states.
type SecondState struct {
	Init   string         `json:"init"`
	Reason verdict.Reason `json:"reason,omitempty"` // why there are no cycles, if there are none
	Cycles float64        `json:"cycles,omitzero"`
	CILow  float64        `json:"ci_low,omitzero"`
	CIHigh float64        `json:"ci_high,omitzero"`
	// Sensitive is by which share the slower state's cycles exceed the faster's.
	Sensitive float64 `json:"state_sensitive"`
}

// StatesNamed are the initial states that a list of their names means.
func StatesNamed(list string) (states []initial.State, err error) {
	all := initial.States()
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(all, func(i initial.State) bool { return i.Name == name })
		switch {
		case i < 0:
			var names []string
			for _, s := range all {
				names = append(names, s.Name)
			}
			return nil, fmt.Errorf("no initial state is called %q; there are %s", name, strings.Join(names, ", "))
		case slices.ContainsFunc(states, func(s initial.State) bool { return s.Name == name }):
			return nil, fmt.Errorf("the initial state %s is named twice", name)
		case len(states) == MostStates:
			return nil, fmt.Errorf("%s: at most %d initial states can be compared", list, MostStates)
		}
		states = append(states, all[i])
	}
	return states, nil
}

// second measures a block that was measured in one of two initial states in the other; nil where
// there are no two.
func (s *session) second(b Block, first string) (*SecondState, error) {
	if len(s.compared) < MostStates || b.Setup.Init != nil || b.Setup.Captured != nil {
		return nil, nil
	}
	other := s.compared[0]
	if other.Name == first {
		other = s.compared[1]
	}
	b.Setup.Init, b.Setup.Set = &other, s.opts.Set.With(b.Setup.Set)
	r, err := s.steps(s.job(b))
	second := &SecondState{Init: other.Name}
	rejection := overtime(err)
	switch {
	case rejection != nil || errors.As(err, &rejection):
		second.Reason = rejection.Reason
	case err != nil:
		return nil, err
	default:
		e := r.measured.timed.Estimate
		second.Cycles, second.CILow, second.CIHigh = e.Value, e.Low(), e.High()
	}
	return second, nil
}

// comparedWith completes a second state by the cycles of the first.
func (x *SecondState) comparedWith(cycles float64) {
	if x.Reason == "" {
		x.Sensitive = math.Max(cycles, x.Cycles)/math.Min(cycles, x.Cycles) - 1
	}
}
