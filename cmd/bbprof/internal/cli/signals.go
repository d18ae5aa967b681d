package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SameSignal is how long a signal counts as the one before: timeout(1), say, sends it to the
// process and then to the process's group.
const SameSignal = 200 * time.Millisecond

// UntilSignal is a context that the first signal ends; then signals are the default's again,
// so a second one ends bbprof at once.
func UntilSignal() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(SameSignal, stop) })
	return ctx, func() {
		if ctx.Err() == nil {
			stop()
		}
	}
}
