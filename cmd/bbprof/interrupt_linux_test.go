package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
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
	"github.com/bbprof/bbprof/internal/require"
)

// startBatch starts bbprof batch on its standard input.
func startBatch(t *testing.T) (cmd *exec.Cmd, stdin io.Writer, stdout io.Reader, stderr *strings.Builder) {
	t.Helper()
	cmd = exec.Command("bbprof", "batch", "-") // which is the test binary, see TestMain
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr = new(strings.Builder)
	cmd.Stderr = stderr
	require.NoError(t, errors.Join(err1, err2, cmd.Start()))
	stuck := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })
	return cmd, stdin, stdout, stderr
}

// TestInterrupted ends a batch that waits for its next row: what is written is whole, and
// the exit code and the message say that it is not all. The signal may come twice in a row.
func TestInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			mustMeasure(t)
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
	asOne := time.Since(began) < cli.SameSignal/2
	rest, _ := io.ReadAll(out)
	rows.Write(rest)
	cmd.Wait()
	if !asOne {
		return false
	}
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
	if want := "bbprof: interrupted, with 2 rows done and written in full\n"; !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("stderr is %q, want it to end with %q", stderr.String(), want)
	}
	if got, err := csv.NewReader(strings.NewReader(rows.String())).ReadAll(); err != nil || len(got) != 3 {
		t.Errorf("%d rows, error %v: %q", len(got), err, rows.String())
	}
	return true
}

// TestInterruptedStudies: Ctrl-C ends what takes long, and what was measured until then is written and
// marked as incomplete.
func TestInterruptedStudies(t *testing.T) {
	require.Slow(t)
	mustMeasure(t)
	dir := t.TempDir()
	blocks, baseline := filepath.Join(dir, "blocks.csv"), filepath.Join(dir, "baseline.csv")
	many := strings.Repeat("4801c0\n480fafc0\n", 5000)
	suite, distinct := filepath.Join(dir, "suite.csv"), filepath.Join(dir, "distinct.csv")
	row := func(hex string) string { return hex + ",ok,,9,8.9,9.1\n" }
	require.NoError(t, errors.Join(os.WriteFile(blocks, []byte(many), 0o666),
		os.WriteFile(distinct, []byte(manyBlocks(func(hex string) string { return hex + "\n" })), 0o666),
		os.WriteFile(suite, []byte("name,a,b\nx,true,true\ny,true,true\nz,true,true\n"), 0o666),
		os.WriteFile(baseline, []byte("hex,status,reason,cycles,ci_low,ci_high\n"+manyBlocks(row)), 0o666)))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"compare", "-layouts", "100000", "-a", "4801c0", "-b", "480fafc0"}, "incomplete  interrupted after"},
		{[]string{"compare", "-layouts", "100000", "-a", "true", "-b", "true"}, "incomplete  interrupted after"},
		{[]string{"compare", "-suite", suite, "-layouts", "10000", "-trials", "1"}, "incomplete: interrupted before the last"},
		{[]string{"ablate", blocks}, "incomplete: interrupted"},
		{[]string{"ablate", "-json", blocks}, `"incomplete":true`},
		{[]string{"bounds", "-budget", "500ms", distinct}, "hex,status,reason,"},
		{[]string{"sweep", "-code", "0:4095", "-runs", "100000", "-hex", "4801c0"}, ",interrupted,,,,,,,,,,,,,,,,,,true\n"},
		{[]string{"sweep", "-env", "0:60000:16", "-runs", "100000", "--", "true"}, ",,,,0,true\n"},
		{[]string{"sweep", "-env", "0:16:16", "-json", "-runs", "100000", "--", "true"}, `],"incomplete":true}`},
		{[]string{"explain", "-json", "-rounds", "100000", "--", "true"}, `"incomplete":true`},
		{[]string{"count", "-matrix", "gcc", "-levels", "O2,O0", "-func", "product", "-sizes", "1,2,300000000",
			"../../testdata/programs/sums.c"}, "incomplete: interrupted; builds"},
	} {
		t.Run(strings.Join(c.args[:2], " "), func(t *testing.T) {
			if c.args[0] == "count" {
				require.Tool(t, require.GCC, "gcc")
			}
			var waited require.Tries
			for wait := 250 * time.Millisecond; ; wait *= 2 {
				code, stdout, stderr := interrupted(t, c.args, wait)
				if disturbed(stderr) {
					waited.Again(t, wait, stderr)
					continue
				}
				if stdout == "" && wait < 20*time.Second { // nothing was measured yet
					continue
				}
				if code != cli.ExitInterrupted || !strings.Contains(stdout, c.want) || !strings.Contains(stderr, "bbprof: interrupted\n") {
					if disturbed(stdout) {
						waited.Again(t, wait, stdout)
						continue
					}
					t.Errorf("exit code %d, want %d and %q in:\n%.2000s\n%s", code, cli.ExitInterrupted, c.want, stdout, stderr)
				}
				return
			}
		})
	}
}

// manyBlocks are rows of distinct blocks.
func manyBlocks(row func(hex string) string) string {
	var all strings.Builder
	for i := range 5000 {
		all.WriteString(row(fmt.Sprintf("b8%04x0000", i))) // mov eax, i
	}
	return all.String()
}

// interrupted runs bbprof and interrupts it after a while.
func interrupted(t *testing.T, args []string, wait time.Duration) (code int, stdout, stderr string) {
	t.Helper()
	return interruptedWith(t, args, "", wait)
}

// interruptedWith is interrupted as soon as bbprof has made a file.
func interruptedWith(t *testing.T, args []string, file string, most time.Duration) (code int, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	cmd := exec.Command("bbprof", args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for enough := time.After(most); ; {
		select {
		case <-ended:
			return cmd.ProcessState.ExitCode(), out.String(), err.String()
		case <-enough:
			cmd.Process.Signal(syscall.SIGINT)
		case <-poll.C:
			if _, err := os.Stat(file); err == nil {
				cmd.Process.Signal(syscall.SIGINT)
				file = ""
			}
		}
	}
}

// untilFull waits until nothing more goes into a pipe: its last page may have no room for a row.
func untilFull(t *testing.T, pipe *os.File) {
	t.Helper()
	size := require.Get(unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0))(t)
	before, polls := -1, 0
	// Many polls rather than a long time: who writes may have to wait for a CPU as this process does.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		unread := require.Get(unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ))(t)
		polls++
		if unread != before || unread <= size*7/8 {
			before, polls = unread, 0
		}
		if polls == 50 {
			return
		}
	}
	t.Fatalf("%d bytes are unread, and the pipe holds %d", before, size)
}

// TestInterruptedTwice: when the first signal has to wait, here for a reader of the results
// who does not read, the second ends the run at once.
func TestInterruptedTwice(t *testing.T) {
	mustMeasure(t)
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
	cmd.Process.Signal(syscall.SIGTERM) // SIGINT may be ignored, in the background of a shell
	select {
	case err := <-ended:
		t.Fatalf("ended at the first signal: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	for again := true; again; { // on a busy machine both may come before the first is dealt with
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			again = false
		case <-time.After(500 * time.Millisecond):
		}
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want death by the second signal", cmd.ProcessState)
	}
}
