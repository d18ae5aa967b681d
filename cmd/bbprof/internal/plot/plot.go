// Package plot draws measurements for print: panels below each other on one axis, or side by side,
// as SVG, PNG or PDF.
//
// [Figure.Draw] lays a figure out in points on a canvas, of which there is one for each format. SVG
// text names a list of fonts and is anchored by its start, middle or end, so that it stays in place
// whichever of them the reader has. What is reserved for text is measured in the one font that is
// embedded, Go Regular, which PNG is written in.
package plot

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Figure is some panels below each other with one horizontal axis, or side by side.
type Figure struct {
	Title   string
	Subject string   // what was measured: a block or a program; below the title
	Machine string   // where: the CPU
	X       string   // label of the axis
	Names   []string // of x = 0, 1, …, where those are things and no numbers; may have several lines
	Ticks   int      // between two ticks of the axis; 0 for round numbers
	Keys    []string // a list below the figure, which says what the names stand for
	// Beside puts the panels side by side, each with a title, names and a horizontal axis of its own.
	Beside bool
	Panels []Panel
}

// Panel is one pair of axes.
type Panel struct {
	Title, X string   // where panels are side by side
	Names    []string // likewise
	Y        string   // label of the axis
	Zero     bool     // let the axis reach to 0
	Series   []Series
}

// Kind is how a series is drawn.
type Kind int

const (
	Line  Kind = iota // a line, within a band where there are intervals
	Dots              // points, with error bars where there are intervals
	Bars              // of a histogram, each Width wide around its X
	Boxes             // a box plot at each X of the Values there
	Rule              // a dashed vertical line at each X
)

// Series is some points, X ascending.
type Series struct {
	Name string // in the legend; none is not listed
	Kind Kind
	X, Y []float64
	// Low and High are the ends of each point's interval, if there are any: of Y, or with Across of X.
	Low, High []float64
	Across    bool
	Width     float64     // of Bars and Boxes, in units of X
	Values    [][]float64 // of Boxes
}

// Add appends a point with its interval.
func (s *Series) Add(x, y, low, high float64) {
	s.X, s.Y, s.Low, s.High = append(s.X, x), append(s.Y, y), append(s.Low, low), append(s.High, high)
}

// Formats are what a figure can be written as.
func Formats() []string { return []string{"svg", "png", "pdf"} }

// Format is the format that a file's name ends in.
func Format(file string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(file), "."))
	if slices.Contains(Formats(), format) {
		return format, nil
	}
	return "", fmt.Errorf("%s: a plot's name ends in .%s", file, strings.Join(Formats(), ", ."))
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
	l := newLayout(f)
	c, err := newCanvas(format, figureWidth, l.height)
	if err != nil {
		return err
	}
	l.draw(c)
	return c.write(w)
}
