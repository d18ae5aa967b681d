//go:build unix

package main

import (
	"bufio"
	"encoding/csv"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterrupted ends a batch that waits for its next row: what is written is whole, and
// the exit code and the message say that it is not all.
func TestInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			if why := cannotMeasure(t); why != "" {
				t.Skip(why)
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			// By this name the test binary is bbprof; see TestMain.
			cmd := exec.Command(exe)
			cmd.Args = []string{"bbprof", "batch", "-"}
			stdin, _ := cmd.StdinPipe()
			stdout, _ := cmd.StdoutPipe()
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			defer stuck.Stop()

			io.WriteString(stdin, "4801c0\nc3\n")
			out := bufio.NewReader(stdout)
			var rows strings.Builder
			for range 3 { // the header and two rows
				line, err := out.ReadString('\n')
				if err != nil {
					t.Fatalf("%v; stderr: %s", err, stderr.String())
				}
				rows.WriteString(line)
			}
			cmd.Process.Signal(sig)
			rest, _ := io.ReadAll(out)
			rows.Write(rest)
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("exit code %d, want %d", code, exitInterrupted)
			}
			if want := "bbprof: interrupted, with 2 rows done and written in full\n"; !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("stderr is %q, want it to end with %q", stderr.String(), want)
			}
			if got, err := csv.NewReader(strings.NewReader(rows.String())).ReadAll(); err != nil || len(got) != 3 {
				t.Errorf("%d rows, error %v: %q", len(got), err, rows.String())
			}
		})
	}
}
