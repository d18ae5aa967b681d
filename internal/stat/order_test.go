package stat

import (
	"math"
	"testing"
)

func TestMedianInterval(t *testing.T) {
	ramp := func(n int) (xs []float64) {
		for i := range n {
			xs = append(xs, float64((i*7)%n+1)) // 1 to n, out of order
		}
		return xs
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		n         int
		low, high float64
	}{
		// Two-sided 95 % intervals for a median by the sign test, ranks as in Conover, Practical Nonparametric Statistics,
		// table A3: 5 values give 93.75 % at most.
		{1, -inf, inf}, {5, -inf, inf}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {11, 2, 10}, {12, 3, 10}, {15, 4, 12}, {20, 6, 15}, {25, 8, 18},
	} {
		if c.n%7 == 0 {
			t.Fatal("the ramp would repeat")
		}
		median, low, high := MedianInterval(ramp(c.n))
		if median != float64(c.n+1)/2 || low != c.low || high != c.high {
			t.Errorf("%d values: %g, %g to %g; want %g to %g", c.n, median, low, high, c.low, c.high)
		}
	}
	for _, xs := range [][]float64{nil, {1, 2, math.NaN(), 4, 5, 6, 7, 8, 9}} {
		if median, low, high := MedianInterval(xs); !math.IsNaN(median) || !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("%v: %g, %g to %g", xs, median, low, high)
		}
	}
}
