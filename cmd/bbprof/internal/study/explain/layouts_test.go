package explain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
)

// scattered returns an irregular 0 or 1.
func scattered(keys ...int) float64 {
	n := uint64(7)
	for _, k := range keys {
		n = (n ^ uint64(k)) * 0x9e3779b97f4a7c15
		n ^= n >> 29
	}
	return float64(n >> 40 & 1)
}

// TestLayouts: on a made-up core explain names the simplest rule that decides between layouts.
func TestLayouts(t *testing.T) {
	odd := func(n int) float64 { return float64(n % 2) }
	high := func(at int) float64 { return float64(at / 32) }
	for _, c := range []struct {
		name   string
		layout func(at, nops, offset int) float64
		steady bool
		want   string
		causes []string
		ended  []string
	}{
		{"no difference", func(int, int, int) float64 { return 0 }, false, "", nil, nil},
		{"1 %", func(_, nops, _ int) float64 { return 0.1 * odd(nops) }, false, "", nil, nil},
		{"two slots a copy", func(_, nops, offset int) float64 { return odd(nops + offset) }, false, "slots before the first copy, modulo 2", []string{"rename phase"}, nil},
		{"three", func(_, nops, offset int) float64 { return float64((nops + offset) % 3) }, false, "slots before the first copy, modulo 3", []string{"rename phase"}, nil},
		{"an offset is no slot", func(_, nops, offset int) float64 { return odd(nops + offset/3) }, false, "slots before the first copy, modulo 2", []string{"rename phase"}, nil},
		{"a slow slot of six", func(_, nops, offset int) float64 { return float64((nops + offset) % 6 / 5) }, false, "slots before the first copy, modulo 6", []string{"rename phase"}, nil},
		{"place", func(at, _, _ int) float64 { return high(at) }, false, "place of the code in its line", []string{"code alignment"}, nil},
		{"place and slots", func(at, nops, offset int) float64 { return high(at) + 0.7*odd(nops+offset) }, false, "place and slots, modulo 2", []string{"code alignment", "rename phase"}, nil},
		{"all that ran before", func(_, nops, offset int) float64 { return scattered(nops, offset) }, false, count, []string{"rename phase"}, nil},
		{"all of it, at first", func(_, nops, offset int) float64 { return scattered(nops, offset) }, true, count, []string{"rename phase"}, []string{"more copies"}},
		{"no rule", func(at, nops, offset int) float64 { return scattered(at, nops, offset) }, false, "", nil, nil},
	} {
		for seed := range uint64(5) {
			m := &core{layout: c.layout, steady: c.steady, noise: 0.001, random: rand.New(rand.NewPCG(seed, 2))}
			e := require.Get(Explain(context.Background(), m, unhex(t, pair), pointers(0x10000, 0x10100, 1), Options{Seed: seed}))(t)
			if got := e.Layouts.Decides(); got != c.want {
				t.Errorf("%s, seed %d: %q, want %q: %+v", c.name, seed, got, c.want, e.Layouts)
			}
			if got := experiment.Confirmed(e.Findings); c.want != "" && !slices.Equal(got, c.causes) {
				t.Errorf("%s, seed %d: causes %q, want %q", c.name, seed, got, c.causes)
			}
			if got := e.Layouts.Ended(); !slices.Equal(got, c.ended) {
				t.Errorf("%s, seed %d: ended by %q, want %q: %+v", c.name, seed, got, c.ended, e.Layouts.Ends)
			}
		}
	}
}

// TestDecides: the simplest rule that predicts all but two layouts wins.
func TestDecides(t *testing.T) {
	rules := func(right ...int) (l Layouts) {
		for i, n := range right {
			l.Rules = append(l.Rules, Rule{strings.Repeat("I", i+1), n, profiler.Layouts})
		}
		return l
	}
	counted := rules(21, 21)
	counted.Rules[1].Right, counted.Rules[1].Of = 16, 18
	for _, c := range []struct {
		l    Layouts
		want string
	}{
		{Layouts{}, ""},
		{rules(21, 21), ""},
		{rules(21, 22), "II"},
		{rules(22, 24), "I"},
		{counted, "II"},
		{Layouts{Rules: []Rule{{Name: "I"}}}, ""}, // predicts none
	} {
		require.Equal(t, fmt.Sprintf("%+v", c.l.Rules), c.want, c.l.Decides())
	}
	l := Layouts{Differ: 0.3, Ends: []Change{{"a", 1, 0.09}, {"b", 1, 0.11}}}
	require.Equal(t, "it", []string{"a"}, l.Ended())
}

// TestDiffer: two layouts at either end do not count.
func TestDiffer(t *testing.T) {
	of := func(cycles ...float64) (all []profiler.LayoutCycles) {
		for i, c := range cycles {
			all = append(all, profiler.LayoutCycles{Layout: i, Cycles: c})
		}
		return all
	}
	for _, c := range []struct {
		cycles []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{1, 2, 3, 4}, 0},
		{[]float64{9, 1, 1, 2, 9, 3}, 0.5},
		{[]float64{9, 1, 2, 2, 9, 3}, 0.5},
		{[]float64{0, 0, 0, 1, 1, 1}, 0},
	} {
		require.Equal(t, c.cycles, c.want, differ(of(c.cycles...)))
	}
}
