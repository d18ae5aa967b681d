package blockflags

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Explain returns an error's exit code and its message.
func Explain(err error) (int, error) {
	if event := (*profiler.EventError)(nil); errors.As(err, &event) {
		err = fmt.Errorf("-events: %w", event)
	}
	code := ExitOf(err)
	if code == cli.ExitInterrupted {
		err = errors.New("interrupted")
	}
	return code, err
}

// ExitOf distinguishes user errors, hosts that cannot measure, and failures of bbprof.
func ExitOf(err error) int {
	var (
		usage   *cli.UsageError
		events  *profiler.EventError
		bad     *launch.Error
		reading *input.ReadError
		host    *verdict.HostError
	)
	switch {
	case errors.Is(err, context.Canceled), interruptedChild(err):
		return cli.ExitInterrupted
	case errors.As(err, &usage), errors.As(err, &events), errors.As(err, &bad), errors.As(err, &reading):
		return cli.ExitUsage
	case errors.As(err, &host):
		return cli.ExitHost
	}
	return cli.ExitInternal
}

// interruptedChild reports whether Ctrl-C ended the child, which is in bbprof's process group while it starts.
func interruptedChild(err error) bool {
	dead := (*tracee.DeadError)(nil)
	return errors.As(err, &dead) && (dead.Signal == int(syscall.SIGINT) || dead.Signal == int(syscall.SIGTERM))
}

// EndedBy words an error for a line about an incomplete result; cli.Finish reports the error itself.
func EndedBy(err error) string {
	switch ExitOf(err) {
	case cli.ExitInterrupted:
		return "interrupted"
	case cli.ExitHost:
		return "ended by this host"
	}
	return "ended by an error"
}
