// Package pooltest has the profiler with which tests measure on this machine.
package pooltest

import (
	"context"
	"testing"
	"time"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// Profiler ends a test as skipped once other work has disturbed as many of its measurements as [require.Tries] allows.
type Profiler struct {
	*profiler.Profiler
	t      testing.TB
	waited *require.Tries
}

// New gives a Profiler, or skips the test on a machine that cannot measure. A block has half a second, unless the
// options say otherwise, so that a busy machine does not stall the test.
func New(t testing.TB, o profiler.Options) *Profiler {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = 500 * time.Millisecond
	}
	p, err := profiler.New(t.Context(), o)
	require.Measure(t, err)
	t.Cleanup(p.Close)
	return &Profiler{p, t, new(require.Tries)}
}

// In is the profiler for a subtest. All subtests together wait for as long as a test.
func (p *Profiler) In(t testing.TB) *Profiler { return &Profiler{p.Profiler, t, p.waited} }

func (p *Profiler) Profile(ctx context.Context, b profiler.Block) (profiler.Result, error) {
	p.t.Helper()
	began := time.Now()
	r, err := p.Profiler.Profile(ctx, b)
	if err == nil && r.Noisy() {
		p.waited.Again(p.t, time.Since(began), r.Rejection)
	}
	return r, err
}
