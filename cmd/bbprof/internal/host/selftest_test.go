package host

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/selftest"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// TestSelftestCode: disturbed and skipped blocks are neither passes nor failures, but where
// there is nothing else nothing was tested.
func TestSelftestCode(t *testing.T) {
	for _, c := range []struct {
		t    selftest.Tally
		want int
	}{
		{selftest.Tally{Pass: 4}, cli.ExitOK},
		{selftest.Tally{Pass: 1, Disturbed: 3, Skipped: 9}, cli.ExitOK},
		{selftest.Tally{Pass: 9, Fail: 1}, cli.ExitRejected},
		{selftest.Tally{Fail: 1, Disturbed: 9}, cli.ExitRejected},
		{selftest.Tally{Disturbed: 4}, cli.ExitHost},
		{selftest.Tally{Skipped: 4}, cli.ExitHost},
	} {
		var stderr strings.Builder
		got := cli.Finish("selftest", selftestOutcome(c.t), blockflags.Explain, cli.Streams{Err: &stderr})
		if got != c.want || (stderr.Len() > 0) != (c.want == cli.ExitHost) {
			t.Errorf("%v: exit code %d, want %d; stderr %q", c.t, got, c.want, stderr.String())
		}
	}
}

// TestSelftestUnknown: a relation whose other blocks were not measured expects nothing, not 0 cycles.
func TestSelftestUnknown(t *testing.T) {
	report := selftestReport(host.CPU{}, []selftest.Outcome{{Text: "imul", Kind: selftest.Relation, Status: selftest.Disturbed, Why: "busy_core"}})
	if strings.Contains(report, "0.000") || !strings.Contains(report, "disturbed: busy_core") {
		t.Errorf("report: %s", report)
	}
}

// Where both clocks exist they are compared; where not, the report says why.
func TestSelftestClocks(t *testing.T) {
	for _, c := range []struct {
		clocks clocksJSON
		want   string
		agree  bool
	}{
		{clocksJSON{TimedBy: profiler.TSCClock, NoPerf: "no hardware counters: so"}, "clock: tsc alone; no hardware counters: so\n", true},
		{clocksJSON{TimedBy: profiler.PerfClock, Compared: []selftest.Comparison{{Text: "nop", Perf: 0.25, TSC: 0.251, Agree: true}}},
			"clocks: perf and tsc agree on 1 of 1 blocks that both measured\n", true},
		{clocksJSON{TimedBy: profiler.PerfClock, Compared: []selftest.Comparison{{Text: "nop", Perf: 0.25, TSC: 0.251,
			Agree: true}, {Text: "imul", Perf: 3, TSC: 4}}},
			"imul: perf says 3.000, tsc 4.000: the clocks DIFFER\nclocks: perf and tsc agree on 1 of 2 blocks that both measured\n", false},
	} {
		if got := c.clocks.report(); got != c.want || c.clocks.agree() != c.agree {
			t.Errorf("%q, %v, want %q", got, c.clocks.agree(), c.want)
		}
	}
}
