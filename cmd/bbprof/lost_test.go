package main

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// TestResultLost: what cannot be written to standard output is a failure of every command, and not one of its
// input; a reader that has gone needs no message.
func TestResultLost(t *testing.T) {
	result := require.File(t, "result.csv", "hex,status,reason,cycles,ci_low,ci_high,row\n90,ok,,1,0.9,1.1,1\n")
	lines := [][]string{{"version"}, {"--version"}, {"-h"}, {"help"}, {"help", "-man"}, {"completion", "bash"}}
	for _, f := range []resultfile.Format{resultfile.CSV, resultfile.JSON, resultfile.Parquet, resultfile.BHive} { // others need more than this result
		lines = append(lines, []string{"convert", "-format", string(f), result})
	}
	for _, name := range bbprof().Names() {
		lines = append(lines, []string{name, "-h"})
	}
	for _, args := range lines {
		t.Run(strings.ReplaceAll(strings.Join(args, " "), result, "FILE"), func(t *testing.T) {
			if code := run(args, nil, io.Discard, io.Discard); code != cli.ExitOK {
				t.Fatalf("with a place to write to: exit code %d", code)
			}
			var stderr bytes.Buffer
			if code := run(args, nil, failingWriter{syscall.ENOSPC}, &stderr); code != cli.ExitInternal ||
				strings.Count(stderr.String(), "no space left on device") != 1 {
				t.Errorf("full disk: exit code %d, want %d: %s", code, cli.ExitInternal, stderr.String())
			}
			stderr.Reset()
			if code := run(args, nil, failingWriter{syscall.EPIPE}, &stderr); code != cli.ExitPipe || stderr.Len() > 0 {
				t.Errorf("closed pipe: exit code %d, want %d: %s", code, cli.ExitPipe, stderr.String())
			}
		})
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }
