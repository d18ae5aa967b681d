package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
)

// TestWriteTracesSoFar: a value whose window was not traced before Ctrl-C has empty cells, and keeps its cycles.
func TestWriteTracesSoFar(t *testing.T) {
	points := []program.Point{{Cycles: []float64{5}, Faults: []float64{1}, Switches: []float64{2}}, {Setup: program.Setup{EnvBytes: 16}, Cycles: []float64{7}}}
	table := ofPrograms("env").table(swept{points: points, traces: []trace.Counts{{Lines: 3, Pages: 4}}})
	want := []string{"0,5,,,1,1,2,0,0,0,0,0,0,0,3,4", "16,7,,,1" + strings.Repeat(",", len(tracedColumns))}
	if got := []string{strings.Join(table[1], ","), strings.Join(table[2], ",")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
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
	if !strings.Contains(text, "1000 to 2000 cycles, a ratio of 2.000; events of 6 runs a value") {
		t.Error(text)
	}
}
