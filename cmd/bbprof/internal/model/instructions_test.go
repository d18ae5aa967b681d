package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/predicting"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
)

// TestInstructionsKeepTable: the table is written before llvm-mc or the model can fail.
func TestInstructionsKeepTable(t *testing.T) {
	rows := []instructions.Row{{Name: "imul r64, r64", Form: asm.FormNamed("imul r64, r64"), Status: "ok"}}
	for _, c := range []struct {
		mc     string
		models []predicting.Model
		says   string
	}{
		{"exit 7", nil, "bbprof: llvm-mc: exit status 7\n"},
		{"exit 0", []predicting.Model{{Name: "3", Source: threes{os.ErrClosed}}}, "bbprof: -model 3: file already closed\n"},
	} {
		t.Setenv("PATH", llvmIn(t, c.mc))
		var stdout, stderr strings.Builder
		std := cli.Streams{Out: &stdout, Err: &stderr}
		forms := &instructionsCmd{format: resultfile.CSV}
		code := cli.Finish("instructions", forms.writeAll(t.Context(), std, rows, nil, c.models, cpu.Core{}), measuring.Explain, std)
		if code != cli.ExitInternal || !strings.Contains(stdout.String(), "\n\"imul r64, r64\",ok,") || stderr.String() != c.says {
			t.Errorf("exit code %d, want %d\n%s%s", code, cli.ExitInternal, stdout.String(), stderr.String())
		}
	}
}

// TestExegesisIsTried: -exegesis checks its tools before it looks for a CPU.
func TestExegesisIsTried(t *testing.T) {
	app := cli.App{Main: new(cli.Command), Commands: Commands(), Headings: []cli.Heading{{Names: "instructions"}}, Explain: measuring.Explain}
	for _, c := range []struct{ path, name, says string }{
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

// llvmIn makes a folder whose llvm-mc runs a script.
func llvmIn(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "llvm-mc"), []byte("#!/bin/sh\n"+script+"\n"), 0o777))
	return dir
}
