package measuring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestExitCodes covers the errors that no script can provoke.
func TestExitCodes(t *testing.T) {
	host := fmt.Errorf("starting a child: %w", &verdict.HostError{Missing: "ptrace", Remedy: "be root"})
	other := errors.New("it broke")
	for _, c := range []struct {
		name string
		end  func(cli.Streams) error
		want int
		says string
	}{
		{"a failed result", func(s cli.Streams) error {
			return Outcome(profiler.Result{Status: profiler.Failed, Failure: "child died"})
		}, cli.ExitInternal, "bbprof: internal failure: child died\n"},
		{"a host that cannot", func(s cli.Streams) error { return host }, cli.ExitHost,
			"bbprof: starting a child: this host cannot measure: ptrace; be root\n"},
		{"another error", func(s cli.Streams) error { return other }, cli.ExitInternal, "bbprof: it broke\n"},
		{"interrupted", func(s cli.Streams) error { return fmt.Errorf("waiting: %w", context.Canceled) }, cli.ExitInterrupted, "bbprof: interrupted\n"},
		{"a reader that has had enough", func(s cli.Streams) error { return fmt.Errorf("writing: %w", syscall.EPIPE) }, cli.ExitPipe, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			std := cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
			require.Equal(t, "exit code", c.want, cli.Finish("", c.end(std), Explain, std))
			if stderr.String() != c.says || stdout.String() != "" {
				t.Errorf("says %q and prints %q, want %q and nothing", stderr.String(), stdout.String(), c.says)
			}
		})
	}
}

// TestInterruptedWhileStarting: Ctrl-C that also reaches a child still in bbprof's process group is not a failure.
func TestInterruptedWhileStarting(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: cli.ExitInterrupted,
		syscall.SIGTERM: cli.ExitInterrupted, syscall.SIGKILL: cli.ExitInternal} {
		require.Equal(t, signal, want, ExitOf(fmt.Errorf("starting: %w", &tracee.DeadError{Signal: int(signal)})))
	}
}
