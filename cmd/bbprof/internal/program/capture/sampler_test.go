package capture

import (
	"math"
	"testing"
)

// TestSampler: all visits are equally likely to be kept, and few others are drawn.
func TestSampler(t *testing.T) {
	const k, visits, runs = 5, 200, 4000
	kept := make([]float64, visits)
	drawn := 0
	for seed := range uint64(runs) {
		s, slots := newSampler(k, seed, 1), [k]int{}
		for i := range visits {
			if slot, ok := s.visit(); ok {
				slots[slot], drawn = i, drawn+1
			}
		}
		for _, i := range slots {
			kept[i]++
		}
	}
	const mean = float64(runs) * k / visits
	for i, n := range kept { // binomial: the standard deviation is about the root of the mean
		if math.Abs(n-mean) > 5*math.Sqrt(mean) {
			t.Errorf("visit %d is kept %v times of %d, want about %v", i, n, runs, mean)
		}
	}
	if got, most := float64(drawn)/runs, k*(1.2+math.Log(visits/k)); got > most {
		t.Errorf("%v are drawn, want at most %v", got, most)
	}
	for _, n := range []uint64{0, 1, k} {
		s, all := newSampler(k, 1, 1), uint64(0)
		for range n {
			if _, ok := s.visit(); ok {
				all++
			}
		}
		if all != n {
			t.Errorf("of %d visits %d are drawn", n, all)
		}
	}
}
