package main

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/explain"
)

// TestLayoutsReport: it names the rule that decides and the changes that end that layouts differ, where there are any.
func TestLayoutsReport(t *testing.T) {
	for _, c := range []struct {
		right  int
		differ float64
		told   int
	}{{24, 0.01, 1}, {12, 0.06, 0}} {
		got := layoutsReport(explain.Layouts{Differ: 0.07, Rules: []explain.Rule{{Name: "place", Right: c.right, Of: 24}},
			Ends: []explain.Change{{Name: "more copies", Cycles: 1, Differ: c.differ}}})
		for _, line := range []string{"\nwhat decides: place\n", "\nthey no longer differ with: more copies\n"} {
			if n := strings.Count(got, line); n != c.told {
				t.Errorf("%q is there %d times, want %d:\n%s", line, n, c.told, got)
			}
		}
	}
}
