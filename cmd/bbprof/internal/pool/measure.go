// Package pool declares the interfaces through which selftest, doctor and the studies use a profiler, so that tests
// can script the measurements.
package pool

import (
	"context"
	"time"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Profiler measures blocks. *profiler.Profiler implements it.
type Profiler interface {
	Profile(context.Context, profiler.Block) (profiler.Result, error)
}

// ProfileCloser is a Profiler that the caller must close.
type ProfileCloser interface {
	Profiler
	Close()
}

// Tries limits how often a block is measured while noise rejects it.
const Tries = 3

// Undisturbed measures a block up to Tries times, until a measurement is not rejected for noise.
// The result is the last one; the error is Profile's.
func Undisturbed(ctx context.Context, p Profiler, b profiler.Block) (profiler.Result, error) {
	r, _, err := UpTo(ctx, p, b, Tries)
	return r, err
}

// UpTo is Undisturbed with a given number of tries. It also returns how many it took.
func UpTo(ctx context.Context, p Profiler, b profiler.Block, tries int) (r profiler.Result, n int, err error) {
	for n < tries {
		n++
		if r, err = p.Profile(ctx, b); err != nil || !r.Noisy() {
			break
		}
	}
	return r, n, err
}

// patience is how long a Patient waits for idle moments of a busy core.
const patience = 5 * time.Second

// Patient is a profiler that measures a block again and again while the core is busy, since idle moments may be rare.
// Once it has waited in vain it tries each block once, until one succeeds.
type Patient struct {
	ProfileCloser
	Patience time.Duration // of a block
	Waiting  func()        // called before the first further try; nil is allowed

	told, inVain bool
}

// NewPatient returns a Patient that waits for as long as patience says.
func NewPatient(p ProfileCloser) *Patient { return &Patient{ProfileCloser: p, Patience: patience} }

func (p *Patient) Profile(ctx context.Context, b profiler.Block) (r profiler.Result, err error) {
	end := time.Now().Add(p.Patience)
	for {
		r, err = p.ProfileCloser.Profile(ctx, b)
		busy := err == nil && r.Reason == verdict.BusyCore
		if !busy || p.inVain || !time.Now().Before(end) {
			p.inVain = busy
			return r, err
		}
		if p.Waiting != nil && !p.told {
			p.Waiting()
		}
		p.told = true
	}
}

// Failure is a failure of bbprof itself on one block. Other blocks can still be measured.
type Failure string

func (f Failure) Error() string { return string(f) }

// Number is Undisturbed for callers that need a number: without one, the error is a *verdict.Rejection, a Failure, or
// an error of Profile.
func Number(ctx context.Context, p Profiler, b profiler.Block) (profiler.Result, error) {
	r, err := Undisturbed(ctx, p, b)
	switch {
	case err != nil:
	case r.Status == profiler.Failed:
		err = Failure(r.Failure)
	default:
		err = r.Err()
	}
	return r, err
}
