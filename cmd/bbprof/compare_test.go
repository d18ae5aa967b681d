package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/verdict"
)

// TestAdjust: among many pairs a small p-value is chance, and those that were not measured are
// not among them.
func TestAdjust(t *testing.T) {
	of := func(p float64) *comparison {
		return &comparison{Conclusion: compare.Conclusion{P: p, Verdict: compare.Slower}}
	}
	rejected := &comparison{Rejection: &verdict.Rejection{}}
	all := []*comparison{of(0.02), rejected, of(0.001), of(0.04)}
	adjust(all)
	type adjusted struct {
		P       float64
		Verdict compare.Verdict
	}
	var got []adjusted
	for _, c := range all {
		got = append(got, adjusted{c.Adjusted, c.Verdict})
	}
	if d := cmp.Diff([]adjusted{{0.04, compare.Slower}, {}, {0.003, compare.Slower}, {0.04, compare.Slower}}, got); d != "" {
		t.Errorf("adjusted: -want +got:\n%s", d)
	}
	all = append(all, of(0.9))
	all[2].P = 0.02
	adjust(all)
	if all[0].Verdict != compare.Same || all[2].Adjusted != 0.08 {
		t.Errorf("of four pairs with p-values of 0.02: %s, %v", all[0].Verdict, all[2].Adjusted)
	}
}
