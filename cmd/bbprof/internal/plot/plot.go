// Package plot draws measurements for print, as SVG: panels stacked on one axis, or side by side.
//
// Text names a list of fonts and is anchored by its start, middle or end, so that it stays in place with any of them.
// Space is reserved for the widest.
package plot

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Figure is a set of panels stacked on one horizontal axis, or side by side.
type Figure struct {
	Title   string
	Subject string   // the measured block or program; below the title
	Machine string   // the measured CPU
	Ticks   int      // distance of two ticks; 0 for round numbers
	Keys    []string // a list below the figure that explains the names
	// Beside puts the panels side by side, each with its own title, names and horizontal axis.
	Beside bool
	Panels []Panel
}

type Panel struct {
	Title  string
	X, Y   string   // labels of the axes; of stacked panels, only the lowest has a horizontal one
	Names  []string // labels of x = 0, 1, …, if they are categories; may have several lines
	Zero   bool     // extend the vertical axis to 0
	Series []Series
}

type Kind int

const (
	Line  Kind = iota // a line, within a band if there are intervals
	Dots              // points, with error bars if there are intervals
	Bars              // a histogram, each bar Width wide around its X
	Boxes             // a box plot of Values at each X
	Rule              // a dashed vertical line at each X
)

// Series is a list of points, by ascending X.
type Series struct {
	Name string // in the legend; "" omits it
	Kind Kind
	X, Y []float64
	// Low and High are the ends of each point's interval, if any: in Y, or in X with Across.
	Low, High []float64
	Across    bool
	Width     float64     // of Bars and Boxes, in units of X
	Values    [][]float64 // of Boxes
}

func (s *Series) Add(x, y, low, high float64) {
	s.X, s.Y, s.Low, s.High = append(s.X, x), append(s.Y, y), append(s.Low, low), append(s.High, high)
}

// Check rejects file names that do not end in .svg.
func Check(file string) error {
	if strings.EqualFold(filepath.Ext(file), ".svg") {
		return nil
	}
	return fmt.Errorf("%s: a plot's name ends in .svg", file)
}
