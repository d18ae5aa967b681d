package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bbprof/bbprof/internal/require"
)

// design has two batches of three cells each, and repeats both.
func design(of func(cell, batch int) float64) []Visit {
	var visits []Visit
	for batch := range 4 {
		for cell := range 3 {
			cell += 3 * (batch % 2)
			visits = append(visits, Visit{cell, batch, of(cell, batch)})
		}
	}
	return visits
}

func TestDesign(t *testing.T) {
	d := NewDesign(design(func(cell, _ int) float64 { return float64(cell) }), 0)
	if d.Value != 2.5 || d.Half != 0 || d.Within != 0 || len(d.Cells) != 6 || !d.Repeated() {
		t.Errorf("cells that differ and visits that agree: %+v", d)
	}
	once := NewDesign(design(func(cell, _ int) float64 { return float64(cell) })[:6], 0)
	if once.Repeated() || !math.IsInf(once.Half, 1) {
		t.Errorf("each cell visited once: %+v", once)
	}
}

// A visit far off its cell is cut; of two, the one further from everything else.
func TestDesignCutsVisits(t *testing.T) {
	visits := design(func(cell, batch int) float64 { return 10 + 0.01*float64((cell+batch/2)%2) })
	for _, off := range []float64{-80, 30} {
		visits[4].Value = off
		d := NewDesign(visits, 0.1)
		if math.Abs(d.Value-10) > 0.02 || d.Cells[4].Dropped != 1 {
			t.Errorf("%g among visits of 10: %+v", off, d)
		}
	}
	visits[4].Value = 10.15 // within the slack of its cell's median
	if d := NewDesign(visits, 0.1); d.Cells[4].Dropped != 0 {
		t.Errorf("%+v", d)
	}
}

// The interval covers the mean in 95 % of designs, whether batches or visits vary, and for a single cell in few
// batches.
func TestDesignCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const trials = 4000
	for name, c := range map[string]struct {
		batch, visit float64 // noise
		batches      int
		cells        float64 // spread of the cells
	}{"batches": {1, 0.1, 16, 1}, "visits": {0, 1, 16, 1}, "one cell": {1, 0.1, 4, 0}} {
		covered := 0
		for range trials {
			var visits []Visit
			for batch := range c.batches {
				common := c.batch * r.NormFloat64()
				for i := range 3 {
					cell := int(c.cells) * (batch%8*3 + i)
					visits = append(visits, Visit{cell, batch, float64(cell) + common + c.visit*r.NormFloat64()})
				}
			}
			if d := NewDesign(visits, 100); math.Abs(d.Value-11.5*c.cells) <= d.Half {
				covered++
			}
		}
		if share := float64(covered) / trials; share < 0.93 || share > 0.97 {
			t.Errorf("%s: the interval covers the mean in %.3f", name, share)
		}
	}
}

// Equal cells are found to differ in one of a hundred designs; different ones always.
func TestDesignDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const trials = 2000
	for apart, want := range map[float64][2]float64{0: {0.003, 0.02}, 5: {0.999, 1}} {
		differ := 0
		for range trials {
			if NewDesign(design(func(cell, _ int) float64 { return apart*float64(cell%2) + 0.5*r.NormFloat64() }), 100).Differ {
				differ++
			}
		}
		if share := float64(differ) / trials; share < want[0] || share > want[1] {
			t.Errorf("cells %g apart differ in %.3f of the designs", apart, share)
		}
	}
}

// Groups separates cells by real differences of means, not by chance, and none closer than gap.
func TestDesignGroups(t *testing.T) {
	for _, c := range []struct {
		name   string
		means  []float64
		within float64
		want   [][]float64
	}{
		{"no cells", nil, 0.01, [][]float64{nil}},
		{"one cell", []float64{1}, 0.01, [][]float64{{1}}},
		{"alike", []float64{1, 1.01, 0.99, 1.02}, 0.01, [][]float64{{0.99, 1, 1.01, 1.02}}},
		{"two", []float64{2, 1, 1.01, 2.01, 0.99}, 0.01, [][]float64{{0.99, 1, 1.01}, {2, 2.01}}},
		{"three", []float64{3, 1, 1, 2, 2, 1, 3}, 0.01, [][]float64{{1, 1, 1}, {2, 2}, {3, 3}}},
		{"two of which one is two", []float64{1, 1, 1.101, 1.101, 2, 2}, 0.001, [][]float64{{1, 1}, {1.101, 1.101}, {2, 2}}},
		{"one of them alone", []float64{1, 1, 1, 1, 1, 1.5}, 0.01, [][]float64{{1, 1, 1, 1, 1}, {1.5}}},
		{"a gap just wide enough", []float64{1, 1, 1.101, 1.101}, 0.001, [][]float64{{1, 1}, {1.101, 1.101}}},
		{"and one that is not", []float64{1, 1, 1.099, 1.099}, 0.001, [][]float64{{1, 1, 1.099, 1.099}}},
		// The means of four and of four visits are 0.2 apart, their difference has a standard error of within / √2.
		{"apart by more than noise", []float64{1, 1, 1.2, 1.2}, 0.2 * math.Sqrt2 / 5.01, [][]float64{{1, 1}, {1.2, 1.2}}},
		{"apart by no more than noise", []float64{1, 1, 1.2, 1.2}, 0.2 * math.Sqrt2 / 4.99, [][]float64{{1, 1, 1.2, 1.2}}},
		// No two neighbours differ beyond noise; the upper four differ from the lower four.
		{"many against many", []float64{1, 1.03, 1.06, 1.09, 1.2, 1.23, 1.26, 1.29}, 0.04, [][]float64{{1, 1.03, 1.06, 1.09}, {1.2, 1.23, 1.26, 1.29}}},
	} {
		d := Design{Within: c.within}
		for _, mean := range c.means {
			d.Cells = append(d.Cells, Cell{Mean: mean, Visits: 2})
		}
		var got [][]float64
		for _, cells := range d.Groups(func(mean float64) float64 { return 0.1 * mean }, 5) {
			var means []float64
			for _, c := range cells {
				means = append(means, c.Mean)
			}
			got = append(got, means)
		}
		require.Equal(t, c.name, c.want, got)
	}
}
