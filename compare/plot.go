package compare

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// PlotFormats are what a figure can be written as.
func PlotFormats() []string { return []string{"svg", "png", "pdf"} }

// PlotFormat goes by a file's name.
func PlotFormat(name string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if slices.Contains(PlotFormats(), format) {
		return format, nil
	}
	return "", fmt.Errorf("%s: a figure's name ends in .%s", name, strings.Join(PlotFormats(), ", ."))
}

// Colours that stay apart for most colour-blind eyes (Okabe and Ito, "Color Universal Design").
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	grey   = color.RGBA{0x80, 0x80, 0x80, 0xff}
)

// Plot draws the values of both sides, a point a layout, beside the distribution of their
// differences with the mean and its interval. unit is that of the values.
func Plot(w io.Writer, format, unit string, c Conclusion, pairs []Pair) error {
	values, err := plotValues(unit, pairs)
	if err != nil {
		return err
	}
	differences, err := plotDifferences(c)
	if err != nil {
		return err
	}
	return write(w, format, values, differences)
}

// plotValues has a column of points for each side, with a box around the middle half.
func plotValues(unit string, pairs []Pair) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "each layout"
	p.Y.Label.Text = unit
	p.Y.Tick.Marker = ticks{}
	p.NominalX("a", "b")
	p.X.Min, p.X.Max = -0.6, 1.6
	for side, colour := range []color.Color{blue, orange} {
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
			return nil, err
		}
		box.Offset = -vg.Points(12)
		scatter, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		scatter.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
		p.Add(box, scatter)
	}
	return p, nil
}

// ticks are the usual ones with as many digits as keep neighbours apart.
type ticks struct{}

func (ticks) Ticks(low, high float64) []plot.Tick {
	t := plot.DefaultTicks{}.Ticks(low, high)
	decimals := max(0, int(math.Ceil(-math.Log10((high-low)/float64(len(t))))))
	for i := range t {
		if t[i].Label != "" {
			t[i].Label = strconv.FormatFloat(t[i].Value, 'f', decimals, 64)
		}
	}
	return t
}

// plotDifferences is a histogram, with 0 and the mean with its interval above it.
func plotDifferences(c Conclusion) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = string(c.Verdict)
	p.X.Label.Text = "b against a, %"
	p.Y.Label.Text = "layouts"
	d := plotter.Values(c.differences())
	// As many bins as Sturges' rule has (Journal of the American Statistical Association 21, 1926).
	h, err := plotter.NewHist(d, int(math.Ceil(math.Log2(float64(len(d)))))+1)
	if err != nil {
		return nil, err
	}
	h.FillColor = color.RGBA{0xcc, 0xdd, 0xee, 0xff}
	top := 0.0
	for _, b := range h.Bins {
		top = max(top, b.Weight)
	}
	zero, err := plotter.NewLine(plotter.XYs{{X: 0, Y: 0}, {X: 0, Y: 1.2 * top}})
	if err != nil {
		return nil, err
	}
	zero.Color, zero.Dashes = grey, []vg.Length{vg.Points(4), vg.Points(3)}
	at := plotter.XYs{{X: c.Mean, Y: 1.1 * top}}
	mean, err := plotter.NewScatter(at)
	if err != nil {
		return nil, err
	}
	mean.GlyphStyle = draw.GlyphStyle{Color: orange, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	interval, err := plotter.NewXErrorBars(bars{at, plotter.XErrors{{Low: c.Mean - c.Low, High: c.High - c.Mean}}})
	if err != nil {
		return nil, err
	}
	interval.Color, interval.Width = orange, vg.Points(1.5)
	p.Add(h, zero, interval, mean)
	p.Legend.Add("mean, 95 % interval", mean)
	p.Legend.Add("no difference", zero)
	p.Legend.Top = true
	p.Y.Max = 1.5 * top // the legend's room
	return p, nil
}

type bars struct {
	plotter.XYs
	plotter.XErrors
}

// PlotAll draws the differences of many pairs of blocks with their intervals, the smallest first.
func PlotAll(w io.Writer, format string, all []Conclusion) error {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Conclusion) int {
		if a.Mean < b.Mean {
			return -1
		}
		return 1
	})
	p := plot.New()
	p.Title.Text = "b against a"
	p.X.Label.Text = "pairs of blocks, by difference"
	p.Y.Label.Text = "difference, %"
	var (
		at     plotter.XYs
		errors plotter.YErrors
	)
	for i, c := range sorted {
		at = append(at, plotter.XY{X: float64(i + 1), Y: c.Mean})
		errors = append(errors, struct{ Low, High float64 }{c.Mean - c.Low, c.High - c.Mean})
	}
	points, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: blue, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
	intervals, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{at, errors})
	if err != nil {
		return err
	}
	intervals.Color = blue
	p.Add(plotter.NewGrid(), intervals, points)
	return write(w, format, p)
}

// write puts plots side by side.
func write(w io.Writer, format string, plots ...*plot.Plot) error {
	c, err := draw.NewFormattedCanvas(vg.Length(len(plots))*4*vg.Inch, 3.5*vg.Inch, format)
	if err != nil {
		return err
	}
	canvas := draw.New(c)
	tiles := draw.Tiles{Cols: len(plots), Rows: 1, PadX: 5 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter, PadLeft: 3 * vg.Millimeter, PadRight: 3 * vg.Millimeter}
	for i, part := range plot.Align([][]*plot.Plot{plots}, tiles, canvas)[0] {
		plots[i].Draw(part)
	}
	_, err = c.WriteTo(w)
	return err
}
