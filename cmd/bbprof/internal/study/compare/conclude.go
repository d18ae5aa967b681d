package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/internal/stat"
)

type Verdict string

const (
	Slower Verdict = "slower"
	Faster Verdict = "faster"
	Same   Verdict = "no difference" // found with these layouts
)

// power is the probability of finding a difference as large as Conclusion.Detects: the usual 0.8 (Cohen, Statistical
// Power Analysis for the Behavioral Sciences, section 2.4).
const power = 0.8

// Conclusion is the result over all layouts. Differences are percentages of a: above 0, b takes longer.
type Conclusion struct {
	Verdict Verdict `json:"verdict"`
	Least   float64 `json:"min_effect_percent"` // a smaller mean difference is none
	Mean    float64 `json:"difference_percent"`
	Low     float64 `json:"ci_low_percent"` // 95 % interval, joint if there are several sides
	High    float64 `json:"ci_high_percent"`
	P       float64 `json:"p"` // of a mean this far from 0 if there is no difference
	DF      float64 `json:"degrees_of_freedom"`
	Method  string  `json:"method"`
	// Comparisons is the number of sides compared with the first, if several: intervals and p-values hold jointly.
	Comparisons int `json:"comparisons,omitzero"`
	// Itself is the control: a against itself in the same layouts, of blocks.
	Itself *Estimate `json:"control,omitempty"`
	// Detects is the true difference that this many layouts find with probability Power.
	Detects float64 `json:"detects_percent"`

	// For linked programs, Proposal is the mean of all differences, trial by trial in every layout, as if no two shared
	// a link or a set-up; Median is the median of the differences of medians.
	Proposal *Estimate `json:"mean_of_all_differences,omitempty"`
	Median   *Estimate `json:"median_difference,omitempty"`

	Layouts int     `json:"layouts"`
	WonA    int     `json:"won_by_a"` // layouts in which a is faster
	WonB    int     `json:"won_by_b"`
	A       Summary `json:"a"` // over the layouts
	B       Summary `json:"b"`

	// Alone is what each layout alone would have shown, and the counts of these verdicts.
	Alone []Alone         `json:"alone"`
	Says  map[Verdict]int `json:"alone_says"`

	test stat.Test
}

type Estimate struct {
	Value float64 `json:"difference_percent"`
	Low   float64 `json:"ci_low_percent"`
	High  float64 `json:"ci_high_percent"`
}

func (e *Estimate) bound() float64 { return max(-e.Low, e.High) }

func (e *Estimate) String() string {
	return fmt.Sprintf("%+.2f %%, 95 %% interval %+.2f to %+.2f %%", e.Value, e.Low, e.High)
}

type Summary struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"min"` // over the layouts
	High float64 `json:"max"`
}

// Alone is the result from one layout. The interval is 0 to 0 if one trial gives none.
type Alone struct {
	Difference float64 `json:"difference_percent"`
	Low        float64 `json:"ci_low_percent,omitzero"`
	High       float64 `json:"ci_high_percent,omitzero"`
	Verdict    Verdict `json:"verdict"`
	P          float64 `json:"p"`
}

// errFew: a test without a degree of freedom. Run's layouts suffice unless it returns a *SideError.
var errFew = errors.New("fewer than two layouts were measured: a test needs at least two")

// Paired tests the differences layout by layout, as one of several comparisons with one side whose intervals hold
// jointly.
func Paired(pairs []Pair, comparisons int) (Conclusion, error) {
	if len(pairs) < leastLayouts {
		return Conclusion{}, errFew
	}
	c := Conclusion{Layouts: len(pairs), Says: map[Verdict]int{}}
	var a, b []float64
	for _, p := range pairs {
		alone := p.alone()
		c.Alone = append(c.Alone, alone)
		c.Says[alone.Verdict]++
		if alone.Difference > 0 {
			c.WonA++
		}
		if alone.Difference < 0 {
			c.WonB++
		}
		a, b = append(a, Value(p.A)), append(b, Value(p.B))
	}
	c.A, c.B = summary(a), summary(b)
	c.decide("paired t-test", stat.OneSample(c.differences()), comparisons)
	return c, nil
}

func (c *Conclusion) decide(method string, test stat.Test, comparisons int) {
	c.Detects = test.Detectable(power)
	if d := stat.Student(test.DF); comparisons > 1 {
		c.Detects = test.Error * (d.Quantile(1-stat.Level/2/float64(comparisons)) + d.Quantile(power))
		c.Comparisons, method = comparisons, fmt.Sprintf("%s, one of %d", method, comparisons)
	}
	c.Method, c.test = method, experiment.Joint(test, comparisons)
	c.Mean, c.Low, c.High, c.P, c.DF = c.test.Mean, c.test.Low, c.test.High, c.test.P, c.test.DF
	c.Verdict = Decide(c.test.Mean, c.test.P)
}

// Linked tests programs linked many times: pairs holds the set-ups of each link consecutively. With one set-up per
// link, all different, it is the paired t-test. With more, the links share set-ups and layouts are not independent: it
// tests a mean over random links and random set-ups.
func Linked(pairs []Pair, setups, comparisons int) (Conclusion, error) {
	pairs = pairs[:len(pairs)-len(pairs)%setups] // an interruption may have left a link incomplete
	links := len(pairs) / setups
	if links < leastLayouts {
		return Conclusion{}, errFew
	}
	c, err := Paired(pairs, comparisons)
	if setups > 1 {
		c.decide(fmt.Sprintf("test of a mean over %d links and %d set-ups, both random", links, setups),
			stat.Crossed(slices.Collect(slices.Chunk(c.differences(), setups))), comparisons)
	}
	var all []float64
	for _, p := range pairs {
		for i := range p.A {
			all = append(all, 100*(p.B[i]/p.A[i]-1))
		}
	}
	mean := stat.OneSample(all)
	c.Proposal = &Estimate{mean.Mean, mean.Low, mean.High}
	if median, low, high := stat.MedianInterval(c.differences()); low > math.Inf(-1) { // JSON has no infinity
		c.Median = &Estimate{median, low, high}
	}
	return c, err
}

// Ignore leaves no verdict for a mean difference below percent, in the layouts together and in each alone.
func (c *Conclusion) Ignore(percent float64) {
	c.Least = percent
	if math.Abs(c.Mean) < percent {
		c.Verdict = Same
	}
	c.Says = map[Verdict]int{}
	for i := range c.Alone {
		if a := &c.Alone[i]; math.Abs(a.Difference) < percent {
			a.Verdict = Same
		}
		c.Says[c.Alone[i].Verdict]++
	}
}

// Control leaves no verdict for a mean difference that control, of code against itself, leaves possible for no change.
func (c *Conclusion) Control(control Conclusion) {
	c.Itself = &Estimate{control.Mean, control.Low, control.High}
	if math.Abs(c.Mean) <= c.Itself.bound() {
		c.Verdict = Same
	}
}

// Bound is the largest difference, either way, that the intervals of the sides and of the control leave possible, or
// that is called none, in percent.
func (c *Conclusion) Bound() float64 {
	bound := max(-c.Low, c.High, c.Least)
	if c.Itself != nil {
		bound = max(bound, c.Itself.bound())
	}
	return bound
}

// Contrary counts the layouts that alone would have shown the opposite of the verdict, or any difference if the verdict
// is none.
func (c *Conclusion) Contrary() int {
	switch c.Verdict {
	case Slower:
		return c.Says[Faster]
	case Faster:
		return c.Says[Slower]
	}
	return c.Layouts - c.Says[Same]
}

// Decide returns the verdict for a difference of b to a with a p-value, which may be adjusted.
func Decide(difference, p float64) Verdict {
	switch {
	case p >= stat.Level:
		return Same
	case difference > 0:
		return Slower
	}
	return Faster
}

func summary(xs []float64) Summary { return Summary{stat.Mean(xs), slices.Min(xs), slices.Max(xs)} }

func (c *Conclusion) differences() (d []float64) {
	for _, a := range c.Alone {
		d = append(d, a.Difference)
	}
	return d
}

// alone compares the trials of one layout only: by Welch's test, or for one trial by the lower value.
func (p Pair) alone() Alone {
	a := Alone{Difference: 100 * (Value(p.B)/Value(p.A) - 1), P: 1}
	if len(p.A) > 1 {
		t := stat.Welch(p.A, p.B)
		a.P, a.Verdict = t.P, Decide(t.Mean, t.P)
		a.Low, a.High = 100*t.Low/stat.Mean(p.A), 100*t.High/stat.Mean(p.A)
		return a
	}
	a.Verdict = Decide(a.Difference, map[bool]float64{true: 1}[a.Difference == 0])
	return a
}

// LayoutsFor estimates from the observed variation how many layouts find a true difference of percent with probability
// power; 0 if too many to compute.
func (c *Conclusion) LayoutsFor(percent float64) int {
	n := c.test.Enough(c.Layouts, percent, power)
	if n == stat.Many {
		return 0
	}
	return n
}
