package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/model/score"
	"github.com/bbprof/bbprof/internal/stat"
)

type scoreJSON struct {
	Core        string         `json:"core"`
	Rows        int            `json:"rows"`
	Blocks      int            `json:"blocks"`
	Repeated    int            `json:"repeated"`
	Rejected    map[string]int `json:"rejected"`
	Sensitive   int            `json:"state_sensitive"`
	Models      []modelJSON    `json:"models"`
	Comparisons []pairJSON     `json:"comparisons"`
}

type modelJSON struct {
	Name   string     `json:"name"`
	Kind   score.Kind `json:"kind"`
	Source string     `json:"source"`
	figuresJSON
	Failures map[string]int         `json:"failures"`
	Groups   map[string][]groupJSON `json:"groups"`
	Mistakes []mistakeJSON          `json:"mistakes,omitempty"`
}

// figuresJSON names the figures as package score does.
type figuresJSON struct {
	Blocks          int                     `json:"blocks"`
	Predicted       int                     `json:"predicted"`
	Coverage        score.Number            `json:"coverage"`
	MAPE            score.Number            `json:"mape"`
	MAPEWeighted    score.Number            `json:"mape_weighted"`
	MAPEFailures100 score.Number            `json:"mape_failures_100"`
	MedianError     score.Number            `json:"median_error"`
	TauB            score.Number            `json:"tau_b"`
	TauBRounded     score.Number            `json:"tau_b_rounded"`
	Pearson         score.Number            `json:"pearson"`
	Within          map[string]score.Number `json:"within"`
	Excess          score.Number            `json:"excess"`
	Intervals       map[string]interval     `json:"intervals"`
}

type groupJSON struct {
	Group string `json:"group"`
	figuresJSON
}

type mistakeJSON struct {
	What      string         `json:"what"`
	Direction string         `json:"direction"`
	Blocks    int            `json:"blocks"`
	Wrong     int            `json:"wrong"`
	Share     score.Number   `json:"share_of_error"`
	Removed   score.Number   `json:"removed"`
	Ratio     score.Number   `json:"median_ratio"`
	Worst     []offenderJSON `json:"worst"`
}

type offenderJSON struct {
	Hex       string       `json:"hex"`
	Text      string       `json:"text"`
	Cycles    float64      `json:"cycles"`
	Low       float64      `json:"ci_low"`
	High      float64      `json:"ci_high"`
	Predicted float64      `json:"predicted"`
	Excess    float64      `json:"excess"`
	Share     score.Number `json:"share_of_error"`
}

type pairJSON struct {
	A          string       `json:"a"`
	B          string       `json:"b"`
	Blocks     int          `json:"blocks"`
	Difference score.Number `json:"mape_difference"`
	Interval   interval     `json:"interval"`
	P          score.Number `json:"p_adjusted"`
	BetterA    int          `json:"better_a"`
	BetterB    int          `json:"better_b"`
}

func figuresOf(f *score.Figures) figuresJSON {
	j := figuresJSON{Blocks: f.Blocks, Predicted: f.Predicted, Coverage: f.Coverage, MAPE: f.MAPE, MAPEWeighted: f.MAPEWeighted,
		MAPEFailures100: f.MAPEFailures, MedianError: f.MedianError, TauB: f.TauB, TauBRounded: f.TauBRounded, Pearson: f.Pearson,
		Within: map[string]score.Number{}, Excess: f.Excess, Intervals: map[string]interval{}}
	for i, l := range score.Limits() {
		j.Within[fmt.Sprint(l)] = f.Within[i]
	}
	for i, name := range score.Names() {
		if i < len(f.Intervals) && !math.IsNaN(f.Intervals[i].Low) {
			j.Intervals[name] = intervalOf(f.Intervals[i])
		}
	}
	return j
}

func (s *scored) json() scoreJSON {
	t := s.truth
	j := scoreJSON{Core: t.core.Name, Rows: t.rows, Blocks: len(t.blocks), Repeated: t.repeated, Rejected: t.rejected, Sensitive: t.sensitive,
		Models: []modelJSON{}, Comparisons: []pairJSON{}}
	for i, m := range s.models {
		model := modelJSON{Name: m.Name, Kind: m.Kind, Source: m.Source, figuresJSON: figuresOf(&s.figures[i]), Failures: failures(m.Predictions),
			Groups: map[string][]groupJSON{}}
		for _, g := range s.groups {
			for _, group := range g.groups {
				model.Groups[g.name] = append(model.Groups[g.name], groupJSON{group.Name, figuresOf(&group.figures[i])})
			}
		}
		for _, mistake := range s.mistakes[i] {
			model.Mistakes = append(model.Mistakes, s.mistakeJSON(mistake))
		}
		j.Models = append(j.Models, model)
	}
	for _, p := range s.pairs {
		j.Comparisons = append(j.Comparisons, pairJSON{p.A, p.B, p.Blocks, score.Number(p.Difference), intervalOf(p.Interval), score.Number(p.P), p.BetterA, p.BetterB})
	}
	return j
}

func (s *scored) mistakeJSON(m score.Mistake) mistakeJSON {
	j := mistakeJSON{What: m.What, Direction: m.Direction(), Blocks: m.Blocks, Wrong: m.Wrong, Share: m.Share, Removed: m.Removed, Ratio: m.Ratio}
	for _, o := range m.Worst {
		b := &s.truth.blocks[o.Block]
		j.Worst = append(j.Worst, offenderJSON{b.Hex, blockText(b.Hex), b.Cycles, b.Low, b.High, o.Predicted, o.Excess, o.Share})
	}
	return j
}

func failures(predictions score.Predictions) map[string]int {
	n := map[string]int{}
	for i := range predictions.Len() {
		if p := predictions.At(i); !p.Known() {
			n[cmp.Or(p.Failure, "no positive number of cycles")]++
		}
	}
	return n
}

func blockText(text string) string {
	insts, err := asm.DecodeHex(text)
	if err != nil {
		return ""
	}
	var list []string
	for i := range insts {
		list = append(list, insts[i].Text())
	}
	return strings.Join(list, "; ")
}

func (s *scored) text(files []string) string {
	var w strings.Builder
	w.WriteString(s.headline(files))
	s.writeFigures(&w)
	s.writePairs(&w)
	for _, g := range s.groups {
		s.writeGrouping(&w, g)
	}
	for i := range s.models {
		s.writeFailures(&w, i)
	}
	for i := range s.models {
		s.writeMistakes(&w, i)
	}
	return w.String()
}

func (s *scored) headline(files []string) string {
	t := s.truth
	on := ""
	if t.core.Name != "" {
		on = " measured on " + t.core.Name
	}
	text := fmt.Sprintf("%s: %s%s", strings.Join(files, ", "), plural(len(t.blocks), "block"), on)
	for _, part := range []struct {
		n    int
		what string
	}{{t.rejections(), "rejected"}, {t.sensitive, "left out because sensitive to the initial state"}, {t.repeated, "rows with a block that came before"}} {
		if part.n > 0 {
			text += fmt.Sprintf("; %d %s", part.n, part.what)
		}
	}
	return text + "\n"
}

// percent writes a share with as many digits as it deserves.
func percent(n score.Number) string {
	v := 100 * float64(n)
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) < 1:
		return fmt.Sprintf("%.2f", v)
	case math.Abs(v) < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func correlation(n score.Number) string {
	if math.IsNaN(float64(n)) {
		return "–"
	}
	return fmt.Sprintf("%.4f", float64(n))
}

func spread(i stat.Interval) string {
	return percent(score.Number(max(0, i.Low))) + "–" + percent(score.Number(i.High))
}

func (s *scored) writeFigures(w *strings.Builder) {
	weighted := s.truth.weighted()
	header := []string{"", "covered", "MAPE", "95 % interval", "excess", "median"}
	if weighted {
		header = append(header, "weighted")
	}
	for _, l := range score.Limits() {
		header = append(header, fmt.Sprintf("≤ %d %%", l))
	}
	t := newTable("lr", append(header, "tau-b", "rounded", "Pearson", "failures = 100 %")...)
	mape := slices.Index(score.Names(), "mape")
	for i := range s.models {
		f := &s.figures[i]
		row := []string{s.models[i].Name, percent(f.Coverage), percent(f.MAPE), spread(f.Intervals[mape]), percent(f.Excess), percent(f.MedianError)}
		if weighted {
			row = append(row, percent(f.MAPEWeighted))
		}
		for _, within := range f.Within {
			row = append(row, percent(within))
		}
		t.row(append(row, correlation(f.TauB), correlation(f.TauBRounded), correlation(f.Pearson), percent(f.MAPEFailures))...)
	}
	w.WriteString(t.String())
	w.WriteString("All but correlations in percent. Excess: error outside the measurement's interval.\n")
}

func (s *scored) writePairs(w *strings.Builder) {
	if len(s.pairs) == 0 {
		return
	}
	w.WriteString("\nPaired, on the blocks that both predict:\n")
	for _, line := range s.pairLines() {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

// chance writes a p-value. What is tiny depends on the tails of the distribution, which is only nearly
// Student's.
func chance(p float64) string {
	const tiny = 1e-9
	if p < tiny {
		return fmt.Sprintf("p < %g", tiny)
	}
	return fmt.Sprintf("p = %.2g", p)
}

// pairLines are the comparisons of models, a sentence each.
func (s *scored) pairLines() (lines []string) {
	for _, p := range s.pairs {
		better, worse, by, in := p.B, p.A, p.Difference, p.Interval
		nearer, further := p.BetterB, p.BetterA
		if by < 0 {
			better, worse, by = p.A, p.B, -by
			in = stat.Interval{Low: -p.Interval.High, High: -p.Interval.Low}
			nearer, further = p.BetterA, p.BetterB
		}
		outcome, points := fmt.Sprintf("%s is better than %s by", better, worse), "points of MAPE"
		if !(p.P <= stat.Level) {
			outcome, points = fmt.Sprintf("%s and %s do not differ significantly: %s has", better, worse, better), "points of MAPE less"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s (%s to %s, %s adjusted), nearer on %s, further on %d, of %d", outcome,
			percent(score.Number(by)), points, percent(score.Number(in.Low)), percent(score.Number(in.High)), chance(p.P), plural(nearer, "block"), further, p.Blocks))
	}
	return lines
}

func (s *scored) writeGrouping(w *strings.Builder, g scoredGrouping) {
	header := []string{"MAPE by " + g.name, "blocks"}
	for _, m := range s.models {
		header = append(header, m.Name)
	}
	w.WriteString("\n")
	t := newTable("lr", header...)
	for _, group := range g.groups {
		row := []string{group.Name, fmt.Sprint(len(group.Blocks))}
		for i := range s.models {
			row = append(row, percent(group.figures[i].MAPE))
		}
		t.row(row...)
	}
	w.WriteString(t.String())
}

const maxFailures = 8

func (s *scored) writeFailures(w *strings.Builder, model int) {
	n := failures(s.models[model].Predictions)
	if len(n) == 0 {
		return
	}
	reasons := byCount(n)
	fmt.Fprintf(w, "\n%s has no prediction of\n", s.models[model].Name)
	for _, r := range reasons[:min(maxFailures, len(reasons))] {
		fmt.Fprintf(w, "  %6d  %s\n", n[r], r)
	}
	if more := len(reasons) - maxFailures; more > 0 {
		fmt.Fprintf(w, "  and others, for %s; -json has all\n", plural(more, "more reason"))
	}
}

// writeMistakes lists a model's mistakes, the most expensive first.
func (s *scored) writeMistakes(w *strings.Builder, model int) {
	if len(s.mistakes[model]) == 0 {
		return
	}
	fmt.Fprintf(w, "\nWhere %s is wrong, by share of its excess error:\n", s.models[model].Name)
	for i, m := range s.mistakes[model] {
		fmt.Fprintf(w, "%3d. %s\n", i+1, mistakeLine(m))
		if s.worst == 0 {
			continue
		}
		for _, o := range m.Worst {
			b := &s.truth.blocks[o.Block]
			fmt.Fprintf(w, "       measured %.2f (%.2f–%.2f), predicted %.2f, %s %% of the error: %s\n         %s\n",
				b.Cycles, b.Low, b.High, o.Predicted, percent(o.Share), b.Hex, blockText(b.Hex))
		}
	}
}

func mistakeLine(m score.Mistake) string {
	if m.What == score.Others {
		return fmt.Sprintf("%s: %s %% of the error, %d of %d wrong", m.What, percent(m.Share), m.Wrong, m.Blocks)
	}
	return fmt.Sprintf("%s: %s %% of the error, predicted %s in %d of %d blocks, the median at %.2f of the measured cycles",
		m.What, percent(m.Share), m.Direction(), m.Wrong, m.Blocks, float64(m.Ratio))
}
