package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/hunt"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/predicting"
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

// TestHuntEnds: however a hunt ends, it writes its findings first, then the reports; only the model's errors name it.
func TestHuntEnds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
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
		got, err := h.hunt(t.Context(), std, c.m, predicting.Model{Name: "3", Source: c.model}, []string{"4801d8"})
		code := cli.Finish("hunt", h.finish(std, c.model, &got, err), measuring.Explain, std)
		if code != c.want || !strings.HasPrefix(stdout.String(), c.stdout) || (c.stdout == "") != (stdout.String() == "") ||
			!strings.HasPrefix(stderr.String(), c.stderr) || (c.stderr == "") != (stderr.String() == "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.name, code, c.want, stdout.String(), stderr.String())
		}
	}
}
