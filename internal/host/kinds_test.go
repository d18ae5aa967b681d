package host

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/verdict"
)

// TestKinds: of a hybrid CPU's kinds of core the fastest is measured on, unless another is chosen, and never two.
func TestKinds(t *testing.T) {
	hybrid := func(number int) string {
		switch {
		case number < 4:
			return "cpu_core"
		case number < 8:
			return "cpu_atom"
		}
		return "cpu_lowpower"
	}
	equal := func(int) string { return "" }
	for _, c := range []struct {
		name    string
		cpus    []int
		kind    func(int) string
		fastest []int
		mixed   bool
	}{
		{"all equal", []int{1, 0}, equal, []int{1, 0}, false},
		{"none", nil, hybrid, nil, false},
		{"two kinds", []int{5, 3, 4, 2}, hybrid, []int{3, 2}, true},
		{"all but the fastest", []int{9, 5, 4}, hybrid, []int{5, 4}, true},
		{"one kind", []int{9, 8}, hybrid, []int{9, 8}, false},
	} {
		if got := fastestKind(c.cpus, c.kind); !slices.Equal(got, c.fastest) {
			t.Errorf("%s: %v, want %v", c.name, got, c.fastest)
		}
		var lack *verdict.HostError
		if err := checkKinds(c.cpus, c.kind); errors.As(err, &lack) != c.mixed {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := checkKinds([]int{3, 2, 9}, hybrid); !strings.Contains(err.Error(), "CPUs 3 (cpu_core) and 9 (cpu_lowpower)") {
		t.Error(err)
	}
}
