package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/hunt"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/instructions"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/resources"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/modelflags"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// threes predicts 3 for every block, then fails.
type threes struct{ fails error }

func (m threes) String() string { return "threes" }

func (m threes) Predict(_ context.Context, blocks []string) ([]score.Prediction, error) {
	all := make([]score.Prediction, len(blocks))
	for i := range all {
		all[i].Cycles = 3
	}
	return all, m.fails
}

// ones measures 1 for every block until one opinion fails.
type ones struct {
	failsAt hunt.How
	err     error
}

func (m ones) Measure(_ context.Context, blocks []hunt.Case, how hunt.How) ([]hunt.Measurement, error) {
	if how == m.failsAt {
		return nil, m.err
	}
	all := make([]hunt.Measurement, len(blocks))
	for i := range all {
		all[i] = hunt.Measurement{Cycles: 1, Low: 0.99, High: 1.01}
	}
	return all, nil
}

// TestSelfForwardingIsNoMistake: a load may meet a store only because of the memory fill, in any state.
func TestSelfForwardingIsNoMistake(t *testing.T) {
	for loads := range 2 {
		r := profiler.Result{Status: profiler.OK, Cycles: 10.5, CILow: 10.4, CIHigh: 10.6, SelfForwarding: loads}
		require.Equal(t, "the model is spared", loads > 0, measurementOf(&r, 6).Why != "")
	}
}

// TestHuntUnconfirmed: errors that a second measurement did not show are counted, also where no class is left.
func TestHuntUnconfirmed(t *testing.T) {
	r := huntResult{Model: "threes", Threshold: 2, Findings: &hunt.Findings{Surveyed: 57, Wrong: 10, Unconfirmed: 3}}
	require.Equal(t, "text", "threes: 10 of 57 blocks wrong by more than 200 %; 0 classes\n"+
		"3 smallest blocks left out: a second measurement did not show the error, or there was none beside other work\n", r.text())
}

// TestHuntEnds: however a hunt ends, it writes its findings first, then the reports; only the model's errors name it.
func TestHuntEnds(t *testing.T) {
	dir, file := t.TempDir(), require.File(t, "file", "")
	const found = "threes: 1 of 1 block wrong by more than 20 %; 1 class\n"
	gone := &verdict.HostError{Missing: "an idle CPU"}
	for _, c := range []struct {
		name   string
		model  threes
		m      ones
		report string
		want   int
		stdout string
		stderr string
	}{
		{"done", threes{}, ones{}, dir, cli.ExitOK, found, ""},
		{"the host, late", threes{}, ones{hunt.AsLoop, gone}, dir, cli.ExitHost, found,
			"bbprof: the search ended early; this is what was found until then\nbbprof: this host cannot measure: an idle CPU"},
		{"the host, at once", threes{}, ones{hunt.Survey, gone}, dir, cli.ExitHost, "", "bbprof: this host cannot measure: an idle CPU"},
		{"Ctrl-C", threes{}, ones{hunt.AsLoop, context.Canceled}, dir, cli.ExitInterrupted, found, "bbprof: interrupted; this is what was found until then\n"},
		{"the model", threes{errors.New("it died")}, ones{}, dir, cli.ExitInternal, "", "bbprof: -model 3: it died\n"},
		{"the reports", threes{}, ones{}, file, cli.ExitInternal, found, "bbprof: writing the reports: "},
	} {
		var stdout, stderr strings.Builder
		std := cli.Streams{Out: &stdout, Err: &stderr}
		h := &huntCmd{threshold: 0.2, report: c.report}
		h.out.Quiet = true
		got, err := h.hunt(t.Context(), std, c.m, modelflags.Model{Name: "3", Source: c.model}, []string{"4801d8"})
		code := cli.Finish("hunt", h.finish(std, c.model, &got, err), blockflags.Explain, std)
		if code != c.want || !strings.HasPrefix(stdout.String(), c.stdout) || (c.stdout == "") != (stdout.String() == "") ||
			!strings.HasPrefix(stderr.String(), c.stderr) || (c.stderr == "") != (stderr.String() == "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, code, c.want, stdout.String(), stderr.String())
		}
	}
}

// TestInstructionsKeepTable: the table is written before llvm-mc or the model can fail.
func TestInstructionsKeepTable(t *testing.T) {
	rows := []instructions.Row{{Name: "imul r64, r64", Form: asm.FormNamed("imul r64, r64"), Status: "ok"}}
	for _, c := range []struct {
		mc     string
		models []modelflags.Model
		says   string
	}{
		{"exit 7", nil, "bbprof: llvm-mc: exit status 7\n"},
		{"exit 0", []modelflags.Model{{Name: "3", Source: threes{os.ErrClosed}}}, "bbprof: -model 3: file already closed\n"},
	} {
		t.Setenv("PATH", llvmIn(t, c.mc))
		var stdout, stderr strings.Builder
		std := cli.Streams{Out: &stdout, Err: &stderr}
		forms := &instructionsCmd{format: resultfile.CSV}
		code := cli.Finish("instructions", forms.writeAll(t.Context(), std, rows, nil, c.models, cpu.Core{}), blockflags.Explain, std)
		if code != cli.ExitInternal || !strings.Contains(stdout.String(), "\n\"imul r64, r64\",ok,") || stderr.String() != c.says {
			t.Errorf("exit code %d, want %d\n%s%s", code, cli.ExitInternal, stdout.String(), stderr.String())
		}
	}
}

// TestExegesisIsTried: -exegesis checks its tools before it looks for a CPU.
func TestExegesisIsTried(t *testing.T) {
	app := cli.App{Main: new(cli.Command), Commands: Commands(), Headings: []cli.Heading{{Names: "instructions"}}, Explain: blockflags.Explain}
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

// TestTruth: a block counts once, with the weight of all its rows, and not at all if its rows differ by state.
func TestTruth(t *testing.T) {
	names := func(files string) (all []string) {
		for file := range strings.FieldsSeq(files) {
			all = append(all, "testdata/"+file+".csv")
		}
		return all
	}
	for _, c := range []struct {
		files               string // of testdata
		otherInit           string
		options             truthOptions
		blocks, rejected    string
		sensitive, repeated int
	}{
		{"header", "", truthOptions{}, "4801c0: 1 (0), 4801c1: 2 (0), 90: 0.25 (0), ", "map[]", 0, 1},
		{"rows", "", truthOptions{}, "4801c0: 1 (0), 4801c1: 2 (0), 90: 0.25 (0), ", "map[]", 0, 1},
		{"states", "", truthOptions{}, "4801c0: 1 (0), ", "map[]", 1, 4},
		{"states", "", truthOptions{again: true}, "4801c0: 1 (0), 488b03: 8 (0), ", "map[]", 0, 4},
		{"first rerun", "", truthOptions{}, "4801c0: 1 (2), 90: 0.25 (7), ", "map[error:1 unstable:1]", 0, 4},
		{"rerun first", "", truthOptions{}, "90: 0.25 (7), 4801c0: 1 (2), ", "map[clock_drift:1 error:1]", 0, 4},
		{"paper", "distinct", truthOptions{}, "4801c0: 1 (0), 488b4310: 0.34 (0), ", "map[]", 1, 0},
		{"loops", "", truthOptions{cycles: "loops_take"}, "4801c0: 1 (0), 488b03: 2 (0), ", "map[no cycles:1]", 0, 0},
	} {
		got := require.Get(readTruth(names(c.files), nil, c.options))(t)
		if c.otherInit != "" {
			require.NoError(t, got.dropSensitive(names(c.otherInit), nil))
		}
		blocks := ""
		for _, b := range got.blocks {
			blocks += fmt.Sprintf("%s: %v (%v), ", b.Hex, b.Cycles, b.Weight)
		}
		rejected := fmt.Sprint(got.rejected())
		if blocks != c.blocks || rejected != c.rejected || got.sensitive != c.sensitive || got.repeated != c.repeated {
			t.Errorf("%q: %s, rejected %s, %d sensitive, %d repeated; want %+v", c.files, blocks, rejected, got.sensitive, got.repeated, c)
		}
	}
}

// TestBusyResources: a search for resources ends, as of a busy host, where other work leaves too few mixes a time, and says how many
// it left out where it leaves enough.
func TestBusyResources(t *testing.T) {
	for _, c := range []struct {
		busyEvery, busy int // of as many mixes one has no time; so many in all
		ends            bool
	}{{1, 0, true}, {3, 0, true}, {10, 131, false}} {
		m := &mixTimer{notes: io.Discard, forms: []resources.Form{{Name: "add r64, r64"}}, profile: func(_ context.Context, blocks []profiler.Block, _ int,
			_ func(int)) ([]profiler.Result, error) {
			results := make([]profiler.Result, len(blocks))
			for i := range results {
				results[i] = profiler.Result{Status: profiler.OK, Cycles: 1}
				if i%c.busyEvery == 0 {
					results[i] = profiler.Result{Status: profiler.Rejected, Reason: verdict.BusyCore, Rejection: &verdict.Rejection{Reason: verdict.BusyCore}}
				}
			}
			return results, nil
		}}
		times, err := m.time(t.Context(), slices.Repeat([]resources.Mix{{{Form: 0, N: 4}}}, 1300))
		host, busy := errors.AsType[*verdict.HostError](err)
		if c.ends != (busy && host.Busy) || !c.ends && (err != nil || m.busy != c.busy || times[0].Why == "" || times[1].Cycles != 1) {
			t.Errorf("one in %d: %d busy, %v", c.busyEvery, m.busy, err)
		}
	}
}
