package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/doctor"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/invariants"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// TestDoctorReport: the report of a host that can measure, and of one that cannot.
func TestDoctorReport(t *testing.T) {
	r := doctor.Report{Shortcomings: []doctor.Shortcoming{{What: "no ptrace", Effect: "bbprof cannot measure here", Remedy: "allow it"}, {What: "slow", Effect: "takes longer"}}}
	got := doctorReport(r)
	for _, want := range []string{
		"bbprof cannot measure here\nmissing     no ptrace\nremedy      allow it\n",
		"\nwhat could be better\n  1. slow\n     effect: takes longer\n     remedy: none known\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	r = doctor.Report{CanMeasure: true, Precision: &doctor.Precision{}, Requirements: []doctor.Requirement{{Name: doctor.Aliased, Met: doctor.Unknown, Prices: []doctor.Price{
		{What: doctor.Through, Under: doctor.TwoFrames, Why: (&verdict.Rejection{Reason: verdict.Nonlinear, Detail: "so"}).Error()},
		{What: doctor.Through, Under: doctor.OneFrame, Cycles: 1.513},
	}}}}
	got = doctorReport(r)
	for _, want := range []string{
		"bbprof can measure here\n", "\n    store, then load           1.51           ?           ?\n",
		"\n    ? store, then load, two frames: nonlinear: so\n", "\nnothing else to mend\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// TestEventsReport: each event with what it counted, and why it is not believed; and a host without counters.
func TestEventsReport(t *testing.T) {
	if got, want := eventsReport(doctor.Report{}), "events: none is checked, for there are no counters; no result rests on any\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r := doctor.Report{
		Clock: &doctor.Clock{ClockReport: profiler.ClockReport{Name: "perf", Method: "core cycles; it counts 1.000 for an add"}},
		Events: []profiler.CounterReport{
			{Role: "split_load", Event: "SPLITS", Kind: invariants.Counted, Checks: []profiler.CounterCheck{{Block: "an add", Must: 0}, {Block: "a load that splits", Must: 1, Counted: 1.0104}}},
			{Role: "l1i_miss", Event: "IFETCH", Kind: invariants.Unchecked, Why: "it counted 2", Checks: []profiler.CounterCheck{{Block: "a line", Must: 1, Counted: 2}, {Block: "a page", Must: 1, Failed: "timeout"}}},
			{Role: "split_store", Kind: invariants.Unchecked, Why: "there is none"},
		},
	}
	want := `events, and what each counted per iteration of blocks of which that is known
  cycles          counted    core cycles; it counts 1.000 for an add
  split_load      counted    SPLITS
                             0.000 of 0: an add
                             1.010 of 1: a load that splits
  l1i_miss        unchecked  IFETCH
                             it counted 2
                             2.000 of 1: a line
                             not measured of 1: a page
  split_store     unchecked  there is none
`
	if diff := cmp.Diff(want, eventsReport(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.Clock.Name = "tsc"
	if got := eventsReport(r); !strings.Contains(got, "\n  cycles          unchecked  they are the TSC's: core cycles") {
		t.Error(got)
	}
}

// TestAnyHost: of two hosts' reports the same is left; without a line, or with another, it is not.
func TestAnyHost(t *testing.T) {
	one := `bbprof can measure here
cpu         AMD EPYC: Zen 4
clock       TSC
            2596 MHz
what the method asks of a CPU
  aliased pages at no cost  not met       loads are slower
                                          so pages get a frame each
    cycles per iteration      one frame  two frames
    store, then load               1.51           ?
    ? store, then load, two frames: nonlinear: so
what could be better
  1. no counters
`
	other := `bbprof can measure here
cpu         Intel: Skylake
clock       core cycles
what the method asks of a CPU
  aliased pages at no cost  partly met    loads cost nothing
    cycles per iteration      one frame  two frames
    store, then load              12.10        1.00
nothing else to mend
`
	if withoutDigits(one) != withoutDigits(other) {
		t.Errorf("%s\nand\n%s", withoutDigits(one), withoutDigits(other))
	}
	for _, line := range []string{"cpu  ", "  aliased", "    store", "bbprof can"} {
		if changed := strings.Replace(one, line, line[:len(line)-1]+"x ", 1); withoutDigits(changed) == withoutDigits(other) {
			t.Errorf("a change of %q goes unnoticed", line)
		}
	}
}

// TestDoctorShowsFirst: the report is written before the units are measured, which may fail; JSON has none.
func TestDoctorShowsFirst(t *testing.T) {
	report := doctor.Report{CanMeasure: true, Precision: &doctor.Precision{}}
	gone := &verdict.HostError{Missing: "an idle CPU"}
	for _, c := range []struct {
		name    string
		d       examining
		r       doctor.Report
		want    int
		measure bool
	}{
		{"text", examining{verbose: true}, report, exitHost, true},
		{"JSON", examining{verbose: true, out: output{json: true}}, report, exitOK, false},
		{"short", examining{}, report, exitOK, false},
		{"cannot measure", examining{verbose: true, out: output{json: true}}, doctor.Report{}, exitHost, false},
	} {
		var stdout, stderr strings.Builder
		std := streams{nil, &stdout, &stderr}
		before := ""
		code := finish("doctor", c.d.show(std, c.r, func() (bounds.Conflicts, error) {
			before = stdout.String()
			return bounds.Conflicts{}, gone
		}), std)
		if code != c.want || strings.Contains(before, "can measure here") != c.measure || stdout.Len() == 0 {
			t.Errorf("%s: exit code %d, want %d; before units %q\n%s%s", c.name, code, c.want, before, stdout.String(), stderr.String())
		}
	}
}
