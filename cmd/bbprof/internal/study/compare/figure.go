package compare

import (
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws the values of all sides, a point per layout, next to the differences from the first: their distribution
// for one other side, their means with intervals for more. unit is the values'; cs[i] is for side i+1.
func Figure(unit string, cs []Conclusion, all []Measured) plot.Figure {
	values := plot.Panel{Title: "each layout", Y: unit, Series: values(all)}
	for i := range len(cs) + 1 {
		values.Names = append(values.Names, Name(i))
	}
	if len(cs) == 1 {
		return plot.Figure{Beside: true, Panels: []plot.Panel{values,
			{Title: string(cs[0].Verdict), X: "b against a, %", Y: "layouts", Series: cs[0].distribution()}}}
	}
	means := plot.Panel{Title: "against a", Y: "difference, %", Names: values.Names[1:], Zero: true, Series: []plot.Series{differences(cs)}}
	return plot.Figure{Beside: true, Panels: []plot.Panel{values, means}}
}

func values(all []Measured) []plot.Series {
	const boxWidth, left, columnWidth = 0.25, 0.2, 0.3 // in units of the distance between sides
	boxes := plot.Series{Kind: plot.Boxes, Width: boxWidth}
	var columns []plot.Series
	for side := range all[0].Sides {
		column := plot.Series{Kind: plot.Dots}
		for i, m := range all {
			column.X = append(column.X, float64(side)+left+columnWidth*float64(i)/float64(len(all)))
			column.Y = append(column.Y, Value(m.Sides[side]))
		}
		columns = append(columns, column)
		boxes.X, boxes.Values = append(boxes.X, float64(side)), append(boxes.Values, column.Y)
	}
	return append(columns, boxes)
}

func differences(cs []Conclusion) plot.Series {
	s := plot.Series{Kind: plot.Dots}
	for i, c := range cs {
		s.Add(float64(i), c.Mean, c.Low, c.High)
	}
	return s
}

func (c Conclusion) distribution() []plot.Series {
	bars, top := histogram(c.differences())
	return []plot.Series{bars,
		{Name: "mean, 95 % interval", Kind: plot.Dots, Across: true, X: []float64{c.Mean}, Y: []float64{1.1 * top},
			Low: []float64{c.Low}, High: []float64{c.High}},
		{Name: "no difference", Kind: plot.Rule, X: []float64{0}},
	}
}

// histogram chooses the number of bins by Sturges' rule (Journal of the American Statistical Association 21, 1926). top
// is the highest bin.
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

// Speedup draws a's time over b's against the environment's size as a line, within intervals if there are enough
// trials.
func (c Conclusion) Speedup(name string, pairs []Pair) plot.Series {
	s := plot.Series{Name: name}
	of := func(percent float64) float64 { return 1 / (1 + percent/100) }
	for i, p := range pairs {
		a := c.Alone[i]
		s.X, s.Y = append(s.X, float64(p.Layout.Env)), append(s.Y, of(a.Difference))
		if a.Low < a.High && a.Low > -100 {
			s.Low, s.High = append(s.Low, of(a.High)), append(s.High, of(a.Low))
		}
	}
	if len(s.Low) < len(s.X) {
		s.Low, s.High = nil, nil
	}
	return s
}

func Curve(title string, speedups []plot.Series) plot.Figure {
	return plot.Figure{Title: title, Panels: []plot.Panel{{X: "padding of the environment, bytes", Y: "speed-up over a", Series: speedups}}}
}
