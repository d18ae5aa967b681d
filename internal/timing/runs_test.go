package timing

import (
	"testing"

	"github.com/bbprof/bbprof/internal/clock"
	"github.com/bbprof/bbprof/internal/harness"
)

// A clock of coarse steps wants more runs in a timing, and no clock more than there is room for.
func TestRunsOn(t *testing.T) {
	for _, c := range []struct {
		step float64
		want harness.Runs
	}{
		{1, harness.Runs{Ticks: 100, Least: 12, Most: 12, Longest: 40000}},
		{2, harness.Runs{Ticks: 200, Least: 12, Most: 12, Longest: 40000}},
		{4, harness.Runs{Ticks: 400, Least: 12, Most: 12, Longest: 40000}},
		{26, harness.Runs{Ticks: 2600, Least: 12, Most: 43, Longest: 40000}},
		{100, harness.Runs{Ticks: 10000, Least: 12, Most: 64, Longest: 40000}},
		{400, harness.Runs{Ticks: 40000, Least: 12, Most: 64, Longest: 40000}},
	} {
		if got := runsOn(clock.TSC{StepTicks: c.step}); got != c.want {
			t.Errorf("steps of %v ticks: %+v, want %+v", c.step, got, c.want)
		}
	}
}
