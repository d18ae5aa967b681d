package main

import (
	"encoding/csv"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/internal/require"
)

// TestBatchOfRealBlocks: of compilers' blocks each is a row, and bbprof fails on none.
func TestBatchOfRealBlocks(t *testing.T) {
	blocks, err := os.ReadFile("../../../shared/corpus/blocks-1k.csv")
	if err != nil {
		require.Skip(t, require.Corpus, "no corpus beside the project: %v", err)
	}
	mustMeasure(t)
	const n = 100
	lines := strings.SplitAfterN(string(blocks), "\n", n+1)[:n]
	var stdout, stderr strings.Builder
	if code := run([]string{"batch", "-"}, strings.NewReader(strings.Join(lines, "")), &stdout, &stderr); code == cli.ExitHost && disturbed(stderr.String()) {
		require.Skip(t, require.Idle, "%s", &stderr)
	} else if code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	r := csv.NewReader(strings.NewReader(stdout.String()))
	if _, err := r.Read(); err != nil { // the header
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		row, err := r.Read()
		if err == io.EOF {
			if i != n {
				t.Errorf("%d rows, want %d", i, n)
			}
			return
		}
		require.NoError(t, err)
		hex, status := row[0], row[1]
		if want, _, _ := strings.Cut(lines[i], ","); hex != want {
			t.Errorf("row %d is of %s, want %s", i+1, hex, want)
		}
		if status != "ok" && status != "rejected" {
			t.Errorf("row %d: %q", i+1, row)
		}
	}
}
