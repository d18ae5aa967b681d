package model

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
)

// TestExegesisIsTried: -exegesis checks its tools before it looks for a CPU.
func TestExegesisIsTried(t *testing.T) {
	app := cli.App{Main: new(cli.Command), Commands: Commands(), Headings: []cli.Heading{{Names: "instructions"}}, Explain: measuring.Explain}
	for _, c := range []struct {
		path, name, says string
	}{
		{llvmIn(t, "echo '<MCOperand Reg:RIZ>'"), "nowhere/here", "-exegesis nowhere/here: "},
		{llvmIn(t, "echo '<MCOperand Reg:56>'"), "here", "-exegesis here: llvm-mc does not name registers with -show-inst"},
		{t.TempDir(), "here", "-exegesis here: llvm-mc is not installed, or not in PATH; Debian has it"},
	} {
		t.Chdir(t.TempDir())
		t.Setenv("PATH", c.path)
		var stderr strings.Builder
		code := app.Run([]string{"instructions", "-cpus", "8191", "-match", "^imul$", "-exegesis", c.name}, nil, nil, &stderr)
		if code != cli.ExitUsage || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("exit code %d, want %d and %q: %s", code, cli.ExitUsage, c.says, stderr.String())
		}
	}
}
