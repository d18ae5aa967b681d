package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	htmlreport "github.com/bbprof/bbprof/cmd/bbprof/internal/model/report"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/stat"
)

// pageBlocks is how many blocks a page shows at most: a browser sorts and searches so many at once, and
// the page stays of a size to send.
const pageBlocks = 2000

func (s *scored) page(files []string) *htmlreport.Page {
	t := s.truth
	p := &htmlreport.Page{
		Title: "Measured blocks", Made: fmt.Sprintf("Written by bbprof %s from %s.", versionText(), strings.Join(files, ", ")),
		Facts:  s.facts(),
		Counts: []htmlreport.Count{{Name: "blocks measured", N: len(t.blocks)}},
		Pairs:  s.pairLines(),
	}
	if t.core.Name != "" {
		p.Title += " on " + t.core.Name
	}
	for _, r := range byCount(t.rejected) {
		p.Reasons = append(p.Reasons, htmlreport.Count{Name: r, N: t.rejected[r]})
	}
	for _, c := range []htmlreport.Count{{Name: "rejected", N: t.rejections()}, {Name: "sensitive to the initial state, left out", N: t.sensitive}, {Name: "rows repeat a block", N: t.repeated}} {
		if c.N > 0 {
			p.Counts = append(p.Counts, c)
		}
	}
	weighted := t.weighted()
	for i := range t.blocks {
		b := &t.blocks[i]
		if b.High > b.Low {
			p.Widths = append(p.Widths, (b.High-b.Low)/2/b.Cycles)
		}
		if weighted {
			p.Weights = append(p.Weights, b.Weight)
		}
	}
	for i := range s.models {
		p.Models = append(p.Models, s.pageModel(i))
	}
	for _, g := range s.groups {
		p.Groupings = append(p.Groupings, pageGrouping(g))
	}
	s.addBlocks(p)
	return p
}

func (s *scored) facts() []htmlreport.Fact {
	run := s.truth.run
	facts := []htmlreport.Fact{
		{Name: "CPU", Value: run.Host.Brand}, {Name: "Core", Value: s.truth.core.Name}, {Name: "Kernel", Value: run.Kernel}, {Name: "Clock", Value: run.Clock},
		{Name: "bbprof", Value: run.Version}, {Name: "Started", Value: run.Started}, {Name: "Inputs", Value: strings.Join(run.Inputs, ", ")}, {Name: "Selftest", Value: run.Selftest},
	}
	if len(run.Workers) > 0 {
		facts = append(facts, htmlreport.Fact{Name: "Workers", Value: fmt.Sprint(len(run.Workers))})
	}
	return slices.DeleteFunc(facts, func(f htmlreport.Fact) bool { return f.Value == "" })
}

func (s *scored) pageModel(i int) htmlreport.Model {
	m, f := &s.models[i], &s.figures[i]
	page := htmlreport.Model{Name: m.Name, Source: m.Source, Baseline: m.Kind != score.Candidate, Blocks: m.Predictions.Len()}
	for k := range m.Predictions.Len() {
		if b, p := &s.truth.blocks[k], m.Predictions.At(k); p.Known() {
			page.Errors = append(page.Errors, score.Error(b, p))
			page.Heat.Add(b.Cycles, p.Cycles)
		}
	}
	names := score.Names()
	note := func(name string, show func(stat.Interval) string) string {
		at := slices.Index(names, name)
		if at < 0 || at >= len(f.Intervals) || math.IsNaN(f.Intervals[at].Low) {
			return ""
		}
		return show(f.Intervals[at])
	}
	share := func(v score.Number, name string) {
		page.Figures = append(page.Figures, htmlreport.Figure{Value: float64(v), Text: percent(v), Note: note(name, spread)})
	}
	share(f.Coverage, "coverage")
	share(f.MAPE, "mape")
	share(f.Excess, "excess")
	share(f.MedianError, "median_error")
	for k, l := range score.Limits() {
		share(f.Within[k], fmt.Sprintf("within_%d", l))
	}
	rank := func(v score.Number, name string) {
		page.Figures = append(page.Figures, htmlreport.Figure{Value: float64(v), Text: correlation(v), Note: note(name, func(in stat.Interval) string {
			return fmt.Sprintf("%.3f–%.3f", in.Low, in.High)
		})})
	}
	rank(f.TauB, "tau_b")
	rank(f.TauBRounded, "tau_b_rounded")
	rank(f.Pearson, "pearson")

	n := failures(m.Predictions)
	for _, why := range byCount(n) {
		page.Failures = append(page.Failures, htmlreport.Count{Name: why, N: n[why]})
	}
	for _, mistake := range s.mistakes[i] {
		line := htmlreport.Mistake{Line: mistakeLine(mistake)}
		for _, o := range mistake.Worst {
			b := s.pageBlock(o.Block)
			b.Predictions, b.Share = []float64{o.Predicted}, percent(o.Share)+" %"
			line.Worst = append(line.Worst, b)
		}
		page.Mistakes = append(page.Mistakes, line)
	}
	return page
}

func pageGrouping(g scoredGrouping) htmlreport.Grouping {
	grouping := htmlreport.Grouping{Name: g.name}
	for _, group := range g.groups {
		row := htmlreport.Group{Name: group.Name, Blocks: len(group.Blocks)}
		for _, f := range group.figures {
			row.MAPE = append(row.MAPE, float64(f.MAPE))
		}
		grouping.Groups = append(grouping.Groups, row)
	}
	return grouping
}

func (s *scored) pageBlock(i int) htmlreport.Block {
	b := &s.truth.blocks[i]
	return htmlreport.Block{Hex: b.Hex, Text: blockText(b.Hex), Category: b.Category, Bound: b.Bound, Evidence: b.Evidence,
		Cycles: b.Cycles, Low: b.Low, High: b.High, Weight: b.Weight}
}

// addBlocks chooses the blocks that a page shows: those with the largest excess error of any model or,
// without models, the least precise.
func (s *scored) addBlocks(p *htmlreport.Page) {
	t := s.truth
	key := make([]float64, len(t.blocks))
	order := make([]int, len(t.blocks))
	candidates := false
	for i := range order {
		order[i] = i
		b := &t.blocks[i]
		for _, m := range s.models {
			if m.Kind == score.Candidate {
				candidates = true
				if p := m.Predictions.At(i); p.Known() {
					key[i] = max(key[i], score.Excess(b, p))
				}
			}
		}
	}
	p.By = "those with the largest excess error"
	if !candidates {
		p.By = "the least precise"
		for i := range key {
			key[i] = (t.blocks[i].High - t.blocks[i].Low) / t.blocks[i].Cycles
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key[b], key[a]) })
	shown := order[:min(pageBlocks, len(order))]
	p.Left = len(order) - len(shown)
	for _, i := range shown {
		b := s.pageBlock(i)
		for _, m := range s.models {
			v := math.NaN()
			if p := m.Predictions.At(i); p.Known() {
				v = p.Cycles
			}
			b.Predictions = append(b.Predictions, v)
		}
		p.Blocks = append(p.Blocks, b)
	}
}
