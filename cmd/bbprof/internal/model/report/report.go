// Package report writes what was measured, and how good models are at it, as one page of HTML that needs
// no other file and no network: style, script and pictures (SVG) stand in it. It follows the reader's
// choice of light or dark. Its tables can be sorted and searched.
package report

import (
	"fmt"
	"math"
)

// Page is all that a page shows.
type Page struct {
	Title   string
	Made    string // by whom and when
	Facts   []Fact // what was measured on what
	Counts  []Count
	Reasons []Count   // why blocks were rejected, the most frequent first
	Widths  []float64 // of the intervals: half of each, as a share of the cycles

	Models    []Model
	Pairs     []string // a sentence each
	Groupings []Grouping
	Weights   []float64 // of the blocks; nil where they have none

	Blocks []Block // in the order to show
	Left   int     // how many measured blocks are not among them
	By     string  // by what they were chosen
}

type Fact struct{ Name, Value string }

type Count struct {
	Name string
	N    int
}

// Model is one model's column, line and pictures.
type Model struct {
	Name, Source string
	Baseline     bool // no model but what models are compared with
	Figures      []Figure
	Blocks       int       // measured
	Errors       []float64 // of the blocks that it predicts, as shares
	Heat         Heat
	Failures     []Count
	Mistakes     []Mistake
}

// Heat counts blocks by measured and predicted cycles.
type Heat struct {
	Bins    [bins][bins]int // by measured, then predicted
	Outside int
}

// Heat maps have bins of 0.1 cycles up to 10.
const (
	binsPerCycle = 10
	heatCycles   = 10
	bins         = binsPerCycle * heatCycles
)

func (h *Heat) Add(measured, predicted float64) {
	if measured >= heatCycles || predicted >= heatCycles {
		h.Outside++
		return
	}
	h.Bins[int(measured*binsPerCycle)][int(predicted*binsPerCycle)]++
}

type Figure struct {
	Value float64
	Text  string
	Note  string // its interval
}

type Grouping struct {
	Name   string
	Groups []Group
}

type Group struct {
	Name   string
	Blocks int
	MAPE   []float64
}

type Mistake struct {
	Line  string
	Worst []Block
}

type Block struct {
	Hex, Text, Category, Bound, Evidence string
	Cycles, Low, High, Weight            float64
	Predictions                          []float64 // of each model, NaN where there is none; of a mistake, the one
	Share                                string    // of the error, of a mistake
}

// FigureNames head the table of models.
var FigureNames = []string{"Covered, %", "MAPE, %", "Excess, %", "Median, %", "≤ 1 %", "≤ 5 %", "≤ 10 %", "≤ 25 %", "tau-b", "Rounded", "Pearson"}

func number(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// sortable is a value for the script to sort by; what is none comes last.
func sortable(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return fmt.Sprintf("%.6g", v)
}

func percent(share float64) string {
	v := 100 * share
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 10:
		return number(v, 1)
	}
	return number(v, 0)
}

// shade is the strength of a cell's colour, 0 to 5, by its error.
func shade(mape float64) int {
	level := 0
	for _, limit := range []float64{0.02, 0.05, 0.1, 0.25, 0.5} {
		if mape > limit {
			level++
		}
	}
	return level
}

// offBy is a prediction's error with its sign, as percent.
func offBy(b Block, predicted float64) string {
	if math.IsNaN(predicted) {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(predicted-b.Cycles)/b.Cycles)
}
