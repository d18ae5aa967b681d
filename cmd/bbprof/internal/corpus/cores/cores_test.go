package cores

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// cell has an interval of 1 % on either side.
func cell(cycles float64) Cell { return Cell{cycles, 0.99 * cycles, 1.01 * cycles, true} }

var rejected = Cell{Seen: true}

// TestDiffer at the threshold and where intervals touch.
func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		a, b Cell
		want int
	}{
		{cell(1), cell(1), 0},
		{cell(1), cell(1.0501), 1},
		{cell(1), cell(1.0499), 0},
		{cell(1.0501), cell(1), -1},
		{Cell{1, 0.9, 1.1, true}, Cell{1.2, 1.1, 1.3, true}, 0},
		{Cell{1, 0.9, 1.1, true}, Cell{1.2, 1.11, 1.3, true}, 1},
		{cell(1), rejected, 0},
		{rejected, cell(1), 0},
	} {
		if got := (Row{Cells: []Cell{c.a, c.b}}).Differ(0, 1, 0.05); got != c.want {
			t.Errorf("%v and %v: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestCompare of the made results of two cores: what each line counts, and which sets are ranked differently.
func TestCompare(t *testing.T) {
	rows := []Row{
		{"aa", "load", "x", []Cell{cell(1), cell(2)}},
		{"bb", "load", "x", []Cell{cell(2), cell(1)}},
		{"cc", "store", "x", []Cell{cell(4), cell(4.1)}},
		{"dd", "store", "y", []Cell{cell(1), cell(1)}}, // ranked alike
		{"ee", "store", "y", []Cell{cell(2), cell(3)}},
		{"ff", "store", "z", []Cell{cell(1), cell(1)}}, // the other of its set is rejected on one core
		{"11", "store", "z", []Cell{cell(2), rejected}},
		{"22", "load", "w", []Cell{cell(1), cell(1)}}, // within the threshold on one core
		{"33", "load", "w", []Cell{cell(1.02), cell(0.5)}},
		{"44", "load", "", []Cell{cell(1), {}}}, // not measured on the other
		{"55", "load", "", []Cell{rejected, rejected}},
		{"66", "load", "", []Cell{rejected, cell(1)}},
	}
	want := []Pair{{
		A: 0, B: 1, NameA: "Zen 8", NameB: "Zen 9", Joined: 11, OnlyA: 1, OnlyB: 1, Neither: 1,
		All: Line{Blocks: 8, Fewer: 2, More: 2, P5: 0.5 / 1.02, Median: 1, P95: 2},
		Categories: []Line{{Category: "load", Blocks: 4, Fewer: 2, More: 1, P5: 0.5 / 1.02, Median: 0.75, P95: 2},
			{Category: "store", Blocks: 4, More: 1, P5: 1, Median: 1.0125, P95: 1.5}},
		Sets:   3,
		Ranked: []Set{{Name: "x", Blocks: 3, Pairs: 1, BestA: "aa", BestB: "bb", CostA: 1, CostB: 1}},
	}}
	got := Compare([]string{"Zen 8", "Zen 9"}, rows, 0.05)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Line{}), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	three := make([]Row, len(rows))
	for i, r := range rows {
		three[i] = r
		three[i].Cells = append(r.Cells[:2:2], r.Cells[0])
	}
	if got := Compare([]string{"a", "b", "c"}, three, 0.05); len(got) != 3 || got[1].NameB != "c" || got[1].All.More != 0 || len(got[2].Ranked) != 1 {
		t.Errorf("of three cores: %+v", got)
	}
}
