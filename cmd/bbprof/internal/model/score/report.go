package score

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/stat"
)

// Report rates models on some blocks. bbprof score -json writes it.
type Report struct {
	Core      string         `json:"core"`
	Rows      int            `json:"rows"`
	Blocks    int            `json:"blocks"`
	Repeated  int            `json:"repeated"` // rows whose block came before
	Rejected  map[string]int `json:"rejected"` // unmeasured, by reason
	Sensitive int            `json:"state_sensitive"`
	Weight    string         `json:"weight"` // column of weights, or none
	Models    []ModelResult  `json:"models"`
	Pairs     []Pair         `json:"comparisons"`
	// Groupings lists the properties that divide the blocks.
	Groupings []Grouping `json:"-"`
}

type ModelResult struct {
	Model
	Figures
	Failures map[string]int            `json:"failures"` // by the reason
	Groups   map[string][]GroupFigures `json:"groups"`   // by property, in the order of Grouping.Groups
	Mistakes []Mistake                 `json:"mistakes,omitempty"`
	Worst    []Offender                `json:"worst_blocks,omitempty"` // whatever they have in common
}

// Unweighted means that each block counts once.
const Unweighted = "none"

// Weighting says how blocks count, in figures, tests and lists alike.
func (r *Report) Weighting() string {
	if r.Weight == Unweighted {
		return "Each block counts once (-weight none)."
	}
	return fmt.Sprintf("Blocks count by column %s (-weight), in all but the correlations.", r.Weight)
}

type GroupFigures struct {
	Group string `json:"group"`
	Figures
}

const maxMistakes = 10

// Judge rates models. worst is how many blocks to list per model, 0 for a few of each mistake.
func (r *Report) Judge(blocks []Block, models []Model, seed uint64, worst int) {
	all := make([]int, len(blocks))
	for i := range all {
		all[i] = i
	}
	r.Blocks, r.Models, r.Pairs = len(blocks), make([]ModelResult, len(models)), []Pair{}
	r.Groupings = slices.DeleteFunc(groupings(blocks), func(g Grouping) bool { return len(g.Groups) < 2 })
	index := newIndex(blocks, Properties)
	var working sync.WaitGroup
	for i, m := range models {
		working.Go(func() {
			j := &r.Models[i]
			*j = ModelResult{Model: m, Figures: Of(blocks, m.Predictions, all, true, seed), Failures: failed(m.Predictions),
				Groups: map[string][]GroupFigures{}}
			for _, g := range r.Groupings {
				for _, group := range g.Groups {
					j.Groups[g.Name] = append(j.Groups[g.Name], GroupFigures{group.Name, Of(blocks, m.Predictions, group.Blocks, false, seed)})
				}
			}
			if m.Kind == Candidate {
				j.Mistakes, j.Worst = index.Mistakes(m.Predictions, maxMistakes, max(3, worst/maxMistakes), max(worst, maxMistakes))
			}
		})
	}
	working.Wait()
	r.Pairs = append(r.Pairs, pairs(blocks, models)...)
}

func (r *Report) Rejections() (n int) {
	for _, rows := range r.Rejected {
		n += rows
	}
	return n
}

func failed(predictions []Prediction) map[string]int {
	n := map[string]int{}
	for _, p := range predictions {
		if !p.Known() {
			n[cmp.Or(p.Failure, "no positive number of cycles")]++
		}
	}
	return n
}

// Percent formats a share in percent, with fitting precision.
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

// Correlation formats a correlation to four decimals.
func (n Number) Correlation() string {
	if math.IsNaN(float64(n)) {
		return "–"
	}
	return fmt.Sprintf("%.4f", float64(n))
}

func (m Mistake) String() string {
	if m.What == Others {
		return fmt.Sprintf("%s: %s %% of the error, %d of %d wrong", m.What, m.Share.Percent(), m.Wrong, m.Blocks)
	}
	class := ""
	if m.Class != "" {
		name := m.Class
		if first, _, more := strings.Cut(name, "_"); more && len(name) > 40 { // it lists all its opcodes
			name = first + "…"
		}
		class = fmt.Sprintf("; LLVM's class of %s: %s", Text(hex.EncodeToString(m.Example())), name)
	}
	return fmt.Sprintf("%s: %s %% of the error, predicted %s in %d of %s, the median at %.2f of the measured cycles%s",
		m.What, m.Share.Percent(), m.Direction, m.Wrong, words.Plural(m.Blocks, "block"), float64(m.Ratio), class)
}

func (p Pair) String() string {
	if p.Blocks < 2 { // one difference has no interval
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

// chance formats a p-value. Tiny ones depend on the tails of the distribution, which is only nearly Student's.
func chance(p float64) string {
	const tiny = 1e-9
	if p < tiny {
		return fmt.Sprintf("p < %g", tiny)
	}
	return fmt.Sprintf("p = %.2g", p)
}
