package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
)

// behindDashes parts a command line at the first --: what stands behind it is a program with
// its arguments, which are not ours to parse.
func behindDashes(args []string) (own, words []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}

// programFailure reports an error of a command that runs programs: a program that cannot be
// run or measured is bad input.
func programFailure(std streams, err error) int {
	if bad := (*program.Error)(nil); errors.As(err, &bad) {
		return usageError(std, "%v", err)
	}
	return failure(std, err)
}

// sameSignal is how long a signal counts as the one before: timeout(1), say, sends it to the
// process and then to the process's group.
const sameSignal = 200 * time.Millisecond

// untilSignal is a context that the first signal ends; then signals are the default's again,
// so a second one ends bbprof at once.
func untilSignal() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, stop) })
	return ctx, func() {
		if ctx.Err() == nil {
			stop()
		}
	}
}

// progress writes lines like "12 of 40 runs" to standard error, now and then.
func progress(std streams, of int, what string) func(done int) {
	began := time.Now()
	last := began
	return func(done int) {
		if now := time.Now(); now.Sub(last) >= 10*time.Second && done < of {
			last = now
			left := now.Sub(began) * time.Duration(of-done) / time.Duration(done)
			fmt.Fprintf(std.err, "bbprof: %d of %d %s, about %v left\n", done, of, what, left.Round(time.Second))
		}
	}
}

// parseTimeout reads the longest time that a program may run.
func parseTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("write a time above 0 with its unit, such as 30s or 5m")
	}
	return d, nil
}
