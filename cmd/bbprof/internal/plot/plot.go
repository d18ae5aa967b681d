// Package plot draws measurements for print, as SVG: panels below each other on one axis, or side by side.
//
// Text names a list of fonts and is anchored by its start, middle or end, so that it stays in place
// whichever of them the reader has. The room for it is that of the widest font.
package plot

import (
	"fmt"
	"io"
	"path/filepath"
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

// Check reports a file's name that does not end in .svg.
func Check(file string) error {
	if strings.EqualFold(filepath.Ext(file), ".svg") {
		return nil
	}
	return fmt.Errorf("%s: a plot's name ends in .svg", file)
}

// Draw writes the figure.
func (f Figure) Draw(w io.Writer) error {
	l := newLayout(f)
	c := &svg{width: figureWidth, height: l.height}
	l.draw(c)
	return c.write(w)
}
