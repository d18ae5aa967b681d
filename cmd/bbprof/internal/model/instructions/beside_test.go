package instructions

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// unlike is a core with two units: a chain alone takes mean cycles a link; beside enough vpermd one, beside enough
// vpslld the other. Fewer fillers leave the mean, too many take their own time.
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

// TestUnits: a 512-bit latency that two unlike units, or the ways between them, cause gets each unit's latency; no other
// does.
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
		rows := require.Get(Measure(context.Background(), []measure.Measurer{unlike(c.mean, c.vpermd, c.vpslld)}, []Plan{planOf(t, "vgetexpph zmm, zmm")}, 0, 0, nil))(t)
		require.Equal(t, c.name, c.latencies, rows[0].List(Latency, Beside))
		if got := rows[0].Latency; got.Kind != Latency || got.Cycles() != c.mean {
			t.Errorf("%s: the row has %v, want that of the chain alone", c.name, got.Value)
		}
	}
}

// TestBeside: every second link has one filler fewer, and fillers write no register of a chain.
func TestBeside(t *testing.T) {
	p := planOf(t, "vaddph zmm, zmm, zmm")
	j := &job{probe: p.Probes[0], bits: 512}
	j.result.Status, j.result.Cycles = profiler.OK, 2.6
	list := j.besides()
	if len(list) != 2*2 {
		t.Fatalf("%d chains, want two of each filler", len(list))
	}
	if diff := cmp.Diff("vaddph zmm1, zmm1, zmm14; vpermd zmm16, zmm28, zmm29; vpermd zmm17, zmm28, zmm29; vaddph zmm1, zmm1, zmm14; vpermd zmm18, zmm28, zmm29",
		textOf(t, list[0].Code)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
