package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// design has two batches of three cells each, and each batch twice.
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

// A visit far off its cell is cut, of two the one that is further from everything else.
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

// The interval covers the mean in 95 % of designs, when batches differ as a whole and when visits do.
func TestDesignCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const trials = 4000
	for name, noise := range map[string]struct{ batch, visit float64 }{"batches": {1, 0.1}, "visits": {0, 1}} {
		covered := 0
		for range trials {
			var visits []Visit
			for batch := range 16 {
				common := noise.batch * r.NormFloat64()
				for i := range 3 {
					cell := batch%8*3 + i
					visits = append(visits, Visit{cell, batch, float64(cell) + common + noise.visit*r.NormFloat64()})
				}
			}
			if d := NewDesign(visits, 100); math.Abs(d.Value-11.5) <= d.Half {
				covered++
			}
		}
		if share := float64(covered) / trials; share < 0.93 || share > 0.97 {
			t.Errorf("%s: the interval covers the mean in %.3f", name, share)
		}
	}
}

// Cells that are equal differ by chance in one of a hundred designs; cells that are not, always.
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
