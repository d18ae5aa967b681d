// Package plot draws measurements so that a paper can print them: panels above each other on one
// axis, or side by side, as SVG, PNG or PDF.
package plot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Figure is some panels below each other with one horizontal axis, or side by side.
type Figure struct {
	Title string
	X     string   // label of the axis
	Names []string // of x = 0, 1, ..., where those are things and no numbers
	Ticks int      // from one tick of the axis to the next; 0 leaves that to the library
	// Beside puts the panels side by side, each with a title and a horizontal axis of its own.
	Beside bool
	Panels []Panel
}

// Panel is one pair of axes.
type Panel struct {
	Title, X string // where panels stand side by side
	Y        string // label of the axis
	Zero     bool   // let the axis reach to 0
	Series   []Series
	// Draw adds what no series is.
	Draw func(*gonum.Plot) error
}

// Series is some points, X ascending.
type Series struct {
	Name string // in the legend, which needs two of them
	X, Y []float64
	// Low and High are the ends of each point's interval, if there are any.
	Low, High []float64
	// Dots draws points with error bars instead of a line within a band.
	Dots bool
}

// Sizes in print: the width of a page's text, and type that is read without a lens.
const (
	width      = 16 * vg.Centimeter
	panelSize  = 5 * vg.Centimeter
	besideSize = 8 * vg.Centimeter
	typeSize   = 9
	pngDPI     = 150
	bandOpaque = 0x50
)

// Colours are told apart by most eyes and in grey (Okabe and Ito, "Color Universal Design").
func Colours() []color.NRGBA {
	return []color.NRGBA{{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0, 0, 0, 0xff}}
}

// Formats are what a figure can be written as.
func Formats() []string { return []string{"svg", "png", "pdf"} }

// Format goes by a file's name.
func Format(file string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))
	if slices.Contains(Formats(), format) {
		return format, nil
	}
	return "", fmt.Errorf("%s: a figure's name ends in .%s", file, strings.Join(Formats(), ", ."))
}

// Save draws into a file, in the format that its name ends in.
func (f Figure) Save(file string) error {
	format, err := Format(file)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	err = f.Draw(out, format)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("drawing %s: %w", file, err)
	}
	return nil
}

// Draw writes the figure in a format.
func (f Figure) Draw(w io.Writer, format string) error {
	height := panelSize*vg.Length(len(f.Panels)) + vg.Centimeter
	tiles := draw.Tiles{Rows: len(f.Panels), Cols: 1, PadY: 3 * vg.Millimeter}
	plots := make([][]*gonum.Plot, len(f.Panels))
	if f.Beside {
		height = besideSize
		tiles = draw.Tiles{Rows: 1, Cols: len(f.Panels), PadX: 5 * vg.Millimeter}
		plots = make([][]*gonum.Plot, 1)
	}
	for i := range f.Panels {
		p, err := f.panel(i)
		if err != nil {
			return err
		}
		row := min(i, len(plots)-1)
		plots[row] = append(plots[row], p)
	}
	canvas, err := newCanvas(format, height)
	if err != nil {
		return err
	}
	area := draw.Crop(draw.New(canvas), vg.Millimeter, -3*vg.Millimeter, vg.Millimeter, -vg.Millimeter)
	for r, row := range gonum.Align(plots, tiles, area) {
		for c, part := range row {
			plots[r][c].Draw(part)
		}
	}
	_, err = canvas.WriteTo(w)
	return err
}

// newCanvas is the library's, but for the resolution of what has one.
func newCanvas(format string, height vg.Length) (vg.CanvasWriterTo, error) {
	if format == "png" {
		return vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI))}, nil
	}
	return draw.NewFormattedCanvas(width, height, format)
}

// panel is the i-th panel. Below each other, the title stands above the first, and the axis's label
// below the last.
func (f Figure) panel(i int) (*gonum.Plot, error) {
	p := gonum.New()
	panel := f.Panels[i]
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = panel.Title, panel.X, panel.Y
	if i == 0 && !f.Beside {
		p.Title.Text = f.Title
	}
	if i == len(f.Panels)-1 && !f.Beside {
		p.X.Label.Text = f.X
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid)
	p.Y.Tick.Marker = gonum.TickerFunc(distinct)
	if f.Ticks > 0 {
		p.X.Tick.Marker = gonum.TickerFunc(f.ticks)
	}
	colours := Colours()
	for k, s := range panel.Series {
		line, err := s.add(p, colours[k%len(colours)])
		if err != nil {
			return nil, err
		}
		if len(panel.Series) > 1 {
			p.Legend.Add(s.Name, line)
		}
	}
	if len(f.Names) > 0 {
		p.NominalX(f.Names...)
		p.X.Min, p.X.Max = -0.5, float64(len(f.Names))-0.5
	}
	if panel.Draw != nil {
		if err := panel.Draw(p); err != nil {
			return nil, err
		}
	}
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font = font.Font{Typeface: gonum.DefaultFont.Typeface, Variant: "Sans", Size: typeSize}
	}
	if panel.Zero {
		p.Y.Min, p.Y.Max = math.Min(p.Y.Min, 0), math.Max(p.Y.Max, 0)
	}
	if p.Y.Max-p.Y.Min < 1e-9 { // nothing but one value
		p.Y.Max++
	}
	room := headroom * (p.Y.Max - p.Y.Min)
	p.Y.Max += room
	if slices.ContainsFunc(panel.Series, func(s Series) bool { return s.Dots }) {
		p.Y.Min -= room
	}
	p.Legend.Top = !panel.endsHigh((p.Y.Min + p.Y.Max) / 2)
	return p, nil
}

// headroom keeps points off the frame, as a share of the axis.
const headroom = 0.05

// endsHigh reports whether a series ends above the middle, where the legend would hide it.
func (p Panel) endsHigh(middle float64) bool {
	for _, s := range p.Series {
		if n := len(s.Y); n > 0 && s.Y[n-1] > middle {
			return true
		}
	}
	return false
}

// distinct ticks are the usual ones with as many digits as keep neighbours apart.
func distinct(low, high float64) []gonum.Tick {
	t := gonum.DefaultTicks{}.Ticks(low, high)
	decimals := max(0, int(math.Ceil(-math.Log10((high-low)/float64(len(t))))))
	for i := range t {
		if t[i].Label != "" {
			t[i].Label = strconv.FormatFloat(t[i].Value, 'f', decimals, 64)
		}
	}
	return t
}

// ticks are the multiples of Ticks.
func (f Figure) ticks(from, to float64) (ticks []gonum.Tick) {
	step := float64(f.Ticks)
	for v := math.Ceil(from/step) * step; v <= to; v += step {
		ticks = append(ticks, gonum.Tick{Value: v, Label: fmt.Sprint(v)})
	}
	return ticks
}

// add draws a series and returns what stands for it in a legend.
func (s Series) add(p *gonum.Plot, c color.NRGBA) (gonum.Thumbnailer, error) {
	points := make(plotter.XYs, len(s.X))
	for i := range s.X {
		points[i] = plotter.XY{X: s.X[i], Y: s.Y[i]}
	}
	if s.Dots {
		return s.addDots(p, c, points)
	}
	if s.Low != nil {
		ring := make(plotter.XYs, 0, 2*len(s.X))
		for i := range s.X {
			ring = append(ring, plotter.XY{X: s.X[i], Y: s.High[i]})
		}
		for i := len(s.X) - 1; i >= 0; i-- {
			ring = append(ring, plotter.XY{X: s.X[i], Y: s.Low[i]})
		}
		band, err := plotter.NewPolygon(ring)
		if err != nil {
			return nil, err
		}
		pale := c
		pale.A = bandOpaque
		band.Color, band.LineStyle.Width = pale, 0
		p.Add(band)
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = c, vg.Points(0.8)
	p.Add(line)
	return line, nil
}

// spread is a series with intervals, as plotter wants it.
type spread struct {
	plotter.XYs
	plotter.YErrors
}

func (s Series) addDots(p *gonum.Plot, c color.NRGBA, points plotter.XYs) (gonum.Thumbnailer, error) {
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return nil, err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2.2), Shape: draw.CircleGlyph{}}
	p.Add(dots)
	if s.Low != nil {
		e := spread{points, make(plotter.YErrors, len(points))}
		for i := range points {
			e.YErrors[i].Low, e.YErrors[i].High = points[i].Y-s.Low[i], s.High[i]-points[i].Y
		}
		bars, err := plotter.NewYErrorBars(e)
		if err != nil {
			return nil, err
		}
		bars.LineStyle.Color, bars.LineStyle.Width = c, vg.Points(1)
		p.Add(bars)
	}
	return dots, nil
}
