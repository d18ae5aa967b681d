package profiler

import (
	"slices"
	"testing"

	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/mapping"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/internal/timing"
	"github.com/bbprof/bbprof/unroll"
	"github.com/bbprof/bbprof/verdict"
)

func TestCompareHalves(t *testing.T) {
	third, all := unroll.Factors{Short: 10, Long: 50}, unroll.Factors{Short: 10, Long: 90}
	ends := linearEnds / 40.0
	for _, c := range []struct {
		name    string
		e       stat.Estimate
		spread  float64 // between layouts
		partial float64
		ok      bool
	}{
		{"on the line", stat.Estimate{Value: 10, Half: 0.01}, 0, 10, true},
		{"off by the share and the ends", stat.Estimate{Value: 10, Half: 0.01}, 0, 10.399 + ends, true},
		{"and just past it", stat.Estimate{Value: 10, Half: 0.01}, 0, 10.401 + ends, false},
		{"below", stat.Estimate{Value: 10, Half: 0.01}, 0, 9.599 - ends, false},
		{"a wide interval allows more", stat.Estimate{Value: 10, Half: 0.3}, 0, 10.599 + ends, true},
		{"but not everything", stat.Estimate{Value: 10, Half: 0.3}, 0, 10.601 + ends, false},
		{"so do layouts that differ", stat.Estimate{Value: 10, Half: 0.01}, 1, 10.999 + ends, true},
		{"but no more than they do", stat.Estimate{Value: 10, Half: 0.01}, 1, 11.001 + ends, false},
	} {
		at := func(place int) timing.Layout { return timing.LayoutOf(place, 0) }
		timed := timing.Timed{Estimate: c.e, Design: stat.Design{Differ: c.spread > 0, Cells: []stat.Cell{
			{Number: int(at(0)), Mean: c.e.Value - c.spread}, {Number: int(at(1)), Mean: c.e.Value + c.spread},
			{Number: int(timing.LayoutOf(0, 1)), Mean: 99}, // at another dispatch offset
		}}}
		err := compareHalves(timed, []timing.Window{{Layout: at(0), Cycles: c.partial}}, third, all)
		if c.ok != (err == nil) || !c.ok && verdict.ReasonOf(err) != verdict.Nonlinear {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAddEnds(t *testing.T) {
	own := &unroll.Loop{Exit: &unroll.Exit{}}
	for _, c := range []struct {
		name    string
		loop    *unroll.Loop
		fixed   bool // by the user
		between int
		cycles  float64
		ends    float64 // of the interval, without noise
		ok      bool
	}{
		{"a row", nil, false, 4, 1, 0, true},
		{"a row of the user's", nil, true, 100, 1, linearEnds / 100.0, true},
		{"and one that takes as long as its ends", nil, true, 4, 1.001, linearEnds / 4.0, true},
		{"and one that does not", nil, true, 4, 1, linearEnds / 4.0, false},
		{"a counted loop", &unroll.Loop{}, false, 4, 1, 0, true},
		{"a loop of the block's", own, false, 750, 1, timing.Mispredicted / 750.0, true},
		{"of too few iterations", own, false, 749, 1, 0, false},
		{"of as few that take longer", own, false, 75, 10, timing.Mispredicted / 75.0, true},
		{"of as few as the user wants", own, true, 10, 2, timing.Mispredicted / 10.0, true},
	} {
		r := measurement{block: &mapping.MappedBlock{}, timed: timing.Timed{Estimate: stat.Estimate{Value: c.cycles}}}
		r.block.Factors, r.block.Loop = unroll.Factors{Short: 10, Long: 10 + c.between}, c.loop
		var j job
		if c.fixed {
			j.Unroll = &r.block.Factors
		}
		err := j.addEnds(&r)
		if reason := verdict.ReasonOf(err); c.ok != (err == nil) || c.ok != (reason == "") || !c.ok && (reason == verdict.LoopExit) != (c.loop != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		require.Equal(t, c.name, c.ends, r.timed.Estimate.Half)
	}
}

// Words that the midpoint's image changes are restored too, although earlier replicates left the pages on other frames.
func TestThirdIsRestored(t *testing.T) {
	b := openBench(t)
	// inc qword [rbx]; mov [rbx+8], rcx, which changes nothing: so that images are asked what they change
	m, err := b.block(require.Hex(t, "48ff0348894b08"), initial.Paper(), 1, 5)
	if err == nil {
		err = m.Child.Complete(m.RemapTo(1), generous, "mapping a replicate")
	}
	require.NoError(t, err)
	words := m.Restore
	m.Restore = nil // as if the other numbers of copies changed nothing
	m.Child.SetRestore(nil, nil)
	_, ok, err := timedBlock{m}.midpointAt(0, 0, m.Clock)
	if err != nil || !ok || len(words) != 1 || !slices.Equal(m.Restore, words) {
		t.Errorf("%v, %v: the words %#x are put back, want %#x", ok, err, m.Restore, words)
	}
}
