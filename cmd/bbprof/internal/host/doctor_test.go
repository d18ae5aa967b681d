package host

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/doctor"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/bounds"
	"github.com/bbprof/bbprof/internal/require"
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

// TestRecordingSize: help says how large a recording is, as one at hand has it.
func TestRecordingSize(t *testing.T) {
	info := require.Get(os.Stat("../../../../testdata/cores/zen4-genoa.gz"))(t)
	help, said := doctorCommand().Declared().Lookup("record").Help, 0
	_, after, _ := strings.Cut(help, "; some ")
	if _, err := fmt.Sscanf(after, "%d KB", &said); err != nil || float64(said)*1000 > 1.3*float64(info.Size()) || float64(said)*1000 < 0.7*float64(info.Size()) {
		t.Errorf("it is %d bytes, and help says %q", info.Size(), help)
	}
}
