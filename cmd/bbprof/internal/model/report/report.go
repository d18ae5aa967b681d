// Package report writes measurements, and how good models are, as one HTML page that needs no other file and no network:
// style, script and SVG figures are embedded. It follows the reader's choice of light or dark. Its tables can be sorted
// and searched.
package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

type Page struct {
	*score.Report
	Made     string // writer and inputs
	Facts    []Fact // conditions of the measurement
	Measured []score.Block
}

type Fact struct{ Name, Value string }

var (
	//go:embed page.html
	text string
	//go:embed page.css
	style template.CSS
	//go:embed page.js
	script template.JS
)

var functions = template.FuncMap{
	"style": func() template.CSS { return style }, "script": func() template.JS { return script },
	"text": score.Text, "plural": words.Plural[int], "byCount": words.ByCount[string, int],
	"colour": func(model int) int { return model%colors + 1 }, "errorCurves": errorCurves, "heatMap": heatMap,
	"sortable": sortable, "full": full, "offBy": offBy,
}

// document is a page with what follows from it.
type document struct {
	*Page
	Usual string  // evidence of most blocks, shown once
	Total float64 // weight of all blocks; 0 without weights
	Rows  []int   // blocks in the table
	By    string  // why these
}

func Write(w io.Writer, p *Page) error {
	counts := map[string]int{}
	copied := *p
	d := &document{Page: &copied}
	d.Measured = slices.Clone(p.Measured)
	for _, b := range d.Measured {
		counts[b.Evidence]++
		d.Total += b.Weight
	}
	d.Usual = append(words.ByCount(counts), "")[0]
	for i := range d.Measured {
		if b := &d.Measured[i]; b.Evidence == d.Usual {
			b.Evidence = ""
		}
	}
	d.Rows, d.By = d.shown()
	return template.Must(template.New("page").Funcs(functions).Parse(text)).Execute(w, d)
}

func (d *document) Left() int { return len(d.Measured) - len(d.Rows) }

// Part formats a weight in percent of all.
func (d *document) Part(weight float64) string { return fmt.Sprintf("%.3f", 100*weight/d.Total) }

// offenders is a list of blocks, with the numbers of those of its kind that the table has.
type offenders struct {
	*document
	Title, What string
	Worst       []score.Offender
	Rows        []int
}

func (d *document) Offenders(title, what string, worst []score.Offender, all []int) offenders {
	rows := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !slices.Contains(d.Rows, i) })
	return offenders{d, title, what, worst, rows}
}

// mostBlocks limits the blocks of a page: a browser can sort and search this many at once, and the page stays small
// enough to send.
const mostBlocks = 2000

// shown lists the blocks to show, by index: those with the largest excess error of any model or, without models, the
// least precise.
func (d *document) shown() (list []int, by string) {
	key := make([]float64, len(d.Measured))
	by = "the least precise"
	for i := range d.Measured {
		key[i] = float64(d.Measured[i].Precision())
		list = append(list, i)
	}
	candidates := slices.DeleteFunc(slices.Clone(d.Models), func(m score.ModelResult) bool { return m.Kind != score.Candidate })
	if len(candidates) > 0 {
		by = "those with the largest excess error"
		clear(key)
	}
	for _, m := range candidates {
		for i, q := range m.Predictions {
			if !q.Known() {
				continue
			}
			excess := score.Excess(&d.Measured[i], q)
			if d.Total > 0 {
				excess *= d.Measured[i].Weight
			}
			key[i] = max(key[i], excess)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(key[b], key[a]) })
	return list[:min(mostBlocks, len(list))], by
}

// sortable formats a value for the sort script; a missing one sorts last.
func sortable(v score.Number) string {
	if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return fmt.Sprintf("%.6g", f)
	}
	return ""
}

// full returns how full an error's bar is, in percent: empty without an error.
func full(mape score.Number) float64 {
	if math.IsNaN(float64(mape)) {
		return 0
	}
	return math.Round(100 * min(1, float64(mape)))
}

// offBy returns a prediction's signed error in percent.
func offBy(b score.Block, predicted float64) string {
	if percent := math.Round(100 * (predicted - b.Cycles) / b.Cycles); percent != 0 {
		return fmt.Sprintf("%+.0f %%", percent)
	}
	return "0 %" // not -0
}
