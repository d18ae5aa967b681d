package profiler

import (
	"strings"
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
)

// TestImpossible: the whole interval has to lie below what the core can do.
func TestImpossible(t *testing.T) {
	for _, c := range []struct {
		name, hex    string
		width        int
		cycles, half float64
		want         Impossible
		says         string
	}{
		{"two nops at six a cycle", "9090", 6, 0.32, 0.0084, "", ""},
		{"and a little less", "9090", 6, 0.32, 0.0082, BelowDispatch, "fewer than the 0.333 that 2 instructions need on a core that renames 6 a cycle"},
		{"on a core of eight", "9090", 8, 0.32, 0.01, "", ""},
		{"on one that is not known", "9090", 0, 0.1, 0.01, "", ""},
		{"an imul", "480fafc0", 6, 2.94, 0.016, "", ""},
		{"one that is too fast", "480fafc0", 6, 2.94, 0.014, BelowLatency, "fewer than the 3 that a chain through registers takes"},
		{"both: the chain says more", "4801c0", 6, 0.1, 0.01, BelowLatency, "the 1 that a chain"},
	} {
		insts, err := asm.Decode(unhex(t, c.hex))
		if err != nil {
			t.Fatal(err)
		}
		s := &session{}
		s.cpu.DispatchWidth = c.width
		m := &mapping.Mapped{Placer: mapping.Placer{Program: mapping.Program{Insts: insts}}}
		got, why := s.impossible(m, timing.Timed{Estimate: stat.Estimate{Value: c.cycles, Half: c.half}})
		if got != c.want || (why == "") != (got == "") || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q, %q, want %q", c.name, got, why, c.want)
		}
	}
}
