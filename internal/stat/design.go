package stat

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Visit is a value measured in one cell of a design. Effects shared by a batch of visits (a mapping of memory, a
// moment) move all of them, so batches, not visits, are independent. A repeated batch has the same cells.
type Visit struct {
	Cell  int
	Batch int
	Value float64
}

type Cell struct {
	Number  int
	Mean    float64
	Visits  int // visits kept
	Dropped int // visits cut as outliers
}

// Design is the mean over the cells of a fixed design, with equal weights. Cells are fixed effects: their
// differences are not noise, but those between visits to a cell are.
type Design struct {
	Estimate         // mean over these cells, and its interval
	Cells    []Cell  // ascending by number
	Within   float64 // standard deviation of a visit around its cell's mean
	Differ   bool    // cells differ significantly, by an F-test
}

// Repeated reports whether each cell was visited more than once, so that Within is known.
func (d Design) Repeated() bool {
	return len(d.Cells) > 0 && !slices.ContainsFunc(d.Cells, func(c Cell) bool { return c.Visits+c.Dropped < 2 })
}

// Groups sorts the cells by mean and splits them in two so that the variance within the groups is least (Fisher,
// On grouping for maximum homogeneity, JASA 53, 1958), provided that the groups' means differ by at least errors
// standard errors, and by gap of the lower one. It splits each group again by the same rule. The groups are in
// ascending order of means.
func (d Design) Groups(gap func(mean float64) float64, errors float64) [][]Cell {
	cells := slices.Clone(d.Cells)
	slices.SortFunc(cells, func(a, b Cell) int { return cmp.Or(cmp.Compare(a.Mean, b.Mean), a.Number-b.Number) })
	return d.groups(cells, gap, errors)
}

func (d Design) groups(cells []Cell, gap func(float64) float64, errors float64) [][]Cell {
	var visits, sum float64 // of all
	for _, c := range cells {
		visits += float64(c.Visits)
		sum += float64(c.Visits) * c.Mean
	}
	var at int
	var between, low, high float64 // of the best split
	var n, below float64           // of the cells before it
	for i, c := range cells[:max(len(cells)-1, 0)] {
		n += float64(c.Visits)
		below += float64(c.Visits) * c.Mean
		a, b := below/n, (sum-below)/(visits-n)
		if square := n * (visits - n) / visits * (b - a) * (b - a); square > between {
			at, between, low, high = i+1, square, a, b
		}
	}
	if at == 0 || between < errors*errors*d.Within*d.Within || high-low < gap(low) {
		return [][]Cell{cells}
	}
	return append(d.groups(cells[:at], gap, errors), d.groups(cells[at:], gap, errors)...)
}

// outlierScales is the distance from its cell, in robust standard deviations, at which a visit is cut. Iglewicz
// and Hoaglin, How to Detect and Handle Outliers (1993), use 3.5 for one sample; of two visits, residuals are at
// most half of their difference, so more is required.
const outlierScales = 6

// NewDesign computes it. Visits within slack of their cell are not cut.
func NewDesign(visits []Visit, slack float64) (d Design) {
	cells := byCell(visits)
	centre, reach := Median(values(visits)), math.Max(slack, outlierScales*scale(cells))
	batches := map[int]float64{} // per batch, the sum of the visits' deviations from their cells
	var squares float64
	n := 0
	for _, of := range cells {
		kept := keep(of, reach, centre)
		c := Cell{Number: of[0].Cell, Mean: Mean(values(kept)), Visits: len(kept), Dropped: len(of) - len(kept)}
		d.Cells = append(d.Cells, c)
		for _, v := range kept {
			r := v.Value - c.Mean
			batches[v.Batch] += r
			squares += r * r
		}
		n += len(kept)
	}
	var means []float64
	for _, c := range d.Cells {
		means = append(means, c.Mean)
	}
	d.Value, d.N = Mean(means), n
	if degrees := n - len(d.Cells); degrees > 0 {
		d.Within = math.Sqrt(squares / float64(degrees))
		d.Differ = differ(d, degrees)
	}
	d.Half = halfOf(batches, n, len(d.Cells))
	return d
}

func byCell(visits []Visit) (cells [][]Visit) {
	of := map[int][]Visit{}
	for _, v := range visits {
		of[v.Cell] = append(of[v.Cell], v)
	}
	for _, number := range slices.Sorted(maps.Keys(of)) {
		cells = append(cells, of[number])
	}
	return cells
}

// differSignificance is the rate of false positives.
const differSignificance = 0.01

func differ(d Design, degrees int) bool {
	if len(d.Cells) < 2 {
		return false
	}
	var between float64
	for _, c := range d.Cells {
		between += float64(c.Visits) * (c.Mean - d.Value) * (c.Mean - d.Value)
	}
	between /= float64(len(d.Cells) - 1)
	return between > differLimit([2]int{len(d.Cells) - 1, degrees})*d.Within*d.Within
}

var differLimit = cached(func(degrees [2]int) float64 {
	return fQuantile(float64(degrees[0]), float64(degrees[1]), 1-differSignificance)
})

// halfOf returns Student's half-width of the mean over all cells from the batches' deviations: the cluster-robust
// variance of Liang and Zeger (Biometrika 73, 1986) of a mean, with a degree of freedom for each batch beyond
// those that first visit all cells.
func halfOf(sums map[int]float64, n, cells int) float64 {
	batches := len(sums)
	first := float64(batches) * float64(cells) / float64(n) // batches needed to visit each cell once
	degrees := batches - max(1, int(math.Round(first)))     // for a single cell, their mean takes one
	if degrees < 1 {
		return math.Inf(1)
	}
	var sum float64
	for _, s := range slices.Sorted(maps.Values(sums)) { // a map's order would change the sum's last bits
		sum += s * s
	}
	variance := sum / float64(n*n) * float64(batches) / float64(degrees)
	return T95(degrees) * math.Sqrt(variance)
}

// scale is the robust standard deviation of visits around their cell's median; infinite if no cell has two visits.
func scale(cells [][]Visit) float64 {
	var off []float64
	for _, of := range cells {
		if m := Median(values(of)); len(of) > 1 {
			for _, v := range of {
				off = append(off, math.Abs(v.Value-m))
			}
		}
	}
	if len(off) == 0 {
		return math.Inf(1)
	}
	const normal = 1.4826 // standard deviations per median absolute deviation
	return normal * Median(off)
}

// keep cuts a cell's visits beyond reach of its median. Of two that disagree it keeps the one nearer to centre.
func keep(of []Visit, reach, centre float64) []Visit {
	off := func(v Visit, from float64) float64 { return math.Abs(v.Value - from) }
	median := Median(values(of))
	kept := slices.DeleteFunc(slices.Clone(of), func(v Visit) bool { return off(v, median) > reach })
	if len(kept) == 0 {
		kept = append(kept, slices.MinFunc(of, func(a, b Visit) int { return cmp.Compare(off(a, centre), off(b, centre)) }))
	}
	return kept
}

func values(visits []Visit) []float64 {
	x := make([]float64, 0, len(visits))
	for _, v := range visits {
		x = append(x, v.Value)
	}
	return x
}
