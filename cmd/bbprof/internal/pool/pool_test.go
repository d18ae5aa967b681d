package pool

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

type profile func() (profiler.Result, error)

func (f profile) Profile(context.Context, profiler.Block) (profiler.Result, error) { return f() }

func TestUndisturbed(t *testing.T) {
	ok := profiler.Result{Status: profiler.OK, Cycles: 1}
	noise, other, failed := rejection(verdict.Unstable), rejection(verdict.SIGILL), profiler.Result{Status: profiler.Failed}
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
	busy, noise, ok := rejection(verdict.BusyCore), rejection(verdict.Unstable), profiler.Result{Status: profiler.OK}
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
		noisy := rejection(c.reason)
		require.Equal(t, fmt.Sprintf("%+v", c), c.want, Again(c.times, c.retries, &noisy, c.atEnd))
	}
}

// one measures one block after another on one goroutine.
type one struct{ Profiler }

func (o one) ProfileAll(ctx context.Context, next func() (profiler.Block, bool), done func(profiler.Result, error)) error {
	for b, ok := next(); ok; b, ok = next() {
		done(o.Profile(ctx, b))
	}
	return nil
}

func rejection(reason verdict.Reason) profiler.Result {
	return profiler.Result{Status: profiler.Rejected, Reason: reason, Rejection: &verdict.Rejection{Reason: reason}}
}

// TestKept: what a command measured before it ended comes back whole and in order, by set-up and options; what a busy machine
// is to blame for is measured again.
func TestKept(t *testing.T) {
	var zero uint64
	none, paper := 0.0, initial.Paper()
	full := profiler.Result{Hex: "90", Status: profiler.OK, Cycles: 0.25, CILow: 0.24, CIHigh: 0.26, Init: paper, Warnings: []string{"w"},
		Evidence: []invariants.Evidence{{Invariant: verdict.L1DMiss, Kind: invariants.Counted}},
		Counters: []profiler.CounterReport{{Event: "e", PerIteration: &none}, {Event: "f"}},
		Branch:   &profiler.BranchReport{}, Clock: &profiler.ClockReport{Name: "tsc", ProbeIdle: 955}, Loop: &profiler.LoopReport{CopiesLong: 3},
		Speeds: []profiler.Speed{{Cycles: 1, Layouts: []int{0, 1}}}, Predicted: &invariants.Prediction{}, Host: &profiler.HostReport{OnCPU: 1}}
	rejected := profiler.Result{Hex: "91", Status: profiler.Rejected, Reason: verdict.Unmappable,
		Rejection: &verdict.Rejection{Reason: verdict.Unmappable, Address: &zero, Inst: &verdict.Inst{Text: "i"}}}
	results := []profiler.Result{full, rejected, {Status: profiler.OK, Cycles: 2}, rejection(verdict.Unstable),
		rejection(verdict.BusyCore), {Status: profiler.Failed}}
	blocks := []profiler.Block{{Code: []byte{0x90}}, {Code: []byte{0x91}}, {Code: []byte{0x90}, Setup: profiler.Setup{Mode: profiler.Loop}},
		{Code: []byte{0x92}}, {Code: []byte{0x93}}, {Code: []byte{0x94}}}
	path := filepath.Join(t.TempDir(), "j")
	for start, want := range []int{6, 2, 2} { // measured in each
		j := require.Get(journal.Open(path, "x", true))(t)
		calls := 0
		p := profile(func() (profiler.Result, error) {
			if calls++; start == 0 {
				return results[calls-1], nil
			}
			return rejection(verdict.BusyCore), nil
		})
		kept := Kept{Journal: j, Options: profiler.Options{CPUs: []int{start}}}
		if start == 1 {
			for i, b := range blocks {
				got := require.Get(kept.ProfileCloser(notClosed{p}).Profile(t.Context(), b))(t)
				if i < 4 {
					require.Equal(t, "a result", results[i], got)
				}
			}
		} else {
			require.Get(All(t.Context(), []Measurer{kept.Measurer(one{p})}, blocks, 0, 0, nil))(t)
		}
		require.Equal(t, "measured", want, calls)
		require.NoError(t, j.Close())
	}
	j := require.Get(journal.Open(path, "x", true))(t)
	defer j.Close()
	if _, ok := (&Kept{Journal: j, Options: profiler.Options{Mode: profiler.Loop}}).take(blocks[0]); ok {
		t.Error("other options, and the same result")
	}
}

// TestLeast: on a core that is never idle retries end when they took as long as everything before, or as long as is asked for.
func TestLeast(t *testing.T) {
	const rounds = 50
	for least, more := range map[time.Duration]bool{0: false, time.Hour: true} {
		calls := 0
		p := profile(func() (profiler.Result, error) {
			if calls++; calls == rounds {
				return profiler.Result{Status: profiler.OK}, nil
			}
			for began := time.Now(); time.Since(began) < time.Millisecond; {
			}
			return rejection(verdict.BusyCore), nil
		})
		require.Get(All(t.Context(), []Measurer{one{p}}, []profiler.Block{{}}, 2, least, nil))(t)
		require.Equal(t, fmt.Sprintf("%v, %d tries: until it is idle", least, calls), more, calls == rounds)
	}
}
