package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/ablate"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestStageMisses: misses are called counted if every measured step has a count, else predicted.
func TestStageMisses(t *testing.T) {
	measured := func(counts ...profiler.CounterReport) ablate.Stage {
		return ablate.Stage{Result: profiler.Result{Status: profiler.OK, UnrollLong: 100, Counters: counts,
			Predicted: &invariants.Prediction{L1DMisses: 2, L1IMisses: 3, RunL1IMisses: 250}}}
	}
	l1d := func(n float64) profiler.CounterReport {
		return profiler.CounterReport{Role: string(pmu.L1DReadMiss), Kind: invariants.Counted, PerIteration: &n}
	}
	unchecked := profiler.CounterReport{Role: string(pmu.L1DReadMiss), Kind: invariants.Unchecked}
	crashed := ablate.Stage{Result: profiler.Result{Status: profiler.Rejected, Reason: verdict.SIGSEGV,
		Rejection: &verdict.Rejection{Reason: verdict.SIGSEGV, Detail: "nothing"}}}
	for _, c := range []struct {
		name   string
		stages []ablate.Stage
		want   []string
		kind   string
	}{
		{"all counted", []ablate.Stage{crashed, measured(l1d(9.5)), measured(l1d(0))}, []string{"", "950", "0"}, "counted"},
		{"one not", []ablate.Stage{crashed, measured(l1d(9.5)), measured(unchecked)}, []string{"", "200", "200"}, "predicted"},
		{"none", []ablate.Stage{measured(), measured(unchecked)}, []string{"200", "200"}, "predicted"},
		{"nothing measured", []ablate.Stage{crashed}, []string{""}, "predicted"},
	} {
		if got, kind := misses(c.stages, pmu.L1DReadMiss); !slices.Equal(got, c.want) || kind != c.kind {
			t.Errorf("%s: %q, %s", c.name, got, kind)
		}
	}
	table := stageTable([]ablate.Stage{crashed, measured(l1d(9.5))})
	if !strings.Contains(table, "crashed  sigsegv: nothing") || !strings.Contains(table, "L1D are counted, of L1I predicted") {
		t.Error(table)
	}
}

// TestAblateEnds: when the host fails, partial results of a corpus are written before the error.
func TestAblateEnds(t *testing.T) {
	for _, c := range []struct {
		corpus, stdout string
	}{
		{"90\n91\n93\n", "of 2 blocks\nincomplete: ended by this host before the end\n"},
		{"93\n", ""},
	} {
		in := require.Get(rowfile.OpenBlocks([]string{"-"}, strings.NewReader(c.corpus), ""))(t)
		exits(t, c.corpus, "ablate", cli.ExitHost, c.stdout, "an idle CPU", func(std cli.Streams) error {
			return new(ablateCmd).shares(t.Context(), failsAt(0x91, 0, 0x93), in, std)
		})
	}
}
