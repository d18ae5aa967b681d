package score

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
)

// Report is what models are worth on some blocks. Its JSON is what bbprof score -json writes.
type Report struct {
	Core      string         `json:"core"`
	Rows      int            `json:"rows"`
	Blocks    int            `json:"blocks"`
	Repeated  int            `json:"repeated"` // rows with a block that came before
	Rejected  map[string]int `json:"rejected"` // not measured, by reason
	Sensitive int            `json:"state_sensitive"`
	Weight    string         `json:"weight"` // the column that blocks count by, or none
	Models    []Judged       `json:"models"`
	Pairs     []Pair         `json:"comparisons"`
	// Groupings are the properties by which the blocks fall into several groups.
	Groupings []Grouped `json:"-"`
}

// Judged is what one model is worth.
type Judged struct {
	Model
	Figures
	Failures map[string]int            `json:"failures"` // by the reason
	Groups   map[string][]GroupFigures `json:"groups"`   // by property, in the order of Grouped.Groups
	Mistakes []Mistake                 `json:"mistakes,omitempty"`
	Worst    []Offender                `json:"worst_blocks,omitempty"` // whatever they have in common
}

// Unweighted is the column of weights where each block counts once.
const Unweighted = "none"

// Weighting says how blocks count, for figures, tests and lists alike.
func (r *Report) Weighting() string {
	if r.Weight == Unweighted {
		return "Each block counts once (-weight none)."
	}
	return fmt.Sprintf("Blocks count by column %s (-weight), in all but the correlations.", r.Weight)
}

// Grouped is the blocks by one property.
type Grouped struct {
	Name   string
	Groups []Group
}

// GroupFigures are a model's figures of one group.
type GroupFigures struct {
	Group string `json:"group"`
	Figures
}

const maxMistakes = 10

// Judge judges models. worst is how many blocks to list of each, 0 for a few of each mistake; parallel calls a
// function for 0 to n-1.
func (r *Report) Judge(blocks []Block, models []Model, seed uint64, worst int, parallel func(n int, do func(i int))) {
	all := make([]int, len(blocks))
	for i := range all {
		all[i] = i
	}
	r.Blocks, r.Models, r.Pairs = len(blocks), make([]Judged, len(models)), []Pair{}
	for _, g := range Groupings() {
		if groups := g.Split(blocks); len(groups) > 1 {
			r.Groupings = append(r.Groupings, Grouped{g.Name, groups})
		}
	}
	index := NewIndex(blocks, Properties)
	parallel(len(models), func(i int) {
		m := models[i]
		j := Judged{Model: m, Figures: Of(blocks, m.Predictions, all, All, seed), Failures: m.Predictions.failed(), Groups: map[string][]GroupFigures{}}
		for _, g := range r.Groupings {
			for _, group := range g.Groups {
				j.Groups[g.Name] = append(j.Groups[g.Name], GroupFigures{group.Name, Of(blocks, m.Predictions, group.Blocks, Errors, seed)})
			}
		}
		if m.Kind == Candidate {
			each := max(3, (worst+maxMistakes-1)/maxMistakes)
			j.Mistakes = cutOffenders(index.Mistakes(m.Predictions, maxMistakes, each), max(worst, maxMistakes))
			j.Worst = index.worst(m.Predictions, max(worst, maxMistakes))
		}
		r.Models[i] = j
	})
	var candidates []Model
	for _, m := range models {
		if m.Kind != Again {
			candidates = append(candidates, m)
		}
	}
	r.Pairs = append(r.Pairs, Pairs(blocks, candidates)...)
}

// Rejections is how many blocks were not measured.
func (r *Report) Rejections() (n int) {
	for _, rows := range r.Rejected {
		n += rows
	}
	return n
}

// failed counts the blocks that there is no prediction of, by the reason.
func (p Predictions) failed() map[string]int {
	n := map[string]int{}
	for i := range p.Len() {
		if one := p.At(i); !one.Known() {
			n[cmp.Or(one.Failure, "no positive number of cycles")]++
		}
	}
	return n
}

// cutOffenders keeps n blocks of all groups together, of the most expensive groups first one each.
func cutOffenders(mistakes []Mistake, n int) []Mistake {
	left := n
	keep := make([]int, len(mistakes))
	for more := true; more && left > 0; {
		more = false
		for i := range mistakes {
			if left > 0 && keep[i] < len(mistakes[i].Worst) {
				keep[i]++
				left--
				more = true
			}
		}
	}
	for i := range mistakes {
		mistakes[i].Worst = mistakes[i].Worst[:keep[i]]
	}
	return mistakes
}

// Percent is a share in percent with as many digits as it deserves.
func (n Number) Percent() string {
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

// Correlation is a correlation to four decimals.
func (n Number) Correlation() string {
	if math.IsNaN(float64(n)) {
		return "–"
	}
	return fmt.Sprintf("%.4f", float64(n))
}

// Percent is an interval of shares in percent.
func (i Interval) Percent() string {
	if math.IsNaN(i.Low) {
		return "–"
	}
	return Number(i.Low).Percent() + "–" + Number(i.High).Percent()
}

// String is a mistake in a line.
func (m Mistake) String() string {
	if m.What == Others {
		return fmt.Sprintf("%s: %s %% of the error, %d of %d wrong", m.What, m.Share.Percent(), m.Wrong, m.Blocks)
	}
	class := ""
	if m.Class != "" {
		name := m.Class
		if first, _, more := strings.Cut(name, "_"); more && len(name) > 40 { // of all opcodes in it
			name = first + "…"
		}
		class = fmt.Sprintf("; LLVM's class of %s: %s", Text(hex.EncodeToString(m.Example())), name)
	}
	return fmt.Sprintf("%s: %s %% of the error, predicted %s in %d of %s, the median at %.2f of the measured cycles%s",
		m.What, m.Share.Percent(), m.Direction, m.Wrong, words.Plural(m.Blocks, "block"), float64(m.Ratio), class)
}

// String is a comparison in a sentence.
func (p Pair) String() string {
	if p.Blocks < 2 { // one difference has no spread, and so no interval
		return fmt.Sprintf("%s and %s cannot be compared: both predict %s", p.A, p.B, words.Plural(p.Blocks, "block"))
	}
	better, worse, by, in := p.B, p.A, p.Difference, p.Interval
	nearer, further := p.BetterB, p.BetterA
	if by < 0 {
		better, worse, by = p.A, p.B, -by
		in = Interval{Low: -in.High, High: -in.Low}
		nearer, further = p.BetterA, p.BetterB
	}
	outcome, points := fmt.Sprintf("%s is better than %s by", better, worse), "points of MAPE"
	if !(float64(p.P) <= stat.Level) {
		outcome, points = fmt.Sprintf("%s and %s do not differ significantly: %s has", better, worse, better), "points of MAPE less"
	}
	return fmt.Sprintf("%s %s %s (%s to %s, %s adjusted), nearer on %s, further on %d, of %d", outcome,
		by.Percent(), points, Number(in.Low).Percent(), Number(in.High).Percent(), chance(float64(p.P)), words.Plural(nearer, "block"), further, p.Blocks)
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
