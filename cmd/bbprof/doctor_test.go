package main

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/doctor"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/verdict"
)

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
		}), explainError, std)
		if code != c.want || strings.Contains(before, "can measure here") != c.measure || stdout.Len() == 0 {
			t.Errorf("%s: exit code %d, want %d; before units %q\n%s%s", c.name, code, c.want, before, stdout.String(), stderr.String())
		}
	}
}
