package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestExitCodes covers the endings that no script can bring about.
func TestExitCodes(t *testing.T) {
	host := fmt.Errorf("starting a child: %w", &verdict.HostError{Missing: "ptrace", Remedy: "be root"})
	other := errors.New("it broke")
	for _, c := range []struct {
		name string
		end  func(streams) error
		want int
		says string
	}{
		{"a failed result", func(s streams) error {
			return outcome(profiler.Result{Status: profiler.Failed, Failure: "child died"})
		}, exitInternal, "bbprof: internal failure: child died\n"},
		{"a host that cannot", func(s streams) error { return host }, exitHost,
			"bbprof: starting a child: this host cannot measure: ptrace; be root\n"},
		{"another error", func(s streams) error { return other }, exitInternal, "bbprof: it broke\n"},
		{"interrupted", func(s streams) error { return fmt.Errorf("waiting: %w", context.Canceled) }, exitInterrupted, "bbprof: interrupted\n"},
		{"a reader that has had enough", func(s streams) error { return fmt.Errorf("writing: %w", syscall.EPIPE) }, exitPipe, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			std := streams{strings.NewReader(""), &stdout, &stderr}
			if got := finish("", c.end(std), explainError, std); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
			if stderr.String() != c.says || stdout.String() != "" {
				t.Errorf("says %q and prints %q, want %q and nothing", stderr.String(), stdout.String(), c.says)
			}
		})
	}
}

// TestOutputThatCannotBe: a result that cannot be written where it was to go is the user's mistake.
func TestOutputThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, dir + "/none/out.csv"} {
		err := writeWhole(name, nil, func(io.Writer) error { return nil })
		if code := exitOf(err); code != exitUsage {
			t.Errorf("%s: exit code %d: %v", name, code, err)
		}
	}
}

// TestInterruptedWhileStarting: Ctrl-C reaches a child that has not left bbprof's process group yet, too, which is no failure.
func TestInterruptedWhileStarting(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitInterrupted, syscall.SIGKILL: exitInternal} {
		if code := exitOf(fmt.Errorf("starting: %w", &tracee.DeadError{Signal: int(signal)})); code != want {
			t.Errorf("%v: exit code %d, want %d", signal, code, want)
		}
	}
}
