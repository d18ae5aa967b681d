package main

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
)

// TestExegesisIsTried: what -exegesis lacks is said before a CPU to measure on is looked for.
func TestExegesisIsTried(t *testing.T) {
	for _, c := range []struct {
		path, name, says string
	}{
		{llvmIn(t, "exit 0"), "nowhere/here", "-exegesis nowhere/here: "},
		{t.TempDir(), "here", "-exegesis here: llvm-mc is not installed, or not in PATH; Debian has it"},
	} {
		t.Chdir(t.TempDir())
		t.Setenv("PATH", c.path)
		var stderr strings.Builder
		code := run([]string{"instructions", "-cpus", "8191", "-match", "^imul$", "-exegesis", c.name}, nil, nil, &stderr)
		if code != cli.ExitUsage || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("exit code %d, want %d and %q: %s", code, cli.ExitUsage, c.says, stderr.String())
		}
	}
}
