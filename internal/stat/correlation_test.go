package stat

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// correlation.py documents how the values were made.
func TestCorrelationsAgainstScipy(t *testing.T) {
	text := require.Get(os.ReadFile("testdata/correlation.json"))(t)
	var cases []struct {
		X, Y    []float64
		TauB    float64 `json:"tau_b"`
		Pearson float64
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	const tolerance = 1e-12
	for i, c := range cases {
		if got := Kendall(c.X, c.Y); !(math.Abs(got-c.TauB) <= tolerance) {
			t.Errorf("case %d, %d pairs: tau-b %.15g, scipy %.15g", i, len(c.X), got, c.TauB)
		}
		if got := Pearson(c.X, c.Y); !(math.Abs(got-c.Pearson) <= tolerance) {
			t.Errorf("case %d, %d pairs: Pearson %.15g, scipy %.15g", i, len(c.X), got, c.Pearson)
		}
	}
}

func TestKendallWithoutOrder(t *testing.T) {
	nan := math.NaN()
	for _, pairs := range [][2][]float64{{}, {{1}, {1}}, {{1, 1}, {1, 2}}, {{1, 2}, {1, 1}}, {{1, nan}, {1, 2}}} {
		if got := Kendall(pairs[0], pairs[1]); !math.IsNaN(got) {
			t.Errorf("tau-b of %v is %v, want NaN", pairs, got)
		}
	}
}

// Intervals of a mean hold the true mean about as often as promised.
func TestBootstrapCovers(t *testing.T) {
	const most = 300
	for _, n := range []int{200, 12 * most} {
		const rounds = 200
		random := rand.New(rand.NewPCG(1, 2))
		covered := 0
		for round := range rounds {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = random.ExpFloat64()
			}
			mean := func(indices []int) []float64 {
				sum := 0.0
				for _, i := range indices {
					sum += xs[i]
				}
				return []float64{sum / float64(len(indices))}
			}
			in := Bootstrap(n, most, []float64{Mean(xs)}, uint64(round), mean)[0]
			if in.Low <= 1 && 1 <= in.High {
				covered++
			}
		}
		// Binomial of 200 at 95 %: below 178 or above 199 with a probability of 0.1 % each.
		if covered < 178 || covered > 199 {
			t.Errorf("%d values: %d of %d intervals hold the mean", n, covered, rounds)
		}
	}
}
