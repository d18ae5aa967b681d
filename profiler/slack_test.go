package profiler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bbprof/bbprof/internal/pmu"
	"github.com/bbprof/bbprof/internal/pmu/pmutest"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
)

// A core that dispatches eight instructions per cycle, with a front end that starts 40 cycles ahead and serves 7.1 in steady state: four moves
// take half a cycle for the first 640 copies, and then 0.5625.
func TestPastLead(t *testing.T) {
	const moves = "4889c14c89fa4c89ee4889df"
	const tooFast = "0.500 cycles, 128,256 copies; it is so fast that the front end of a loop may not keep up: " +
		"768,1024 copies would show that, but "
	fe := unroll.FrontEnd{L1I: 64 << 10, OpCache: unroll.OpCache{Lines: 1024, OpsPerLine: 6, Window: 64},
		Lead: unroll.Lead{Windows: 140, Sets: 64, WindowCycles: 1. / 3, LineCycles: 2. / 3, DecodersSlower: 1.75}}
	unknown := fe
	unknown.Lead = unroll.Lead{}
	served := func(n int) uint64 { return uint64(8*min(n, 640)+9*max(n-640, 0)) / 16 }
	leaves := func(n int) uint64 { return served(n) + uint64(2*max(n-900, 0)) } // the op cache after 900 copies
	slower := func(n int) uint64 { return served(n) + uint64(max(n-900, 0)/4) }
	twice := func(n int) uint64 { return 2 * served(n) }
	never := func(int) bool { return false }
	past := func(n int) bool { return n > 900 }
	for _, c := range []struct {
		name  string
		fe    unroll.FrontEnd
		takes func(copies int) uint64
		miss  func(copies int) bool // L1I
		setup Setup
		want  string
	}{
		{"with the lead and without", fe, served, never, Setup{}, "0.562 cycles, 768,1024 copies"},
		{"on a core whose lead is not known", unknown, served, never, Setup{}, "0.500 cycles, 128,256 copies"},
		{"with the few copies of a set-up", fe, served, never, Setup{FewCopies: true}, "0.500 cycles, 128,256 copies"},
		{"in a loop", fe, served, never, Setup{Mode: Loop}, "0.562 cycles, 1024,2048 copies"},
		{"of a block that takes longer than the front end", fe, twice, never, Setup{}, "1.000 cycles, 128,256 copies"},
		{"where the op cache does not hold the last copies", fe, leaves, never, Setup{},
			tooFast + "the op cache does not hold them, since each takes 1.531 cycles, and of 128,256 copies 0.500"},
		{"where the last copies miss L1I", fe, served, past, Setup{}, tooFast + "so many are rejected as l1i_miss"},
		{"where the last copies are slower", fe, slower, never, Setup{}, tooFast + "so many are rejected as nonlinear"},
	} {
		o := scripted(pmutest.New(8), script(0, counts(func(e pmu.Event, iterations, _ int) uint64 {
			switch {
			case e.Role == pmu.Cycles:
				return c.takes(iterations)
			case e.Role == pmu.L1IMiss && c.miss(iterations):
				return 1
			}
			return 0
		})))
		r := o.profileIn(t, moves, c.setup, func(s *session) { s.cpu.FrontEnd, s.cpu.DispatchWidth = c.fe, 8 })
		got := fmt.Sprintf("%.3f cycles, %d,%d copies", r.Cycles, r.UnrollShort, r.UnrollLong)
		for _, w := range r.Warnings {
			if strings.Contains(w, "front end") {
				got += "; " + w
			}
		}
		if r.Rejection != nil {
			got = r.Rejection.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Copies that leave the op cache in some layouts are detected.
func TestLeavesOpCache(t *testing.T) {
	for slow, want := range map[float64]string{1.74: "", 1.76: "the op cache does not hold them, since each takes 1.760 cycles in 2 layouts"} {
		speeds := [][]stat.Cell{{{Number: 0, Mean: 1}, {Number: 2, Mean: 1}}, {{Number: 4, Mean: 1.4}}, {{Number: 1, Mean: slow}, {Number: 3, Mean: slow}}}
		timed := timing.Timed{Speeds: speeds, Design: stat.Design{Cells: slices.Concat(speeds...)}}
		require.Equal(t, slow, want, describeOpCacheMisses(timed, 1, 1.75))
	}
}
