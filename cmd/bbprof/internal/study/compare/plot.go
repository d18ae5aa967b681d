package compare

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
)

// Figure draws the values of both sides, a point a layout, beside the distribution of their
// differences with the mean and its interval. unit is that of the values.
func Figure(unit string, c Conclusion, pairs []Pair) plot.Figure {
	return plot.Figure{Beside: true, Panels: []plot.Panel{
		{Title: "each layout", Y: unit, Draw: func(p *gonum.Plot) error { return drawValues(p, pairs) }},
		{Title: string(c.Verdict), X: "b against a, %", Y: "layouts", Draw: c.drawDifferences},
	}}
}

// drawValues has a column of points for each side, with a box around the middle half.
func drawValues(p *gonum.Plot, pairs []Pair) error {
	for side, colour := range plot.Colours()[:2] {
		var ys plotter.Values
		points := make(plotter.XYs, len(pairs))
		for i, pair := range pairs {
			y := Value([][]float64{pair.A, pair.B}[side])
			ys = append(ys, y)
			// Side by side in the order of the layouts, beside the box.
			points[i] = plotter.XY{X: float64(side) + 0.2 + 0.3*float64(i)/float64(len(pairs)), Y: y}
		}
		box, err := plotter.NewBoxPlot(vg.Points(30), float64(side), ys)
		if err != nil {
			return err
		}
		box.Offset = -vg.Points(12)
		scatter, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		scatter.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
		p.Add(box, scatter)
	}
	p.NominalX("a", "b")
	p.X.Min, p.X.Max = -0.6, 1.6
	return nil
}

// drawDifferences is a histogram, with 0 and the mean with its interval above it.
func (c Conclusion) drawDifferences(p *gonum.Plot) error {
	d := plotter.Values(c.differences())
	// As many bins as Sturges' rule has (Journal of the American Statistical Association 21, 1926).
	h, err := plotter.NewHist(d, int(math.Ceil(math.Log2(float64(len(d)))))+1)
	if err != nil {
		return err
	}
	h.FillColor = color.RGBA{0xcc, 0xdd, 0xee, 0xff}
	top := 0.0
	for _, b := range h.Bins {
		top = max(top, b.Weight)
	}
	zero, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 0}, {X: 0, Y: 1.2 * top}})
	if err != nil {
		return err
	}
	zero.Color, zero.Dashes = color.Gray{0x80}, []vg.Length{vg.Points(4), vg.Points(3)}
	orange := plot.Colours()[1]
	at := plotter.XYs{{X: c.Mean, Y: 1.1 * top}}
	mean, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	mean.GlyphStyle = draw.GlyphStyle{Color: orange, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	interval, err := plotter.NewXErrorBars(struct {
		plotter.XYs
		plotter.XErrors
	}{at, plotter.XErrors{{Low: c.Mean - c.Low, High: c.High - c.Mean}}})
	if err != nil {
		return err
	}
	interval.Color, interval.Width = orange, vg.Points(1.5)
	p.Add(h, zero, interval, mean)
	p.Legend.Add("mean, 95 % interval", mean)
	p.Legend.Add("no difference", zero)
	p.Y.Max = 1.5 * top // the legend's room
	return nil
}

// FigureAll draws the differences of many pairs of blocks with their intervals, the smallest first.
func FigureAll(all []Conclusion) plot.Figure {
	differences := plot.Series{Dots: true}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Conclusion) int { return cmp.Compare(a.Mean, b.Mean) })
	for i, c := range sorted {
		differences.X, differences.Y = append(differences.X, float64(i+1)), append(differences.Y, c.Mean)
		differences.Low, differences.High = append(differences.Low, c.Low), append(differences.High, c.High)
	}
	return plot.Figure{Title: "b against a", X: "pairs of blocks, by difference", Panels: []plot.Panel{{Y: "difference, %", Series: []plot.Series{differences}}}}
}
