package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/verdict"
)

func scoreText(r *score.Report, files string, listed bool) string {
	var w strings.Builder
	w.WriteString(scoreHeadline(r, files))
	writeFigures(&w, r)
	if len(r.Pairs) > 0 {
		w.WriteString("\nPaired, on the blocks that both predict:\n")
	}
	for _, p := range r.Pairs {
		fmt.Fprintf(&w, "  %s\n", p)
	}
	for _, g := range r.Groupings {
		header := []string{"MAPE by " + g.Name, "blocks"}
		for _, m := range r.Models {
			header = append(header, m.Name)
		}
		t := cli.NewTable("lr", header...)
		for i, group := range g.Groups {
			row := []string{group.Name, fmt.Sprint(len(group.Blocks))}
			for _, m := range r.Models {
				row = append(row, m.Groups[g.Name][i].MAPE.Percent())
			}
			t.Row(row...)
		}
		fmt.Fprintf(&w, "\n%s", t)
	}
	for _, m := range r.Models {
		writeFailures(&w, m)
	}
	for _, m := range r.Models {
		writeMistakes(&w, m, listed)
	}
	return w.String()
}

func scoreHeadline(r *score.Report, files string) string {
	on := ""
	if r.Core != "" {
		on = " measured on " + r.Core
	}
	text := fmt.Sprintf("%s: %s%s", files, words.Plural(r.Blocks, "block"), on)
	if n := r.Rejections(); n > 0 {
		text += fmt.Sprintf("; %d rejected", n)
		if busy := r.Rejected[string(verdict.BusyCore)]; busy > 0 {
			text += fmt.Sprintf(", %d of them because the core was busy", busy)
		}
	}
	if r.Sensitive > 0 {
		text += fmt.Sprintf("; %d left out because another initial state or row gives other cycles", r.Sensitive)
	}
	if r.Repeated > 0 {
		text += fmt.Sprintf("; %s with a block that came before", words.Plural(r.Repeated, "row"))
	}
	return text + "\n"
}

func writeFigures(w *strings.Builder, r *score.Report) {
	const mape = 1 // the column before its interval
	header := []string{""}
	for _, c := range new(score.Figures).Cells() {
		header = append(header, c.Head)
	}
	t := cli.NewTable("lr", slices.Insert(header, mape+2, "95 % interval")...)
	for _, m := range r.Models {
		row, cells := []string{m.Name}, m.Cells()
		for _, c := range cells {
			row = append(row, c.Text)
		}
		t.Row(slices.Insert(row, mape+2, cmp.Or(cells[mape].Interval, "–"))...)
	}
	w.WriteString(t.String())
	fmt.Fprintf(w, "All but correlations in percent. Excess: error outside the measurement's interval. %s\n", r.Weighting())
	for _, m := range r.Models {
		if m.Half != nil {
			fmt.Fprintf(w, "%s: MAPE: %s\n", m.Name, m.Half)
		}
		if m.Kind == score.Candidate && m.Source != m.Name {
			fmt.Fprintf(w, "%s: %s\n", m.Name, m.Source)
		}
	}
}

const maxFailures = 8

func writeFailures(w *strings.Builder, m score.ModelResult) {
	if len(m.Failures) == 0 {
		return
	}
	reasons := words.ByCount(m.Failures)
	fmt.Fprintf(w, "\n%s has no prediction of\n", m.Name)
	for _, why := range reasons[:min(maxFailures, len(reasons))] {
		fmt.Fprintf(w, "  %6d  %s\n", m.Failures[why], why)
	}
	if more := len(reasons) - maxFailures; more > 0 {
		fmt.Fprintf(w, "  and others, for %s; -json has all\n", words.Plural(more, "more reason"))
	}
}

// writeMistakes lists a model's mistakes, the costliest first.
func writeMistakes(w *strings.Builder, m score.ModelResult, listed bool) {
	if len(m.Mistakes) == 0 {
		return
	}
	fmt.Fprintf(w, "\nWhere %s is wrong, by share of its excess error:\n", m.Name)
	for i, mistake := range m.Mistakes {
		fmt.Fprintf(w, "%3d. %s\n", i+1, mistake)
		if !listed {
			continue
		}
		writeOffenders(w, mistake.Worst)
	}
	if listed {
		fmt.Fprintf(w, "\nThe worst blocks of %s, by share of its excess error:\n", m.Name)
		writeOffenders(w, m.Worst)
	}
}

func writeOffenders(w *strings.Builder, list []score.Offender) {
	for _, o := range list {
		fmt.Fprintf(w, "       measured %.2f (%.2f–%.2f), predicted %.2f, %s %% of the error: %s\n         %s\n",
			o.Cycles, o.Low, o.High, o.Predicted, o.Share.Percent(), strings.TrimSuffix(o.Hex+" of "+o.Line, " of "), o.Text)
	}
}

// A factor between these in the median is BHive's unit, 100 iterations, for no core takes 40 times its lower bound in the
// median and no model of use is off as far.
const leastUnit, mostUnit = 40, 250

// unitHints tells of cycles that count 100 iterations: a model's, or the truth's where all models are as far below it.
func unitHints(blocks []score.Block, models []score.Model) (hints []string) {
	below := true
	for _, m := range models {
		var factors []float64
		for i, p := range m.Predictions {
			if p.Known() {
				factors = append(factors, p.Cycles/blocks[i].Cycles)
			}
		}
		if len(factors) == 0 || m.Kind == score.Again {
			continue
		}
		factor := stat.Median(factors)
		if m.Kind == score.Candidate && factor >= leastUnit && factor <= mostUnit {
			hints = append(hints, fmt.Sprintf("%s predicts %.0f times what was measured, in the median; if it counts 100 iterations, as BHive's files do, "+
				"write -model %s,scale=0.01", m.Name, factor, m.Source))
		}
		below = below && factor <= 1./leastUnit
	}
	if below && len(models) > 0 {
		hints = append(hints, "the measured cycles are far above every prediction; if they count 100 iterations, as BHive's files do, divide them by 100")
	}
	return hints
}
