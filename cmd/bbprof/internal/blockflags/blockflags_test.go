package blockflags

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
	for _, c := range []struct {
		err  error
		want int
		says string
	}{
		{Outcome(profiler.Result{Status: profiler.Failed, Failure: "child died"}), cli.ExitInternal, "bbprof: internal failure: child died\n"},
		{host, cli.ExitHost, "bbprof: starting a child: this host cannot measure: ptrace; be root\n"},
		{errors.New("it broke"), cli.ExitInternal, "bbprof: it broke\n"},
		{fmt.Errorf("waiting: %w", context.Canceled), cli.ExitInterrupted, "bbprof: interrupted\n"},
		{fmt.Errorf("writing: %w", syscall.EPIPE), cli.ExitPipe, ""},
	} {
		var stdout, stderr strings.Builder
		std := cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
		require.Equal(t, "exit code", c.want, cli.Finish("", c.err, Explain, std))
		require.Equal(t, "stderr", c.says, stderr.String())
		require.Equal(t, "stdout", "", stdout.String())
	}
}

// TestInterruptedWhileStarting: Ctrl-C that also reaches a child still in bbprof's process group is not a failure.
func TestInterruptedWhileStarting(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: cli.ExitInterrupted,
		syscall.SIGTERM: cli.ExitInterrupted, syscall.SIGKILL: cli.ExitInternal} {
		require.Equal(t, signal, want, ExitOf(fmt.Errorf("starting: %w", &tracee.DeadError{Signal: int(signal)})))
	}
}

// TestAddress: a block with an address is studied where its program has it.
func TestAddress(t *testing.T) {
	s := OneSetup(&profiler.Options{}, profiler.Block{Setup: profiler.Setup{Address: new(uint64(0x401c3f))}})
	require.Equal(t, "the first copy's place", 0xc3f, *s.CodeOffset)
}
