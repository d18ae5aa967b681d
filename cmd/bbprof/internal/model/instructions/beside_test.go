package instructions

import (
	"context"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/verdict"
)

// unlike is a core with two units: a chain alone takes mean cycles a link; beside enough vpermd it takes one, beside
// enough vpslld the other. Fewer fillers leave the mean, and more than fit take their own time.
func unlike(mean, besideVpermd, besideVpslld float64) scripted {
	return func(text string) (float64, *verdict.Rejection) {
		words := strings.Fields(text)
		permutes, shifts := strings.Count(text, "vpermd"), strings.Count(text, "vpslld")
		fillers, links := permutes+shifts, len(words)-permutes-shifts
		fill, one := float64(fillers)/float64(links), besideVpermd
		if shifts > 0 {
			one = besideVpslld
		}
		switch {
		case fillers == 0 && strings.HasPrefix(text, "vaddph vaddph vaddph"): // the throughput
			return float64(links) / 2, nil
		case fillers == 0 || fill < one-1:
			return mean * float64(links), nil
		}
		return max(one, fill) * float64(links), nil
	}
}

// TestUnits: the latency of a 512-bit form that two unlike units, or the ways between them, make has that of each unit,
// and no other has.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		name                 string
		mean, vpermd, vpslld float64
		latencies            string
	}{
		{"crossing costs", 4.9, 4, 4, "2 to 1: 4.90; 2 to 1 beside 3.5 vpermd zmm, zmm, zmm: 4.00; 2 to 1 beside 3.5 vpslld zmm, zmm, i8: 4.00"},
		{"a whole mean", 5, 4, 4, "2 to 1: 5.00; 2 to 1 beside 3.5 vpermd zmm, zmm, zmm: 4.00; 2 to 1 beside 3.5 vpslld zmm, zmm, i8: 4.00"},
		{"unlike units", 3.5, 3, 4, "2 to 1: 3.50; 2 to 1 beside 2.5 vpermd zmm, zmm, zmm: 3.00; 2 to 1 beside 3.5 vpslld zmm, zmm, i8: 4.00"},
		{"slower than a mean can be", 3.5, 5, 5, "2 to 1: 3.50"},
		{"one unit", 4, 4, 4, "2 to 1: 4.00"},
		{"short", 2.4, 2, 2, "2 to 1: 2.40"},
	} {
		rows := require.Get(Measure(context.Background(), []Measurer{unlike(c.mean, c.vpermd, c.vpslld)}, []Plan{planOf(t, "vgetexpph zmm, zmm")}, 0, 0, nil))(t)
		require.Equal(t, c.name, c.latencies, rows[0].List(Latency, Beside))
		if got := rows[0].Latency; got.Kind != Latency || got.Cycles() != c.mean {
			t.Errorf("%s: the row has %v, want that of the chain alone", c.name, got.Value)
		}
	}
}
