// Package measure is what selftest, doctor and the studies need of a profiler. They depend on
// these interfaces and not on *profiler.Profiler, so that tests can script what is measured.
package measure

import (
	"context"

	"github.com/bbprof/bbprof/profiler"
)

// Profiler measures blocks. A *profiler.Profiler is one.
type Profiler interface {
	Profile(context.Context, profiler.Block) (profiler.Result, error)
}

// ProfileCloser is a Profiler that the caller has to close.
type ProfileCloser interface {
	Profiler
	Close()
}

// Tries is how often a block is measured at most as long as noise rejects it.
const Tries = 3

// Undisturbed measures a block up to Tries times, until a measurement is not rejected for noise.
// The result is the last one; the error is Profile's.
func Undisturbed(ctx context.Context, p Profiler, b profiler.Block) (profiler.Result, error) {
	r, _, err := UpTo(ctx, p, b, Tries)
	return r, err
}

// UpTo is Undisturbed with another number of tries. It says how many it took.
func UpTo(ctx context.Context, p Profiler, b profiler.Block, tries int) (r profiler.Result, n int, err error) {
	for n < tries {
		n++
		if r, err = p.Profile(ctx, b); err != nil || !r.Noisy() {
			break
		}
	}
	return r, n, err
}

// Failure is what failed in bbprof itself over one block. Other blocks can still be measured.
type Failure string

func (f Failure) Error() string { return string(f) }

// Number is Undisturbed where whatever kept the block from a number is the error: its *verdict.Rejection, a
// Failure, or an error of Profile.
func Number(ctx context.Context, p Profiler, b profiler.Block) (profiler.Result, error) {
	return number(Undisturbed(ctx, p, b))
}

// Once is Number for a caller that tries at another time.
func Once(ctx context.Context, p Profiler, b profiler.Block) (profiler.Result, error) {
	return number(p.Profile(ctx, b))
}

func number(r profiler.Result, err error) (profiler.Result, error) {
	switch {
	case err != nil:
	case r.Status == profiler.Failed:
		err = Failure(r.Failure)
	default:
		err = r.Err()
	}
	return r, err
}
