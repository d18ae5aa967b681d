// Package score compares predictions with measured blocks: how large the errors are and how certain, which of two models
// is better, and which mistakes cost most. It does no I/O. docs/score.md defines every figure.
//
// Weights, if present, apply to every test, every list of mistakes and every figure but the correlations. Errors are
// shares of the measured cycles. [Figures.Excess] leaves out errors within the measurement's interval, which are not the
// model's.
package score

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
)

type Block struct {
	Hex       string
	Cycles    float64
	Low, High float64 // the interval; both are Cycles without one
	Weight    float64 // 0 for all: each counts once

	Application  string // or its file
	Line         string // file:line of its source, "" if unknown
	Category     string
	Bound        string // its limit: measured, or from the core's widths
	Instructions int
	Evidence     string // of the measurement's conditions
	Forwards     bool   // a load reads a store of the block
}

// Precision returns the half-width of the interval, as a share.
func (b Block) Precision() Number { return Number((b.High - b.Low) / 2 / b.Cycles) }

type Prediction struct {
	Cycles  float64
	Failure string
	Died    bool // the tool failed on this block alone
}

func Failed(why string) Prediction { return Prediction{Cycles: math.NaN(), Failure: why} }

// Known reports whether there is a prediction that a block can take.
func (p Prediction) Known() bool { return p.Cycles > 0 && p.Cycles <= profiler.MostCycles }

func (p Prediction) MarshalJSON() ([]byte, error) { return Number(p.Cycles).MarshalJSON() }

type Model struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Source is the predictions' origin.
	Source      string       `json:"source"`
	Predictions []Prediction `json:"-"`
}

type Kind string

const (
	Candidate Kind = "model"
	Bound     Kind = "bound" // a lower bound, which a model should beat
	Again     Kind = "again" // the blocks measured once more: the noise floor
)

// limits are the error limits in percent, see Figures.Within.
var limits = [...]int{1, 5, 10, 25}

type Figures struct {
	Blocks    int `json:"blocks"`    // measured
	Predicted int `json:"predicted"` // of them

	Coverage     Number              `json:"coverage"`          // share predicted
	MAPE         Number              `json:"mape"`              // mean |m − p| / m
	MAPEWeighted Number              `json:"mape_weighted"`     // the same, if blocks have weights
	MAPEFailures Number              `json:"mape_failures_100"` // a failure counted as an error of 100 %
	MedianError  Number              `json:"median_error"`
	TauB         Number              `json:"tau_b"`
	TauBRounded  Number              `json:"tau_b_rounded"` // of values rounded to Step
	Pearson      Number              `json:"pearson"`
	Within       Shares              `json:"within"`
	Excess       Number              `json:"excess"` // mean error outside the interval
	Intervals    map[string]Interval `json:"intervals"`
	Half         *Half               `json:"half_of_mape,omitempty"`
}

// Half is the fewest blocks that make up half of a mean error, if few.
type Half struct {
	Blocks int    `json:"blocks"`
	Share  Number `json:"share"` // of the mean
}

// few is the share of blocks that counts as few.
const few = 0.02

// half finds the largest errors that make up half of the sum, or nil if they are not few or it is 0.
func (s *sample) half() *Half {
	var sorted []float64
	for _, i := range s.byError {
		sorted = append(sorted, s.all[i].weight*s.all[i].err)
	}
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	total, sum := 0.0, 0.0
	for _, e := range sorted {
		total += e
	}
	for i, e := range sorted {
		switch sum += e; {
		case total == 0, float64(i+1) > few*float64(len(sorted)):
			return nil
		case sum >= total/2:
			return &Half{i + 1, Number(sum / total)}
		}
	}
	return nil
}

// String warns about the mean; "" if it need not.
func (h *Half) String() string {
	switch {
	case h == nil:
		return ""
	case h.Blocks == 1:
		return fmt.Sprintf("1 block is %s %% of this mean", h.Share.Percent())
	}
	return fmt.Sprintf("%d blocks are %s %% of this mean", h.Blocks, h.Share.Percent())
}

type Shares [len(limits)]Number

// MarshalJSON names each share by its limit.
func (s Shares) MarshalJSON() ([]byte, error) {
	by := map[string]Number{}
	for i, l := range limits {
		by[strconv.Itoa(l)] = s[i]
	}
	return json.Marshal(by)
}

// Interval is two numbers in JSON.
type Interval stat.Interval

// MarshalJSON writes missing numbers as null.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal([]Number{Number(i.Low), Number(i.High)})
}

// rounding is the slack for errors exactly at a limit: 2.2 is within 10 % of 2.
const rounding = 1e-12

// Step is the rounding of TauBRounded. Smaller differences are mostly noise.
const Step = 0.05

// Number is a figure; in JSON a missing one is null.
type Number float64

// MarshalJSON writes numbers that are not finite as null.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 10, 64), nil
}

// A figure is one of Figures.
type figure struct {
	name, head  string  // in JSON; above a column of a table, "" if no table has it
	least, most float64 // possible: scaled resamples can put an interval's ends outside
	of          func(*Figures) *Number
}

// figures are all figures, in the order of tables.
var figures = func() []figure {
	any := math.Inf(1)
	list := []figure{
		{"coverage", "covered", 0, 1, func(f *Figures) *Number { return &f.Coverage }},
		{"mape", "MAPE", 0, any, func(f *Figures) *Number { return &f.MAPE }},
		{"mape_weighted", "", 0, any, func(f *Figures) *Number { return &f.MAPEWeighted }},
		{"excess", "excess", 0, any, func(f *Figures) *Number { return &f.Excess }},
		{"median_error", "median", 0, any, func(f *Figures) *Number { return &f.MedianError }},
	}
	for i, l := range limits {
		list = append(list, figure{fmt.Sprint("within_", l), fmt.Sprintf("≤ %d %%", l), 0, 1, func(f *Figures) *Number { return &f.Within[i] }})
	}
	return append(list,
		figure{"tau_b", "tau-b", -1, 1, func(f *Figures) *Number { return &f.TauB }},
		figure{"tau_b_rounded", "rounded", -1, 1, func(f *Figures) *Number { return &f.TauBRounded }},
		figure{"pearson", "Pearson", -1, 1, func(f *Figures) *Number { return &f.Pearson }},
		figure{"mape_failures_100", "failures = 100 %", 0, any, func(f *Figures) *Number { return &f.MAPEFailures }})
}()

// A Cell is a figure in a table: in percent, but correlations.
type Cell struct {
	Head, Text, Interval string // "" without an interval
	Value                Number
}

func (f *Figures) Cells() (list []Cell) {
	for _, g := range figures {
		format, value := Number.Percent, *g.of(f)
		if g.least < 0 {
			format = Number.Correlation
		}
		c := Cell{Head: g.head, Text: format(value), Value: value}
		if in, known := f.Intervals[g.name]; known {
			c.Interval = format(Number(in.Low)) + "–" + format(Number(in.High))
		}
		if g.head != "" {
			list = append(list, c)
		}
	}
	return list
}

// Of computes a model's figures on the blocks of subset, with the intervals of correlations only if asked for.
func Of(blocks []Block, predictions []Prediction, subset []int, correlated bool, seed uint64) Figures {
	s := newSample(blocks, predictions, subset)
	all := make([]int, len(subset))
	for i := range all {
		all[i] = i
	}
	estimate := s.estimate(all, true)
	f := Figures{Blocks: len(subset), Predicted: len(s.byError), Half: s.half(), Intervals: map[string]Interval{}}
	for i, g := range figures {
		*g.of(&f) = Number(estimate[i])
	}
	if len(subset) > 0 {
		most := 1000 // blocks of a resample; larger ones would take longer, and the spread is scaled
		if correlated {
			most = 4000
		}
		all := stat.Bootstrap(len(subset), most, estimate, seed, func(indices []int) []float64 { return s.estimate(indices, correlated) })
		for i, g := range figures {
			if !math.IsNaN(all[i].Low) {
				f.Intervals[g.name] = Interval{Low: max(g.least, all[i].Low), High: min(g.most, all[i].High)}
			}
		}
	}
	return f
}

type observation struct{ measured, predicted, err, excess, weight float64 }

type sample struct {
	all      []observation
	weighted bool
	byError  []int // indices of predicted blocks, by error
	// Buffers kept between resamples.
	x, y, rx, ry, times []float64
}

func Weighted(blocks []Block) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool { return b.Weight > 0 })
}

func newSample(blocks []Block, predictions []Prediction, subset []int) *sample {
	s := &sample{weighted: Weighted(blocks), times: make([]float64, len(subset))}
	for n, i := range subset {
		b, p := &blocks[i], predictions[i]
		o := observation{b.Cycles, math.NaN(), math.NaN(), math.NaN(), 1}
		if p.Known() {
			o.predicted, o.err, o.excess = p.Cycles, Error(b, p), Excess(b, p)
			s.byError = append(s.byError, n)
		}
		if s.weighted {
			o.weight = b.Weight
		}
		s.all = append(s.all, o)
	}
	slices.SortStableFunc(s.byError, func(a, b int) int { return cmp.Compare(s.all[a].err, s.all[b].err) })
	return s
}

func Error(b *Block, p Prediction) float64 { return math.Abs(b.Cycles-p.Cycles) / b.Cycles }

// Excess returns the relative error outside the interval.
func Excess(b *Block, p Prediction) float64 {
	return max(0, b.Low-p.Cycles, p.Cycles-b.High) / b.Cycles
}

// estimate computes the figures of some observations, in the order of figures; correlations are NaN unless asked for.
func (s *sample) estimate(indices []int, correlated bool) []float64 {
	var (
		all, known, sum, excess float64 // known: the weight of the predicted
		within                  [len(limits)]float64
	)
	s.x, s.y, s.rx, s.ry = s.x[:0], s.y[:0], s.rx[:0], s.ry[:0]
	clear(s.times)
	for _, i := range indices {
		o := &s.all[i]
		all += o.weight
		if math.IsNaN(o.err) {
			continue
		}
		s.times[i] += o.weight
		known += o.weight
		sum += o.weight * o.err
		excess += o.weight * o.excess
		for k, l := range limits {
			if o.err <= float64(l)/100+rounding {
				within[k] += o.weight
			}
		}
		if correlated {
			s.x, s.y = append(s.x, o.measured), append(s.y, o.predicted)
			s.rx, s.ry = append(s.rx, math.Round(o.measured/Step)), append(s.ry, math.Round(o.predicted/Step))
		}
	}
	weighted := math.NaN()
	if s.weighted {
		weighted = sum / known
	}
	v := []float64{known / all, sum / known, weighted, excess / known, s.median(known)}
	for _, w := range within {
		v = append(v, w/known)
	}
	if correlated {
		v = append(v, stat.Kendall(s.x, s.y), stat.Kendall(s.rx, s.ry), stat.Pearson(s.x, s.y))
	} else {
		v = append(v, math.NaN(), math.NaN(), math.NaN())
	}
	return append(v, (sum+all-known)/all)
}

// median returns the median error weighted by s.times, or the mean of the two middle ones.
func (s *sample) median(known float64) float64 {
	below, lower := 0.0, math.NaN()
	for _, i := range s.byError {
		if s.times[i] == 0 {
			continue
		}
		if !math.IsNaN(lower) {
			return (lower + s.all[i].err) / 2
		}
		switch below += s.times[i]; {
		case below > known/2*(1+rounding):
			return s.all[i].err
		case below >= known/2*(1-rounding):
			lower = s.all[i].err
		}
	}
	return lower
}

// Pair is a paired test of two models on blocks that both predict.
type Pair struct {
	A          string   `json:"a"`
	B          string   `json:"b"`
	Blocks     int      `json:"blocks"`
	Difference Number   `json:"mape_difference"` // mean error of A minus B's: above 0, B is better
	Interval   Interval `json:"interval"`        // of Difference
	P          Number   `json:"p_adjusted"`      // for the number of pairs (Holm)
	BetterA    int      `json:"better_a"`        // blocks on which A is closer, beyond the interval
	BetterB    int      `json:"better_b"`
}

func pairs(blocks []Block, models []Model) (pairs []Pair) {
	models = slices.DeleteFunc(slices.Clone(models), func(m Model) bool { return m.Kind == Again })
	var ps []float64
	for i := range models {
		for j := i + 1; j < len(models); j++ {
			pair := pairOf(blocks, &models[i], &models[j])
			pairs = append(pairs, pair)
			ps = append(ps, float64(pair.P))
		}
	}
	for i, p := range stat.Holm(ps) {
		pairs[i].P = Number(p)
	}
	return pairs
}

func pairOf(blocks []Block, a, b *Model) Pair {
	pair := Pair{A: a.Name, B: b.Name}
	weighted := Weighted(blocks)
	var differences, weights []float64
	for i := range blocks {
		p, q := a.Predictions[i], b.Predictions[i]
		if !p.Known() || !q.Known() {
			continue
		}
		differences = append(differences, Error(&blocks[i], p)-Error(&blocks[i], q))
		if weighted {
			weights = append(weights, blocks[i].Weight)
		}
		switch x, y := Excess(&blocks[i], p), Excess(&blocks[i], q); {
		case x < y:
			pair.BetterA++
		case x > y:
			pair.BetterB++
		}
	}
	test := stat.OneSample(weightedDifferences(differences, weights))
	pair.Blocks, pair.Difference, pair.P = len(differences), Number(test.Mean), Number(test.P)
	pair.Interval = Interval{Low: test.Low, High: test.High}
	return pair
}

// weightedDifferences returns values with the weighted mean of differences and its standard error by linearisation
// (Cochran, Sampling Techniques, 1977, section 2.11).
func weightedDifferences(differences, weights []float64) []float64 {
	if weights == nil {
		return differences
	}
	sum, total := 0.0, 0.0
	for i, w := range weights {
		sum, total = sum+w*differences[i], total+w
	}
	mean := sum / total
	list := make([]float64, len(weights))
	for i, w := range weights {
		list[i] = mean + w*(differences[i]-mean)*float64(len(weights))/total
	}
	return list
}
