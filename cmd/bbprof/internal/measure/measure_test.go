package measure

import (
	"context"
	"errors"
	"testing"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// scripted returns its results in order.
type scripted struct {
	results []profiler.Result
	err     error
	calls   int
}

func (s *scripted) Profile(context.Context, profiler.Block) (profiler.Result, error) {
	r := s.results[min(s.calls, len(s.results)-1)]
	s.calls++
	return r, s.err
}

func TestUndisturbed(t *testing.T) {
	ok := profiler.Result{Status: profiler.OK, Cycles: 1}
	noise := profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.Unstable}}
	other := profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.SIGILL}}
	failed := profiler.Result{Status: profiler.Failed}
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		results []profiler.Result
		err     error
		calls   int
		status  profiler.Status
	}{
		{"measured", []profiler.Result{ok}, nil, 1, profiler.OK},
		{"disturbed once", []profiler.Result{noise, ok}, nil, 2, profiler.OK},
		{"measured in the last try", []profiler.Result{noise, noise, ok}, nil, 3, profiler.OK},
		{"disturbed in each try", []profiler.Result{noise, noise, noise, ok}, nil, 3, profiler.Rejected},
		{"rejected for good", []profiler.Result{other, ok}, nil, 1, profiler.Rejected},
		{"failed", []profiler.Result{failed, ok}, nil, 1, profiler.Failed},
		{"an error", []profiler.Result{noise}, broken, 1, profiler.Rejected},
	} {
		s := &scripted{results: c.results, err: c.err}
		r, err := Undisturbed(context.Background(), s, profiler.Block{})
		if s.calls != c.calls || r.Status != c.status || !errors.Is(err, c.err) {
			t.Errorf("%s: %d calls, status %s, %v; want %d calls, %s", c.name, s.calls, r.Status, err, c.calls, c.status)
		}
	}
}
