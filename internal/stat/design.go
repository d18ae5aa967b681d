package stat

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
)

// Visit is a value measured in one cell of a design. What a batch of visits has in common (a mapping of
// memory, a moment) moves all of them, so batches, not visits, are independent. A batch has the same
// cells whenever it comes again.
type Visit struct {
	Cell  int
	Batch int
	Value float64
}

// Cell summarises the visits to one cell of a design.
type Cell struct {
	Number  int
	Mean    float64
	Visits  int // that count
	Dropped int // that were cut as disturbed
}

// Design is the mean over the cells of a fixed design, each cell with the same weight. Cells are fixed
// effects: what they differ by is no noise, but what a cell's visits differ by is.
type Design struct {
	Estimate         // of the mean over cells; the interval is that of the mean of these cells
	Cells    []Cell  // ascending by number
	Within   float64 // standard deviation of a visit around its cell's mean
	Differ   bool    // cells differ by more than their visits do, by an F-test
}

// Repeated reports whether each cell was visited more than once, so that Within is known.
func (d Design) Repeated() bool {
	return len(d.Cells) > 0 && !slices.ContainsFunc(d.Cells, func(c Cell) bool { return c.Visits+c.Dropped < 2 })
}

// Groups sorts the cells by mean and splits them in two where that leaves the least variance within the groups (Fisher, On grouping
// for maximum homogeneity, JASA 53, 1958), provided that the groups' means are so many standard errors apart, and gap of the lower one.
// Each group is split again by the same rule. Ascending by mean.
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

// outlierScales is how many robust standard deviations off its cell a visit is cut. Iglewicz and
// Hoaglin, How to Detect and Handle Outliers (1993), take 3.5 of one sample; the residuals of two visits
// are no more than half of their difference, so more is asked.
const outlierScales = 6

// NewDesign derives it. Visits that are no more than slack off their cell are not cut.
func NewDesign(visits []Visit, slack float64) (d Design) {
	cells := byCell(visits)
	centre, reach := Median(values(visits)), math.Max(slack, outlierScales*scale(cells))
	batches := map[int]float64{} // the sums of the visits' deviations from their cells
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

// byCell are the visits to each cell, ascending by its number.
func byCell(visits []Visit) (cells [][]Visit) {
	rest := slices.Clone(visits)
	slices.SortStableFunc(rest, func(a, b Visit) int { return a.Cell - b.Cell })
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].Cell == rest[0].Cell {
			n++
		}
		cells, rest = append(cells, rest[:n:n]), rest[n:]
	}
	return cells
}

// differSignificance is the rate at which equal cells are found to differ.
const differSignificance = 0.01

// differ is the F-test of a one-way analysis of variance.
func differ(d Design, degrees int) bool {
	if len(d.Cells) < 2 {
		return false
	}
	var between float64
	for _, c := range d.Cells {
		between += float64(c.Visits) * (c.Mean - d.Value) * (c.Mean - d.Value)
	}
	between /= float64(len(d.Cells) - 1)
	return between > differLimit(len(d.Cells)-1, degrees)*d.Within*d.Within
}

// limits keeps the F-quantiles that were asked for: one takes some 20 µs to find, and every block asks for
// one of a few.
var limits sync.Map // [2]int to float64

func differLimit(between, within int) float64 {
	key := [2]int{between, within}
	if known, ok := limits.Load(key); ok {
		return known.(float64)
	}
	limit := fQuantile(float64(between), float64(within), 1-differSignificance)
	limits.Store(key, limit)
	return limit
}

// halfOf is Student's half-width of the mean over all cells from what batches are off their cells by:
// the cluster-robust variance of Liang and Zeger (Biometrika 73, 1986) of a mean, with a degree of freedom
// for each batch beyond those that a first visit to all cells takes.
func halfOf(sums map[int]float64, n, cells int) float64 {
	batches := len(sums)
	first := float64(batches) * float64(cells) / float64(n) // batches that visit each cell once
	degrees := batches - max(1, int(math.Round(first)))     // their mean takes one of a single cell
	if degrees < 1 {
		return math.Inf(1)
	}
	var sum float64
	for _, s := range slices.Sorted(maps.Values(sums)) { // a map has no order, and a sum depends on it in its last bits
		sum += s * s
	}
	variance := sum / float64(n*n) * float64(batches) / float64(degrees)
	return T95(degrees) * math.Sqrt(variance)
}

// scale is the robust standard deviation of visits around their cell's median, over all cells with more
// than one; infinite without.
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
	const normal = 1.4826 // standard deviations in a median absolute deviation
	return normal * Median(off)
}

// within are the visits that are no further than reach off a value.
func within(of []Visit, value, reach float64) []Visit {
	return slices.DeleteFunc(slices.Clone(of), func(v Visit) bool { return math.Abs(v.Value-value) > reach })
}

// keep cuts the visits to one cell that are further than reach off its median. Of two that disagree it
// keeps the one that is nearer to all cells' centre.
func keep(of []Visit, reach, centre float64) []Visit {
	if kept := within(of, Median(values(of)), reach); len(kept) > 0 {
		return kept
	}
	return []Visit{slices.MinFunc(of, func(a, b Visit) int {
		return cmp.Compare(math.Abs(a.Value-centre), math.Abs(b.Value-centre))
	})}
}

func values(visits []Visit) []float64 {
	x := make([]float64, 0, len(visits))
	for _, v := range visits {
		x = append(x, v.Value)
	}
	return x
}
