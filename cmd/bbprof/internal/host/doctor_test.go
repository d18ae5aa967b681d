package host

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/doctor"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/verdict"
)

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
		{"text", examining{verbose: true}, report, cli.ExitHost, true},
		{"JSON", examining{verbose: true, out: cli.Output{JSON: true}}, report, cli.ExitOK, false},
		{"short", examining{}, report, cli.ExitOK, false},
		{"cannot measure", examining{verbose: true, out: cli.Output{JSON: true}}, doctor.Report{}, cli.ExitHost, false},
	} {
		var stdout, stderr strings.Builder
		std := cli.Streams{Out: &stdout, Err: &stderr}
		before := ""
		code := cli.Finish("doctor", c.d.show(std, c.r, func() (bounds.Conflicts, error) {
			before = stdout.String()
			return bounds.Conflicts{}, gone
		}), measuring.Explain, std)
		if code != c.want || strings.Contains(before, "can measure here") != c.measure || stdout.Len() == 0 {
			t.Errorf("%s: exit code %d, want %d; before units %q\n%s%s", c.name, code, c.want, before, stdout.String(), stderr.String())
		}
	}
}
