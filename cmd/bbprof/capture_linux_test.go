package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// ring compiles a program that copies text and adds numbers in a loop without an end unless there is an argument.
func ring(t *testing.T) string {
	t.Helper()
	return require.Compiled(t, "testdata/ring.c", "-O1", "-fno-inline")
}

// TestCaptureOutput: a pipe is refused and stays one, and of a symbolic link the target is written.
func TestCaptureOutput(t *testing.T) {
	program, dir := ring(t), t.TempDir()
	pipe, link, target := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "target")
	require.NoError(t, errors.Join(unix.Mkfifo(pipe, 0o600), os.WriteFile(target, nil, 0o666), os.Symlink(target, link)))
	to := func(name string) (cmd *exec.Cmd, said string) {
		cmd = exec.Command("bbprof", "capture", "-q", "-o", name, "-func", "^step$", "-samples", "1", "--", program, "x")
		out, _ := cmd.CombinedOutput()
		require.Host(t, hostMissing(cmd, string(out)))
		return cmd, string(out)
	}
	if cmd, said := to(pipe); cmd.ProcessState.ExitCode() != cli.ExitUsage || !strings.Contains(said, "pipe is not a regular file") {
		t.Errorf("pipe: %v: %s", cmd.ProcessState, said)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", info, err)
	}
	if cmd, said := to(link); !cmd.ProcessState.Success() {
		t.Errorf("link: %v: %s", cmd.ProcessState, said)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is now %v, %v", info, err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() == 0 || info.Mode() != 0o600 {
		t.Errorf("the target is %v, %v", info, err)
	}
}

// TestCaptureEnds: Ctrl-C and -timeout end a program that would run for ever, and what was captured until then is
// there and is said to be.
func TestCaptureEnds(t *testing.T) {
	t.Parallel() // with what measures nothing either
	program := ring(t)
	for _, c := range []struct {
		name string
		args []string
		sig  syscall.Signal
		exit int
		says string
	}{
		{"Ctrl-C", nil, unix.SIGINT, cli.ExitInterrupted, "bbprof: interrupted: what was captured until then is written\n"},
		{"time", []string{"-timeout", "2s"}, 0, cli.ExitUsage,
			"it did not end in time and was killed; what was captured until then is written; raise -timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "s")
			args := append([]string{"capture", "-o", name, "-func", "^step$", "-samples", "8", "-first", "100"}, c.args...)
			cmd := exec.Command("bbprof", append(args, "--", program)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, errors.Join(err, cmd.Start()))
			stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			defer stuck.Stop()
			line := make([]byte, 5) // it has called its function often
			if _, err := io.ReadFull(stdout, line); err == nil && c.sig != 0 {
				cmd.Process.Signal(c.sig)
			}
			io.Copy(io.Discard, stdout)
			cmd.Wait()
			require.Host(t, hostMissing(cmd, stderr.String()))
			if cmd.ProcessState.ExitCode() != c.exit || !strings.Contains(stderr.String(), c.says) ||
				!strings.Contains(stderr.String(), "8 visits of 1 of 1 block") {
				t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), stderr.String())
			}
			file := require.Get(states.Open(name))(t)
			defer file.Close()
			if n := len(file.Index()); n != 8 {
				t.Errorf("%d visits", n)
			}
		})
	}
}

// hostMissing is the error of a bbprof that says that this host cannot.
func hostMissing(cmd *exec.Cmd, stderr string) error {
	if cmd.ProcessState.ExitCode() != cli.ExitHost {
		return nil
	}
	return &verdict.HostError{Missing: stderr}
}
