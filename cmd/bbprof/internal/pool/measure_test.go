package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type profile func() (profiler.Result, error)

func (f profile) Profile(context.Context, profiler.Block) (profiler.Result, error) { return f() }

func TestUndisturbed(t *testing.T) {
	ok := profiler.Result{Status: profiler.OK, Cycles: 1}
	noise := profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.Unstable}}
	other := profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.SIGILL}}
	failed := profiler.Result{Status: profiler.Failed}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		results []profiler.Result
		err     error
		calls   int
	}{
		"measured":                 {[]profiler.Result{ok}, nil, 1},
		"disturbed once":           {[]profiler.Result{noise, ok}, nil, 2},
		"measured in the last try": {[]profiler.Result{noise, noise, ok}, nil, 3},
		"disturbed in each try":    {[]profiler.Result{noise, noise, noise, ok}, nil, 3},
		"rejected for good":        {[]profiler.Result{other, ok}, nil, 1},
		"failed":                   {[]profiler.Result{failed, ok}, nil, 1},
		"an error":                 {[]profiler.Result{noise, ok}, broken, 1},
	} {
		calls := 0
		r, err := Undisturbed(context.Background(), profile(func() (profiler.Result, error) {
			calls++
			return c.results[calls-1], c.err
		}), profiler.Block{})
		if calls != c.calls || r.Status != c.results[c.calls-1].Status || !errors.Is(err, c.err) {
			t.Errorf("%s: %d calls, status %s, %v; want the result of call %d", name, calls, r.Status, err, c.calls)
		}
	}
}

type notClosed struct{ Profiler }

func (notClosed) Close() {}

// TestPatient: a busy core is tried until it is idle or the time is up, but once only after it was waited for in vain;
// other noise is not waited for.
func TestPatient(t *testing.T) {
	busy := profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.BusyCore}, Reason: verdict.BusyCore}
	noise := profiler.Result{Status: profiler.Rejected, Rejection: &verdict.Rejection{Reason: verdict.Unstable}, Reason: verdict.Unstable}
	ok := profiler.Result{Status: profiler.OK}
	for name, c := range map[string]struct {
		first    profiler.Result
		patience time.Duration
		inVain   bool
		calls    int
		told     int
		want     profiler.Status
	}{
		"idle at last":    {busy, time.Hour, false, 10, 1, profiler.OK},
		"too late":        {busy, 0, false, 1, 0, profiler.Rejected},
		"in vain already": {busy, time.Hour, true, 1, 0, profiler.Rejected},
		"idle again":      {ok, time.Hour, true, 1, 0, profiler.OK},
		"not busy":        {noise, time.Hour, false, 1, 0, profiler.Rejected},
	} {
		calls, told := 0, 0
		p := Patient{ProfileCloser: notClosed{profile(func() (profiler.Result, error) {
			if calls++; calls == 10 {
				return ok, nil
			}
			return c.first, nil
		})}, Patience: c.patience, Waiting: func() { told++ }, inVain: c.inVain}
		r, err := p.Profile(context.Background(), profiler.Block{})
		if err != nil || calls != c.calls || told != c.told || r.Status != c.want || p.inVain != (r.Reason == verdict.BusyCore) {
			t.Errorf("%s: %d calls, told %d times, status %s, in vain %v, %v", name, calls, told, r.Status, p.inVain, err)
		}
	}
}

// TestAgain: noise of the block's own is tried again a few times, other work on the core until it ends.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		reason         verdict.Reason
		times, retries int
		atEnd, want    bool
	}{
		{verdict.Unstable, 2, 2, true, true}, {verdict.Unstable, 3, 2, true, false}, {verdict.BusyCore, 3, 2, false, false},
		{verdict.BusyCore, 3, 2, true, true}, {verdict.ContextSwitch, 30, 2, true, true}, {verdict.BusyCore, 1, 0, true, false},
	} {
		if got := Again(c.times, c.retries, &profiler.Result{Reason: c.reason, Rejection: &verdict.Rejection{Reason: c.reason}}, c.atEnd); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
