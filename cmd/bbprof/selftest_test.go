package main

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/selftest"
	"github.com/bbprof/bbprof/internal/cpu"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
)

// outcomes are one of each kind.
var outcomes = []selftest.Outcome{
	{Text: "nop", Status: selftest.Pass, ExpectLow: 0.25, ExpectHigh: 0.25, Cycles: 0.2512, CILow: 0.25, CIHigh: 0.2524, Tries: 1},
	{Text: "imul rax, rax", Status: selftest.Fail, Why: "off", ExpectLow: 3, ExpectHigh: 4, Cycles: 5, CILow: 4.9, CIHigh: 5.1, Tries: 1},
	{Text: "hlt", Status: selftest.Fail, Why: "privileged: no", ExpectLow: 1, ExpectHigh: 1, Tries: 1},
	{Text: "push rax", Status: selftest.Disturbed, Why: "unstable: so", ExpectLow: 1, ExpectHigh: 1, Tries: 3},
	{Text: "vaddps", Status: selftest.Skipped, Why: "this CPU has no AVX"},
}

func TestSelftestReport(t *testing.T) {
	const want = `block          expected        measured  95 % interval     outcome
nop            0.250              0.251  0.250 to 0.252    pass
imul rax, rax  3.000 to 4.000     5.000  4.900 to 5.100    FAIL: off
hlt            1.000                                       FAIL: privileged: no
push rax       1.000                                       disturbed: unstable: so
vaddps                                                     skipped: this CPU has no AVX
1 of 4 pass, 2 FAIL, 1 disturbed, 1 skipped; answers for Zen 2 (Some CPU)
`
	if got := selftestReport(host.CPU{Microarchitecture: cpu.Zen2, Brand: " Some CPU "}, outcomes); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	unknown := selftestReport(host.CPU{Microarchitecture: cpu.Unknown, Vendor: "Me", Family: 6, Model: 42}, nil)
	if !strings.HasSuffix(unknown, "0 of 0 pass; answers for a core that bbprof does not know, all of them bands: Me family 0x6 model 0x2a ()\n") {
		t.Errorf("%s", unknown)
	}
	for core, says := range map[cpu.Name]string{cpu.Darkmont: "answers for any core, all of them bands, since there are none for Darkmont ()", cpu.Zen5c: "answers for Zen 5c ()"} {
		if got := selftestReport(host.CPU{Microarchitecture: core}, nil); !strings.Contains(got, says) {
			t.Errorf("%s", got)
		}
	}
}

func TestSelftestLine(t *testing.T) {
	const line = "1 of 4 pass, 2 FAIL, 1 disturbed, 1 skipped; imul rax, rax: 5.000 cycles, expected 3.000 to 4.000; hlt: privileged: no, expected 1.000"
	if got := selftestLine(outcomes); got != line {
		t.Errorf("%q", got)
	}
	for unroll, hint := range map[bool]string{false: "bbprof selftest tells more", true: "-unroll may be why: so many copies need not fit the op cache"} {
		if got, want := selftestWarning("x", unroll), "bbprof: warning: the selftest fails, so results may be wrong too: x ("+hint+")\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSelftestCode: disturbed and skipped blocks are neither passes nor failures, but where
// there is nothing else nothing was tested.
func TestSelftestCode(t *testing.T) {
	for _, c := range []struct {
		t    selftest.Tally
		want int
	}{
		{selftest.Tally{Pass: 4}, exitOK},
		{selftest.Tally{Pass: 1, Disturbed: 3, Skipped: 9}, exitOK},
		{selftest.Tally{Pass: 9, Fail: 1}, exitRejected},
		{selftest.Tally{Fail: 1, Disturbed: 9}, exitRejected},
		{selftest.Tally{Disturbed: 4}, exitHost},
		{selftest.Tally{Skipped: 4}, exitHost},
	} {
		var stderr strings.Builder
		if got := finish("selftest", selftestOutcome(c.t), streams{err: &stderr}); got != c.want || (stderr.Len() > 0) != (c.want == exitHost) {
			t.Errorf("%v: exit code %d, want %d; stderr %q", c.t, got, c.want, stderr.String())
		}
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
		{clocksJSON{TimedBy: profiler.PerfClock, Compared: []selftest.Comparison{{Text: "nop", Perf: 0.25, TSC: 0.251, Agree: true}, {Text: "imul", Perf: 3, TSC: 4}}},
			"imul: perf says 3.000, tsc 4.000: the clocks DIFFER\nclocks: perf and tsc agree on 1 of 2 blocks that both measured\n", false},
	} {
		if got := c.clocks.report(); got != c.want || c.clocks.agree() != c.agree {
			t.Errorf("%q, %v, want %q", got, c.clocks.agree(), c.want)
		}
	}
}

// TestSummaryTellsOfSelftests: each that was run has its line, after the reasons.
func TestSummaryTellsOfSelftests(t *testing.T) {
	for _, c := range []struct{ start, end, want string }{
		{"", "", ""},
		{"a", "", "bbprof: selftest at start: a\n"},
		{"a", "b", "bbprof: selftest at start: a\nbbprof: selftest at end: b\n"},
	} {
		var w strings.Builder
		(&batchEnd{flags: &batchFlags{}, in: &input.Input{}, atStart: c.start, atEnd: c.end}).report(&w)
		if _, got, _ := strings.Cut(w.String(), "blocks/s\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
