package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SameSignal is the time within which a repeated signal counts as the same one: timeout(1), for example, signals the
// process and then its group.
const SameSignal = 200 * time.Millisecond

// UntilSignal returns a context that the first signal cancels. A second signal then ends bbprof at once, by default
// action.
func UntilSignal() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(SameSignal, stop) })
	return ctx, func() {
		if ctx.Err() == nil {
			stop()
		}
	}
}

// IgnoreFileLimit turns exceeding the file size limit from a signal into an error that can be explained.
func IgnoreFileLimit() { signal.Ignore(syscall.SIGXFSZ) }
