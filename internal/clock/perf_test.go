package clock

import (
	"testing"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/harness"
	"github.com/bbprof/bbprof/internal/layout"
)

func TestPerfDifferences(t *testing.T) {
	for _, c := range []struct {
		width    int
		from, to uint64
		want     uint64
	}{
		{48, 100, 350, 250},
		{48, 1<<48 - 1, 4, 5},                           // wraps around
		{48, 0xffff_8000_0000_0000, 0x0010, 1<<47 + 16}, // rdpmc does not extend the sign
		{40, 1<<40 - 1, 0, 1},
		{64, ^uint64(0), 1, 2},
	} {
		if got := (Perf{Width: c.width}).Difference(c.from, c.to); got != c.want {
			t.Errorf("%d bits, %#x to %#x: %d, want %d", c.width, c.from, c.to, got, c.want)
		}
	}
}

// A counter of core cycles needs nothing beside it.
func TestPerfIsAClock(t *testing.T) {
	var c Clock = Perf{Counters: harness.Counters{Pages: []uint64{layout.CounterPage(0)}, Read: (*asm.Emitter).Rdpmc}, Width: 48}
	if len(c.Chains()) != 0 || c.Step() != 1 || c.RateResolution(3) != 0 || c.Resolution(4, 10) != 0.05 {
		t.Errorf("%+v", c)
	}
	e := asm.NewEmitter(layout.Code)
	c.Emit(e)
	if got := string(e.Bytes()); len(got) == 0 || got[:3] != "\x0f\xae\xe8" {
		t.Errorf("% x does not start with lfence", got)
	}
}

func TestCheckCycles(t *testing.T) {
	d := func(per float64) [][]float64 {
		short, long := make([]float64, 8), make([]float64, 8)
		for i := range short {
			short[i], long[i] = 500, 500+per*chainCycles
		}
		return [][]float64{short, long}
	}
	for _, c := range []struct {
		add, multiply, byTSC float64 // in cycles; the TSC has 0.7 ticks for an add
		ok                   bool
	}{
		{1, 3, 3, true}, {1, 4, 4, true}, {1.0049, 3, 3, true}, {0.9951, 3, 3, true}, {1, 3.014, 3, true}, {1, 3, 3.014, true},
		{1.0051, 3, 3, false}, {0.9949, 3, 3, false}, {1, 3.016, 3, false}, {1, 3, 3.016, false}, {1, 3, 2.984, false},
		{0.6, 1.8, 3, false}, {0.5, 3, 3, false}, {2, 6, 3, false}, {1.03, 3.09, 3, false}, {0, 0, 3, false}, {1, 3, 0, false},
	} {
		if got, ok := CheckCycles(Chained{d(c.add), d(c.multiply)}, Chained{d(0.7), d(0.7 * c.byTSC)}); ok != c.ok {
			t.Errorf("%+v: %+v, %v", c, got, ok)
		}
	}
}
