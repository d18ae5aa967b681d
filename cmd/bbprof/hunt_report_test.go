package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/internal/require"
)

// TestHuntTriesReport: that reports cannot be written is said before a CPU to measure on is looked for.
func TestHuntTriesReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("90\n"), 0o666))
	var stderr strings.Builder
	code := run([]string{"hunt", "-cpus", "8191", "-model", "exec:cat", "-report", filepath.Join(file, "issues"), file}, nil, nil, &stderr)
	if code != cli.ExitUsage || !strings.Contains(stderr.String(), "bbprof: hunt: -report "+file+"/issues: ") {
		t.Errorf("exit code %d, want %d: %s", code, cli.ExitUsage, stderr.String())
	}
}
