package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bbprof/bbprof/internal/require"
)

// pairs are the siblings on a machine whose CPUs n and n+4 share a core.
func pairs(cpu int) []int { return []int{cpu % 4, cpu%4 + 4} }

func alone(cpu int) []int { return []int{cpu} }

func TestPlanWorkers(t *testing.T) {
	eight := []int{0, 1, 2, 3, 4, 5, 6, 7}
	two := []int{0, 1}
	for _, c := range []struct {
		name            string
		allowed, chosen []int
		siblings        func(int) []int
		wanted, quota   int
		workers         [][]int
		own             []int
	}{
		{"each core", two, nil, alone, 0, 0, [][]int{{1}, {0}}, nil},
		{"one core", two, nil, alone, 1, 0, [][]int{{1}}, []int{0}},
		{"one CPU", []int{3}, nil, alone, 0, 0, [][]int{{3}}, nil},
		{"siblings stay idle", eight, nil, pairs, 0, 0, [][]int{{7}, {6}, {5}, {4}}, nil},
		{"a core is left to others", eight, nil, pairs, 3, 0, [][]int{{7}, {6}, {5}}, []int{0, 4}},
		{"spare cores to move to", eight, nil, pairs, 1, 0, [][]int{{7, 6, 5}}, []int{0, 4}},
		{"dealt out", eight, nil, alone, 3, 0, [][]int{{7, 4, 1}, {6, 3}, {5, 2}}, []int{0}},
		{"a quota", eight, nil, pairs, 0, 2, [][]int{{7, 5}, {6}}, []int{0, 4}},
		{"a quota above", eight, nil, pairs, 0, 9, [][]int{{7}, {6}, {5}, {4}}, nil},
		{"what is wanted goes before a quota", two, nil, alone, 2, 1, [][]int{{1}, {0}}, nil},
		{"chosen", eight, []int{2, 0}, alone, 0, 0, [][]int{{2}, {0}}, []int{1, 3, 4, 5, 6, 7}},
		{"chosen, others to move to", eight, []int{2, 0, 3}, alone, 1, 0, [][]int{{2, 0, 3}}, []int{1, 4, 5, 6, 7}},
		{"chosen siblings", eight, []int{1, 5, 2}, pairs, 0, 0, [][]int{{1}, {2}}, []int{0, 3, 4, 7}},
		{"chosen twice", two, []int{0, 0}, alone, 0, 0, [][]int{{0}}, []int{1}},
	} {
		l := require.Get(PlanWorkers(c.allowed, c.allowed, c.chosen, c.siblings, c.wanted, c.quota))(t)
		require.Equal(t, c.name, Layout{Workers: c.workers, Own: c.own}, l, cmpopts.EquateEmpty())
	}
	l := require.Get(PlanWorkers(eight, eight[:4], nil, alone, 0, 0))(t)
	require.Equal(t, "a fast kind of core", Layout{Workers: [][]int{{3}, {2}, {1}, {0}}, Own: eight[4:]}, l)
	for _, c := range []struct {
		allowed, chosen []int
		siblings        func(int) []int
		wanted          int
		says            string
	}{
		{two, nil, alone, 3, "3 workers need as many physical"},
		{eight, nil, pairs, 5, "and there are 4 to measure on"},
		{eight, []int{0, 4}, pairs, 2, "and there are 1 to measure on; two"},
	} {
		_, err := PlanWorkers(c.allowed, c.allowed, c.chosen, c.siblings, c.wanted, 0)
		if _, wish := errors.AsType[*LayoutError](err); !wish || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want it to say %q", err, c.says)
		}
	}
}
