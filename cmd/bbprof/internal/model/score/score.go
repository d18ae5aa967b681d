// Package score judges models by measured blocks: how far predictions are off, how sure that is, which
// of two models is better, and which mistakes cost a model most. It is pure. docs/score.md defines
// every figure.
//
// Where blocks have weights, they count by them in every figure but the correlations, in every test and in every list of
// mistakes. All errors are shares of the measured cycles. What lies within a measurement's interval is no
// error that can be blamed on a model; [Figures.Excess] leaves it out.
package score

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/internal/stat"
)

// Block is a measured block and what is known of it.
type Block struct {
	Hex       string
	Cycles    float64
	Low, High float64 // the interval; both Cycles where there is none
	Weight    float64 // 0 of all blocks: each counts once

	Application  string // or the file it comes from
	Category     string
	Bound        string // what limits it: measured, or else by the widths of the core
	Instructions int
	Evidence     string // how sure the conditions of the measurement are
	Forwards     bool   // a load takes its value from a store of the block
}

// Prediction is what a model says of a block. Failure says why it says nothing.
type Prediction struct {
	Cycles  float64
	Failure string
	Died    bool // the tool failed at this block alone, instead of answering
}

// Failed is a prediction that there is not.
func Failed(why string) Prediction { return Prediction{Cycles: math.NaN(), Failure: why} }

// Known reports whether there is a prediction. No block takes zero cycles.
func (p Prediction) Known() bool { return p.Cycles > 0 && !math.IsInf(p.Cycles, 1) }

// Model is the predictions of one model, in the order of the blocks.
type Model struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Source says where the predictions are from.
	Source      string      `json:"source"`
	Predictions Predictions `json:"-"`
}

// Predictions are those of many blocks. Numbers stand apart from texts, of which there are few.
type Predictions struct {
	cycles   []float64
	failures map[int]string
}

// Collect keeps predictions.
func Collect(list []Prediction) Predictions {
	c := Predictions{cycles: make([]float64, len(list)), failures: map[int]string{}}
	for i, p := range list {
		c.cycles[i] = p.Cycles
		if p.Failure != "" {
			c.failures[i] = p.Failure
		}
	}
	return c
}

func (p Predictions) Len() int { return len(p.cycles) }

func (p Predictions) At(i int) Prediction {
	q := Prediction{Cycles: p.cycles[i]}
	if !q.Known() {
		q.Failure = p.failures[i]
	}
	return q
}

// Kind tells models from what they are compared with.
type Kind string

const (
	Candidate Kind = "model"
	Bound     Kind = "bound" // a lower bound, which every model should beat
	Again     Kind = "again" // the blocks measured once more: the noise floor
)

// limits are the errors, in percent, whose shares are given.
var limits = [...]int{1, 5, 10, 25}

// Figures say how good a model is on some blocks.
type Figures struct {
	Blocks    int `json:"blocks"`    // measured
	Predicted int `json:"predicted"` // of these

	Coverage     Number    `json:"coverage"`          // share predicted
	MAPE         Number    `json:"mape"`              // mean |m − p| / m
	MAPEWeighted Number    `json:"mape_weighted"`     // the same where blocks have weights, else none
	MAPEFailures Number    `json:"mape_failures_100"` // a failure counted as an error of 100 %
	MedianError  Number    `json:"median_error"`
	TauB         Number    `json:"tau_b"`
	TauBRounded  Number    `json:"tau_b_rounded"` // of values rounded to Step
	Pearson      Number    `json:"pearson"`
	Within       Shares    `json:"within"`
	Excess       Number    `json:"excess"` // mean error outside the interval
	Intervals    Intervals `json:"intervals"`
	Half         *Half     `json:"half_of_mape,omitempty"`
}

// Half is the fewest blocks that are half of a mean error, where they are few.
type Half struct {
	Blocks int    `json:"blocks"`
	Share  Number `json:"share"` // of the mean
}

// few is the share of the blocks that are called few.
const few = 0.02

// half finds the largest errors that are half of their sum, nil where these are not few.
func (s *sample) half() *Half {
	sorted := make([]float64, len(s.err))
	for i := range sorted {
		sorted[i] = s.weight[i] * s.err[i]
	}
	sorted = slices.DeleteFunc(sorted, math.IsNaN)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	total, sum := 0.0, 0.0
	for _, e := range sorted {
		total += e
	}
	for i, e := range sorted {
		switch sum += e; {
		case float64(i+1) > few*float64(len(sorted)):
			return nil
		case sum >= total/2:
			return &Half{i + 1, Number(sum / total)}
		}
	}
	return nil
}

// String is a warning about the mean, "" where it needs none.
func (h *Half) String() string {
	switch {
	case h == nil:
		return ""
	case h.Blocks == 1:
		return fmt.Sprintf("1 block is %s %% of this mean", h.Share.Percent())
	}
	return fmt.Sprintf("%d blocks are %s %% of this mean", h.Blocks, h.Share.Percent())
}

// Shares are those of errors within each of Limits.
type Shares [len(limits)]Number

// MarshalJSON names each share by its limit.
func (s Shares) MarshalJSON() ([]byte, error) {
	by := map[string]Number{}
	for i, l := range limits {
		by[strconv.Itoa(l)] = s[i]
	}
	return json.Marshal(by)
}

// Interval is an interval, in JSON two numbers.
type Interval stat.Interval

// MarshalJSON writes null where there is no number.
func (i Interval) MarshalJSON() ([]byte, error) {
	return json.Marshal([]Number{Number(i.Low), Number(i.High)})
}

// Intervals are those of the figures, in the order of Names; nil if not asked for.
type Intervals []stat.Interval

// Of is the interval of a figure by its name; ok is false where there is none.
func (all Intervals) Of(name string) (i stat.Interval, ok bool) {
	if at := slices.Index(Names(), name); at < len(all) {
		i = all[at]
		return i, !math.IsNaN(i.Low)
	}
	return i, false
}

// MarshalJSON names the intervals that there are.
func (all Intervals) MarshalJSON() ([]byte, error) {
	by := map[string]Interval{}
	for _, name := range Names() {
		if i, ok := all.Of(name); ok {
			by[name] = Interval(i)
		}
	}
	return json.Marshal(by)
}

func Limits() []int { return limits[:] }

// rounding is what an error that is exactly at a limit may exceed it by: 2.2 is within 10 % of 2.
const rounding = 1e-12

// Step is what TauBRounded rounds cycles to. Differences below are mostly noise.
const Step = 0.05

// Number is a figure that is null in JSON where there is none.
type Number float64

// MarshalJSON writes what is no finite number as null.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 10, 64), nil
}

// Names are the names of the figures in JSON, but for the counts.
func Names() []string {
	names := []string{"coverage", "mape", "mape_weighted", "mape_failures_100", "median_error", "excess"}
	for _, l := range limits {
		names = append(names, "within_"+strconv.Itoa(l))
	}
	return append(names, "tau_b", "tau_b_rounded", "pearson")
}

// values are the figures in the order of Names.
func (f *Figures) values() []*Number {
	v := []*Number{&f.Coverage, &f.MAPE, &f.MAPEWeighted, &f.MAPEFailures, &f.MedianError, &f.Excess}
	for i := range f.Within {
		v = append(v, &f.Within[i])
	}
	return append(v, &f.TauB, &f.TauBRounded, &f.Pearson)
}

// Detail says which intervals Of gives.
type Detail int

const (
	Estimates Detail = iota // none
	Errors                  // all but the correlations'
	All
)

// resample is how many blocks a resample has at most. Larger ones take longer and their spread is
// scaled, so intervals are no narrower.
var resample = map[Detail]int{Errors: 1000, All: 4000}

// Of computes a model's figures of some blocks, which subset names.
func Of(blocks []Block, predictions Predictions, subset []int, detail Detail, seed uint64) Figures {
	s := newSample(blocks, predictions, subset)
	all := make([]int, len(subset))
	for i := range all {
		all[i] = i
	}
	estimate := s.figures(all, true)
	f := Figures{Blocks: len(subset), Half: s.half()}
	for i, v := range f.values() {
		*v = Number(estimate[i])
	}
	for _, e := range s.err {
		if !math.IsNaN(e) {
			f.Predicted++
		}
	}
	if detail != Estimates && len(subset) > 0 {
		f.Intervals = stat.Bootstrap(len(subset), resample[detail], estimate, seed, func(indices []int) []float64 { return s.figures(indices, detail == All) })
		for i, name := range Names() {
			least, most := possible(name)
			f.Intervals[i].Low, f.Intervals[i].High = max(least, f.Intervals[i].Low), min(most, f.Intervals[i].High)
		}
	}
	return f
}

// possible is what a figure can be at least and at most. The interval of one whose resamples are scaled may go beyond it.
func possible(name string) (least, most float64) {
	switch {
	case name == "coverage", strings.HasPrefix(name, "within_"):
		return 0, 1
	case strings.HasPrefix(name, "tau_b"), name == "pearson":
		return -1, 1
	}
	return 0, math.Inf(1)
}

type sample struct {
	measured, predicted        []float64
	roundMeasured, roundedPred []float64
	err, excess, weight        []float64
	weighted                   bool
	byError                    []int // the predicted, by their error
	// What a resample needs, kept between them.
	x, y, rx, ry, times []float64
}

// Weighted reports whether blocks count by their weights.
func Weighted(blocks []Block) bool {
	return slices.ContainsFunc(blocks, func(b Block) bool { return b.Weight > 0 })
}

func newSample(blocks []Block, predictions Predictions, subset []int) *sample {
	n := len(subset)
	s := &sample{weighted: Weighted(blocks)}
	for _, list := range []*[]float64{&s.measured, &s.predicted, &s.roundMeasured, &s.roundedPred, &s.err, &s.excess, &s.weight, &s.x, &s.y, &s.rx, &s.ry} {
		*list = make([]float64, 0, n)
	}
	for _, i := range subset {
		b, p := &blocks[i], predictions.At(i)
		predicted, err, excess := math.NaN(), math.NaN(), math.NaN()
		if p.Known() {
			predicted, err, excess = p.Cycles, Error(b, p), Excess(b, p)
		}
		s.measured = append(s.measured, b.Cycles)
		s.predicted = append(s.predicted, predicted)
		s.roundMeasured = append(s.roundMeasured, math.Round(b.Cycles/Step))
		s.roundedPred = append(s.roundedPred, math.Round(predicted/Step))
		s.err = append(s.err, err)
		s.excess = append(s.excess, excess)
		weight := 1.0
		if s.weighted {
			weight = b.Weight
		}
		s.weight = append(s.weight, weight)
		if !math.IsNaN(err) {
			s.byError = append(s.byError, len(s.err)-1)
		}
	}
	slices.SortStableFunc(s.byError, func(a, b int) int { return cmp.Compare(s.err[a], s.err[b]) })
	s.times = make([]float64, n)
	return s
}

// Error is how far a prediction is off.
func Error(b *Block, p Prediction) float64 { return math.Abs(b.Cycles-p.Cycles) / b.Cycles }

// Excess is how far a prediction lies outside the measurement's interval.
func Excess(b *Block, p Prediction) float64 {
	return max(0, b.Low-p.Cycles, p.Cycles-b.High) / b.Cycles
}

// figures are those of the observations that indices names, in the order of Names; NaN for the
// correlations if they are not asked for.
func (s *sample) figures(indices []int, correlated bool) []float64 {
	var (
		all, known, sum, excess float64 // known: the weight of the predicted
		within                  [len(limits)]float64
	)
	s.x, s.y, s.rx, s.ry = s.x[:0], s.y[:0], s.rx[:0], s.ry[:0]
	clear(s.times)
	for _, i := range indices {
		e, w := s.err[i], s.weight[i]
		all += w
		if math.IsNaN(e) {
			continue
		}
		s.times[i] += w
		known += w
		sum += w * e
		excess += w * s.excess[i]
		for k, l := range limits {
			if e <= float64(l)/100+rounding {
				within[k] += w
			}
		}
		if correlated {
			s.x, s.y = append(s.x, s.measured[i]), append(s.y, s.predicted[i])
			s.rx, s.ry = append(s.rx, s.roundMeasured[i]), append(s.ry, s.roundedPred[i])
		}
	}
	weighted := math.NaN()
	if s.weighted {
		weighted = sum / known
	}
	v := []float64{known / all, sum / known, weighted, (sum + all - known) / all, s.median(known), excess / known}
	for _, w := range within {
		v = append(v, w/known)
	}
	if !correlated {
		return append(v, math.NaN(), math.NaN(), math.NaN())
	}
	return append(v, stat.Kendall(s.x, s.y), stat.Kendall(s.rx, s.ry), stat.Pearson(s.x, s.y))
}

// median is that of the errors, by what s.times has of each: the mean of the two in the middle, where there are two.
func (s *sample) median(known float64) float64 {
	below, lower := 0.0, math.NaN()
	for _, i := range s.byError {
		if s.times[i] == 0 {
			continue
		}
		if !math.IsNaN(lower) {
			return (lower + s.err[i]) / 2
		}
		switch below += s.times[i]; {
		case below > known/2*(1+rounding):
			return s.err[i]
		case below >= known/2*(1-rounding):
			lower = s.err[i]
		}
	}
	return lower
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Pair is a paired test of two models on the blocks that both predict.
type Pair struct {
	A          string   `json:"a"`
	B          string   `json:"b"`
	Blocks     int      `json:"blocks"`
	Difference Number   `json:"mape_difference"` // mean error of A less that of B: B is better where it is above 0
	Interval   Interval `json:"interval"`        // of Difference
	P          Number   `json:"p_adjusted"`      // for the number of pairs (Holm)
	BetterA    int      `json:"better_a"`        // blocks that A predicts better, beyond the measurement's interval
	BetterB    int      `json:"better_b"`
}

// Pairs tests every two models.
func Pairs(blocks []Block, models []Model) []Pair {
	var (
		pairs []Pair
		ps    []float64
	)
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
		p, q := a.Predictions.At(i), b.Predictions.At(i)
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

// weightedDifferences have the weighted mean of differences, and its standard error by linearisation (Cochran, Sampling
// Techniques, 1977, section 2.11).
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
