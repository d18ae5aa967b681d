package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/require"
)

// startBatch starts bbprof batch on its standard input.
func startBatch(t *testing.T) (cmd *exec.Cmd, stdin io.Writer, stdout io.Reader, stderr *strings.Builder) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(exe)
	cmd.Args = []string{"bbprof", "batch", "-"} // by this name the test binary is bbprof; see TestMain
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr = new(strings.Builder)
	cmd.Stderr = stderr
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })
	return cmd, stdin, stdout, stderr
}

// TestInterrupted ends a batch that waits for its next row: what is written is whole, and
// the exit code and the message say that it is not all. The signal may come twice in a row.
func TestInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			require.Measure(t, tryOnce())
			for range 10 {
				if interruptTwice(t, sig) {
					return
				}
			}
			require.Skip(t, require.Idle, "this process has to wait too long for a CPU between two signals")
		})
	}
}

// interruptTwice reports whether the signals came as one.
func interruptTwice(t *testing.T, sig syscall.Signal) bool {
	t.Helper()
	cmd, stdin, stdout, stderr := startBatch(t)
	io.WriteString(stdin, "4801c0\nc3\n")
	out := bufio.NewReader(stdout)
	var rows strings.Builder
	for range 3 { // the header and two rows
		line, err := out.ReadString('\n')
		if err != nil {
			cmd.Wait()
			if disturbed(stderr.String()) {
				require.Skip(t, require.Idle, "%s", stderr)
			}
			t.Fatalf("%v; stderr: %s", err, stderr.String())
		}
		rows.WriteString(line)
	}
	began := time.Now()
	cmd.Process.Signal(sig)
	time.Sleep(2 * time.Millisecond)
	cmd.Process.Signal(sig)
	asOne := time.Since(began) < sameSignal/2
	rest, _ := io.ReadAll(out)
	rows.Write(rest)
	cmd.Wait()
	if !asOne {
		return false
	}
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	if want := "bbprof: interrupted, with 2 rows done and written in full\n"; !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("stderr is %q, want it to end with %q", stderr.String(), want)
	}
	if got, err := csv.NewReader(strings.NewReader(rows.String())).ReadAll(); err != nil || len(got) != 3 {
		t.Errorf("%d rows, error %v: %q", len(got), err, rows.String())
	}
	return true
}

// untilFull waits until nothing more goes into a pipe: its last page may have no room for a row.
func untilFull(t *testing.T, pipe *os.File) {
	t.Helper()
	size, err := unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	before, looks := -1, 0
	// Many looks rather than a long time: who writes may have to wait for a CPU as this process does.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		unread, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		looks++
		if unread != before || unread <= size*7/8 {
			before, looks = unread, 0
		}
		if looks == 50 {
			return
		}
	}
	t.Fatalf("%d bytes are unread, and the pipe holds %d", before, size)
}

// TestInterruptedTwice: when the first signal has to wait, here for a reader of the results
// who does not read, the second ends the run at once.
func TestInterruptedTwice(t *testing.T) {
	require.Measure(t, tryOnce())
	cmd, stdin, stdout, stderr := startBatch(t)
	go func() {
		for {
			if _, err := io.WriteString(stdin, "no block\n4801\n"); err != nil {
				return
			}
		}
	}()
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		cmd.Wait()
		if disturbed(stderr.String()) {
			require.Skip(t, require.Idle, "%s", stderr)
		}
		t.Fatal(err, stderr.String())
	}
	untilFull(t, stdout.(*os.File))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	cmd.Process.Signal(syscall.SIGINT)
	select {
	case err := <-ended:
		t.Fatalf("ended at the first signal: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	for again := true; again; { // on a busy machine both may come before the first is dealt with
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
			again = false
		case <-time.After(500 * time.Millisecond):
		}
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want death by the second signal", cmd.ProcessState)
	}
}
