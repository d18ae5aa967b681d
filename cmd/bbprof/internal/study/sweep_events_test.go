package study

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

// TestSweepInterrupted: a value without a run before Ctrl-C has its traces, and empty cells.
func TestSweepInterrupted(t *testing.T) {
	points := []program.Point{{Cycles: []float64{5}, Faults: []float64{1}, Switches: []float64{2}}, {Setup: program.Setup{EnvBytes: 16}}}
	table := ofPrograms("env").table(swept{points: points, traces: []trace.Counts{{Lines: 3, Pages: 4}, {Lines: 5, Pages: 6}}})
	want := []string{"0,5,,,1,1,2,0,0,0,0,0,0,0,3,4", "16,,,,0,,,0,0,0,0,0,0,0,5,6"}
	if got := []string{strings.Join(table[1], ","), strings.Join(table[2], ",")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSweepFails: what is wrong with -events and -trace is found before the first run, and what fails after the last
// run loses none.
func TestSweepFails(t *testing.T) {
	exits := tinyelf.Asm(tinyelf.Exit(0))
	path := tinyelf.Write(t, append(exits, 0x90), tinyelf.Symbol{Name: "never", Offset: len(exits)})
	const event = 0x1234
	for _, c := range []struct {
		name, event, traced, want string
		runs                      bool
	}{
		{"event", "frobnications", "", "frobnications", false},
		{"function", "r1234", "never", "it never called never", false},
		{"counter", "r1234", "", "device or resource busy", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			k := pmutest.New(4)
			k.Opens = func(a pmu.Attr) error {
				if a.Config == event && strings.Contains(stderr.String(), "2 runs of ") {
					return syscall.EBUSY
				}
				return nil
			}
			s := sweeping{words: []string{path}, values: []int{0, 16}, runs: 1, traced: c.traced, window: 1}
			s.Opts.Events, s.programs.Kernel = []string{c.event}, k
			err := s.sweepProgram(t.Context(), ofPrograms("env"), cli.Streams{Out: &stdout, Err: &stderr})
			if !errors.Is(err, syscall.EBUSY) {
				require.Host(t, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			require.Equal(t, "ran", c.runs, strings.Contains(stderr.String(), "2 runs of "))
			if written := strings.HasPrefix(stdout.String(), "env_bytes,cycles,ci_low,ci_high,runs,incomplete\n0,1000,,,1,true\n16,1000,,,1,true\n"); written != c.runs {
				t.Errorf("written: %v, want %v: %s", written, c.runs, &stdout)
			}
		})
	}
}

// TestScreen: the event that goes along with the cycles comes first, what does not vary last, and a count is pointed
// out from more than 25 % between the fastest value and the slowest on.
func TestScreen(t *testing.T) {
	var points []program.Point
	for i, cycles := range []float64{1000, 1010, 1005, 2000, 1002} {
		runs := []float64{cycles, cycles, cycles, cycles, cycles, cycles}
		points = append(points, program.Point{Setup: program.Setup{EnvBytes: 16 * i}, Cycles: runs})
	}
	text := ofPrograms("env").screen(points, []sweep.Counted{
		{Name: "same", Values: []float64{7, 7, 7, 7, 7}},
		{Name: "weak", Values: []float64{100, 130, 100, 125, 100}},
		{Name: "misses", Values: []float64{100, 100, 100, 126, 100}},
	}, 6)
	misses, weak, same := strings.Index(text, "misses "), strings.Index(text, "weak "), strings.Index(text, "the same at all values: same\n")
	if misses < 0 || weak < misses || same < weak {
		t.Errorf("not in order:\n%s", text)
	}
	if want := "more than 25 % apart: 100 at the fastest value (0), 126 at the slowest (48)"; strings.Count(text, "apart") != 1 || !strings.Contains(text, want) {
		t.Errorf("want %q and no other apart in:\n%s", want, text)
	}
	if !strings.HasPrefix(text, "bbprof: events of 6 runs a value") {
		t.Error(text)
	}
	want := "bbprof: 1000 to 2000 cycles, a ratio of 2.000; slower than the usual 1005 cycles by 3 %: 1 value (48)\n"
	if got := ofPrograms("env").spread(points); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	points[0].Cycles = points[0].Cycles[:5]
	want = "bbprof: 1000 to 2000 cycles, a ratio of 2.000; too few runs to tell slow values from chance; that takes -runs 6 or more\n"
	if got := ofPrograms("env").spread(points); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
