package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws the values of both sides, a point a layout, beside the distribution of their
// differences with the mean and its interval. unit is that of the values.
func Figure(unit string, c Conclusion, pairs []Pair) plot.Figure {
	return plot.Figure{Beside: true, Panels: []plot.Panel{
		{Title: "each layout", Y: unit, Names: []string{"a", "b"}, Series: values(pairs)},
		{Title: string(c.Verdict), X: "b against a, %", Y: "layouts", Series: c.distribution()},
	}}
}

// values are a box for each side with a column of points beside it, in the order of the layouts.
func values(pairs []Pair) []plot.Series {
	const boxWidth, left, columnWidth = 0.25, 0.2, 0.3 // of the distance between the sides
	boxes := plot.Series{Kind: plot.Boxes, Width: boxWidth}
	var columns []plot.Series
	for side := range sides {
		column := plot.Series{Kind: plot.Dots}
		for i, pair := range pairs {
			column.X = append(column.X, float64(side)+left+columnWidth*float64(i)/float64(len(pairs)))
			column.Y = append(column.Y, Value([][]float64{pair.A, pair.B}[side]))
		}
		columns = append(columns, column)
		boxes.X, boxes.Values = append(boxes.X, float64(side)), append(boxes.Values, column.Y)
	}
	return append(columns, boxes)
}

// distribution is a histogram of the differences, with 0 and, above it, the mean with its interval.
func (c Conclusion) distribution() []plot.Series {
	bars, top := histogram(c.differences())
	return []plot.Series{bars,
		{Name: "mean, 95 % interval", Kind: plot.Dots, Across: true, X: []float64{c.Mean}, Y: []float64{1.1 * top}, Low: []float64{c.Low}, High: []float64{c.High}},
		{Name: "no difference", Kind: plot.Rule, X: []float64{0}},
	}
}

// histogram has as many bins as Sturges' rule (Journal of the American Statistical Association 21, 1926).
// top is its highest.
func histogram(xs []float64) (bars plot.Series, top float64) {
	low, high := slices.Min(xs), slices.Max(xs)
	bins := int(math.Ceil(math.Log2(float64(len(xs))))) + 1
	width := (high - low) / float64(bins)
	if width == 0 {
		bins, width = 1, max(math.Abs(low)/100, 0.01)
	}
	bars = plot.Series{Kind: plot.Bars, Width: width}
	counts := make([]float64, bins)
	for _, x := range xs {
		counts[min(int((x-low)/width), bins-1)]++
	}
	for i, n := range counts {
		bars.X, bars.Y = append(bars.X, low+(float64(i)+0.5)*width), append(bars.Y, n)
	}
	return bars, slices.Max(counts)
}

// FigureAll draws the differences of many pairs of blocks with their intervals, the smallest first.
func FigureAll(all []Conclusion) plot.Figure {
	differences := plot.Series{Kind: plot.Dots}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Conclusion) int { return cmp.Compare(a.Mean, b.Mean) })
	for i, c := range sorted {
		differences.Add(float64(i+1), c.Mean, c.Low, c.High)
	}
	return plot.Figure{Title: "b against a", X: "pairs of blocks, by difference", Panels: []plot.Panel{{Y: "difference, %", Series: []plot.Series{differences}}}}
}
