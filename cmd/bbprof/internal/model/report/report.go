// Package report writes measurements, and how good models are, as one HTML page that needs no other file and no network:
// style, script and SVG figures are embedded. It follows the reader's choice of light or dark. Its tables can be sorted
// and searched.
package report

import (
	"cmp"
	"fmt"
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

// FigureNames head the table of models.
var FigureNames = []string{"Covered, %", "MAPE, %", "Excess, %", "Median, %", "≤ 1 %", "≤ 5 %", "≤ 10 %", "≤ 25 %", "tau-b", "Rounded", "Pearson"}

type figure struct {
	score.Number
	text, note string // note: the interval
}

func figuresOf(f *score.Figures) (all []figure) {
	share := func(n score.Number, name string) {
		one := figure{n, n.Percent(), ""}
		if i := f.Interval(name); i.Low <= i.High {
			one.note = i.Percent()
		}
		all = append(all, one)
	}
	share(f.Coverage, "coverage")
	share(f.MAPE, "mape")
	if f.Half != nil {
		all[len(all)-1].note += "; " + f.Half.String()
	}
	share(f.Excess, "excess")
	share(f.MedianError, "median_error")
	for i, l := range score.Limits() {
		share(f.Within[i], fmt.Sprintf("within_%d", l))
	}
	rank := func(n score.Number, name string) {
		one := figure{n, n.Correlation(), ""}
		if i := f.Interval(name); i.Low <= i.High {
			one.note = fmt.Sprintf("%.3f–%.3f", i.Low, i.High)
		}
		all = append(all, one)
	}
	rank(f.TauB, "tau_b")
	rank(f.TauBRounded, "tau_b_rounded")
	rank(f.Pearson, "pearson")
	return all
}

func (p *Page) usual() (evidence string) {
	counts := map[string]int{}
	for _, b := range p.Measured {
		counts[b.Evidence]++
	}
	if list := words.ByCount(counts); len(list) > 0 {
		evidence = list[0]
	}
	return evidence
}

func (p *Page) weighted() bool {
	return score.Weighted(p.Measured)
}

// mostBlocks limits the blocks of a page: a browser can sort and search this many at once, and the page stays small
// enough to send.
const mostBlocks = 2000

// shown lists the blocks to show, by index: those with the largest excess error of any model or, without models, the
// least precise.
func (p *Page) shown() (list []int, by string) {
	key := make([]float64, len(p.Measured))
	by = "the least precise"
	weighted := p.weighted()
	for i := range p.Measured {
		b := &p.Measured[i]
		key[i] = (b.High - b.Low) / b.Cycles
		list = append(list, i)
	}
	candidate := func(m score.ModelResult) bool { return m.Kind == score.Candidate }
	if slices.ContainsFunc(p.Models, candidate) {
		by = "those with the largest excess error"
		clear(key)
	}
	for _, m := range p.Models {
		for i := range p.Measured {
			if q := m.Predictions[i]; candidate(m) && q.Known() {
				excess := score.Excess(&p.Measured[i], q)
				if weighted {
					excess *= p.Measured[i].Weight
				}
				key[i] = max(key[i], excess)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(key[b], key[a]) })
	return list[:min(mostBlocks, len(list))], by
}

func number(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// sortable formats a value for the sort script; a missing one sorts last.
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

// full returns how full an error's bar is, in percent: empty without an error.
func full(mape float64) float64 {
	if math.IsNaN(mape) {
		return 0
	}
	return 100 * min(1, mape)
}

// offBy returns a prediction's signed error in percent.
func offBy(b *score.Block, predicted float64) string {
	if math.IsNaN(predicted) {
		return ""
	}
	if percent := math.Round(100 * (predicted - b.Cycles) / b.Cycles); percent != 0 {
		return fmt.Sprintf("%+.0f %%", percent)
	}
	return "0 %" // not -0
}
