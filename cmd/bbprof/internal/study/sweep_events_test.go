package study

import (
	"errors"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

// TestSweepInterrupted: a value without a run before Ctrl-C has its traces, and empty cells.
func TestSweepInterrupted(t *testing.T) {
	points := [][]float64{{5}, nil}
	s := sweepCmd{factor: "env", values: []int{0, 16}}
	table := s.ofRuns(points, []trace.Counts{{Lines: 3, Pages: 4}, {Lines: 5, Pages: 6}}).Table()
	require.Equal(t, "rows", []string{"0,5,,,1,0,0,0,0,0,0,0,3,4", "16,,,,0,0,0,0,0,0,0,0,5,6"},
		[]string{strings.Join(table[1], ","), strings.Join(table[2], ",")})
}

// TestRepeat: with -repeat, cycles are per repetition, run by run, without a run's fixed cost.
func TestRepeat(t *testing.T) {
	const start, each, k = 1e6, 250, 21
	points := make([][]float64, 4) // of each value k repetitions, then one
	for i := range points {
		for drift := range 6 {
			repetitions := []float64{k, 1}[i%2]
			points[i] = append(points[i], start+float64(1000*drift)+repetitions*(each+float64(i/2)))
		}
	}
	s := sweepCmd{factor: "arg", values: []int{0, 16}, repeat: k}
	got := s.ofRuns(points, nil)
	for v, p := range got.Points {
		if want := each + float64(v); p.Cycles != want || p.Low != want || p.High != want || p.Runs != 6 || p.Value != 16*v {
			t.Errorf("%+v, want %g cycles", p, want)
		}
	}
	points[3] = points[3][:2] // interrupted
	if p := s.ofRuns(points, nil).Points[1]; p.Runs != 2 {
		t.Errorf("%+v", p)
	}
}

// TestSweepFails: errors in -events and -trace come before the first run; a failure after the last loses no run.
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
			s := sweepCmd{factor: "env", words: []string{path}, values: []int{0, 16}, runs: 1, traced: c.traced, window: 1}
			s.Opts.Events, s.programs.Kernel = []string{c.event}, k
			std := cli.Streams{Out: &stdout, Err: &stderr}
			got, err := s.sweepProgram(t.Context(), std)
			err = s.finish(std, got, err)
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

// TestSweepSummary: the strongest column comes first, constant ones last; counts 25 % apart are reported.
func TestSweepSummary(t *testing.T) {
	got := sweep.Sweep{Factor: "env_bytes", Groups: []sweep.Group{{Title: "events", Brief: true, Columns: []sweep.Column{
		{Name: "same", Values: []float64{7, 7, 7, 7, 7}},
		{Name: "weak", Values: []float64{100, 130, 100, 125, 100}},
		{Name: "misses", Values: []float64{100, 100, 100, 126, 100}},
		{Name: "no", Why: "the kernel refuses it", Values: slices.Repeat([]float64{math.NaN()}, 5)},
	}}}}
	for i, cycles := range []float64{1000, 1010, 1005, 2000, 1002} {
		got.Points = append(got.Points, sweep.Runs(16*i, slices.Repeat([]float64{cycles}, 6)))
	}
	text := got.Summary()
	inOrder := []string{
		"bbprof: 5 of 5 values of env_bytes were measured: 1000 to 2000 cycles, a ratio of 2.000; slower than the usual 1005 cycles by 3 %: 1 value (48)\n",
		"misses ", "weak ", "the same at all values: same\n  no is not counted: the kernel refuses it\n",
	}
	for i, want := range inOrder {
		if at := strings.Index(text, want); at < 0 || i > 0 && at < strings.Index(text, inOrder[i-1]) {
			t.Errorf("%q is missing or too early in:\n%s", want, text)
		}
	}
	if want := "more than 25 % apart: 100 at the fastest value (0), 126 at the slowest (48)"; strings.Count(text, "apart") != 1 ||
		!strings.Contains(text, want) {
		t.Errorf("want %q and no other apart in:\n%s", want, text)
	}
	got.Points[0] = sweep.Runs(0, slices.Repeat([]float64{1000}, 5))
	if text := got.Summary(); !strings.Contains(text, "; too few runs to tell slow values from chance; that takes -runs 6 or more\n") {
		t.Error(text)
	}
}
