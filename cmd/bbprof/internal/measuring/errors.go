package measuring

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Explain is the exit code of an error, and what to say of it.
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

// ExitOf tells the user's mistakes, a host that cannot measure and bbprof's own failures apart.
func ExitOf(err error) int {
	var (
		usage   *cli.UsageError
		events  *profiler.EventError
		bad     *program.Error
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

// interruptedChild reports whether Ctrl-C ended the child: while it is being started, it is still in bbprof's process group.
func interruptedChild(err error) bool {
	dead := (*tracee.DeadError)(nil)
	return errors.As(err, &dead) && (dead.Signal == int(syscall.SIGINT) || dead.Signal == int(syscall.SIGTERM))
}

// EndedBy is what a line on an incomplete result says of the error that ended the work; cli.Finish reports the error itself.
func EndedBy(err error) string {
	switch ExitOf(err) {
	case cli.ExitInterrupted:
		return "interrupted"
	case cli.ExitHost:
		return "ended by this host"
	}
	return "ended by an error"
}
