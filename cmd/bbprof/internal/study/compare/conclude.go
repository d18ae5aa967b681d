package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bbprof/bbprof/internal/stat"
)

// Verdict is how b compares with a.
type Verdict string

const (
	Slower Verdict = "slower"
	Faster Verdict = "faster"
	Same   Verdict = "no difference" // that so many layouts show
)

// Power is how likely a difference as large as Conclusion.Detects is to be found: the usual four
// in five (Cohen, Statistical Power Analysis for the Behavioral Sciences, section 2.4).
const Power = 0.8

// Conclusion is what all layouts together say. Differences are percentages of a: above 0, b takes
// longer.
type Conclusion struct {
	Verdict Verdict `json:"verdict"`
	Mean    float64 `json:"difference_percent"`
	Low     float64 `json:"ci_low_percent"` // 95 % interval
	High    float64 `json:"ci_high_percent"`
	P       float64 `json:"p"` // of a mean so far from 0 if there is no difference
	DF      float64 `json:"degrees_of_freedom"`
	Method  string  `json:"method"`
	// Detects is the true difference that so many layouts find with a probability of Power.
	Detects float64 `json:"detects_percent"`

	// Proposal and Median are of linked programs: the mean of all differences of means, as if no two layouts
	// had a link or a set-up in common; and the median of all differences of medians.
	Proposal *Estimate `json:"all_differences_of_means,omitempty"`
	Median   *Estimate `json:"median_difference,omitempty"`

	Layouts int     `json:"layouts"`
	WonA    int     `json:"won_by_a"` // layouts in which a takes less
	WonB    int     `json:"won_by_b"`
	A       Summary `json:"a"` // over the layouts
	B       Summary `json:"b"`

	// Alone is what each layout would have said if it had been the only one, and how many of
	// them would have said what.
	Alone []Alone         `json:"alone"`
	Says  map[Verdict]int `json:"alone_says"`

	test stat.Test // in percent if paired, else in logarithms
	logs bool
}

// Estimate is a difference in percent with its 95 % interval.
type Estimate struct {
	Value float64 `json:"difference_percent"`
	Low   float64 `json:"ci_low_percent"`
	High  float64 `json:"ci_high_percent"`
}

func (e *Estimate) String() string {
	return fmt.Sprintf("%+.2f %%, 95 %% interval %+.2f to %+.2f %%", e.Value, e.Low, e.High)
}

// Summary is where the values of one side lie.
type Summary struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"min"` // of a layout
	High float64 `json:"max"`
}

type Alone struct {
	Difference float64 `json:"difference_percent"`
	Verdict    Verdict `json:"verdict"`
	P          float64 `json:"p"`
}

// errFew is of a test without a degree of freedom. Run's pairs without a *SideError are enough.
var errFew = errors.New("fewer than two layouts were measured: a test needs at least two")

// Paired tests the differences layout by layout.
func Paired(pairs []Pair) (Conclusion, error) {
	if len(pairs) < leastLayouts {
		return Conclusion{}, errFew
	}
	c := describe(pairs)
	c.paired("paired t-test", stat.OneSample(c.differences()))
	return c, nil
}

// paired is what a test of differences in percent says.
func (c *Conclusion) paired(method string, test stat.Test) {
	c.Method, c.test = method, test
	c.Mean, c.Low, c.High = test.Mean, test.Low, test.High
	c.Detects = test.Detectable(Power)
	c.judge()
}

// Linked tests programs that were linked many times: pairs hold each link in so many set-ups, one link
// after the other. With one set-up a link, each of its own, that is the paired t-test. With more, all links
// have the same, and layouts are not independent: the test is of a mean over links and set-ups that were
// both drawn at random.
func Linked(pairs []Pair, setups int) (Conclusion, error) {
	pairs = pairs[:len(pairs)-len(pairs)%setups] // an interrupted run may have left a link incomplete
	links := len(pairs) / setups
	if links < leastLayouts {
		return Conclusion{}, errFew
	}
	c, err := Paired(pairs)
	if setups > 1 {
		c.paired(fmt.Sprintf("test of a mean over %d links and %d set-ups, both random", links, setups),
			stat.Crossed(slices.Collect(slices.Chunk(c.differences(), setups))))
	}
	var ofMeans []float64
	for _, p := range pairs {
		ofMeans = append(ofMeans, 100*(stat.Mean(p.B)/stat.Mean(p.A)-1))
	}
	all := stat.OneSample(ofMeans)
	c.Proposal = &Estimate{all.Mean, all.Low, all.High}
	if median, low, high := stat.MedianInterval(c.differences()); low > math.Inf(-1) { // JSON has no infinity
		c.Median = &Estimate{median, low, high}
	}
	return c, err
}

// Contrary is how many layouts alone would have said the opposite of the verdict; of no difference, how
// many would have found one.
func (c *Conclusion) Contrary() int {
	switch c.Verdict {
	case Slower:
		return c.Says[Faster]
	case Faster:
		return c.Says[Slower]
	}
	return c.Layouts - c.Says[Same]
}

// Unpaired tests the difference of two sets of layouts that have nothing to do with each other:
// pairs[i].A and pairs[i].B need not be of the same layout. It compares the means of logarithms, so
// that the difference is a ratio that knows how uncertain a's own mean is.
func Unpaired(pairs []Pair) (Conclusion, error) {
	if len(pairs) < leastLayouts {
		return Conclusion{}, errFew
	}
	c := describe(pairs)
	c.Method = "Welch's t-test"
	var a, b []float64
	for _, p := range pairs {
		a, b = append(a, math.Log(Value(p.A))), append(b, math.Log(Value(p.B)))
	}
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	c.test, c.logs = stat.Welch(a, b), true
	c.Mean, c.Low, c.High = percent(c.test.Mean), percent(c.test.Low), percent(c.test.High)
	c.Detects = percent(c.test.Detectable(Power))
	c.judge()
	return c, nil
}

func (c *Conclusion) judge() {
	c.P, c.DF = c.test.P, c.test.DF
	c.Verdict = judge(c.test)
}

func judge(t stat.Test) Verdict {
	switch {
	case t.P >= stat.Level:
		return Same
	case t.Mean > 0:
		return Slower
	}
	return Faster
}

// describe is all that needs no test over layouts.
func describe(pairs []Pair) Conclusion {
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
	return c
}

func summary(xs []float64) Summary {
	s := Summary{Low: math.Inf(1), High: math.Inf(-1)}
	for _, x := range xs {
		s.Mean += x / float64(len(xs))
		s.Low, s.High = min(s.Low, x), max(s.High, x)
	}
	return s
}

func (c *Conclusion) differences() (d []float64) {
	for _, a := range c.Alone {
		d = append(d, a.Difference)
	}
	return d
}

// alone compares the repetitions of one layout as if there were no other: by Welch's test, and with
// one repetition by which value is lower.
func (p Pair) alone() Alone {
	a := Alone{Difference: 100 * (Value(p.B)/Value(p.A) - 1), P: 1}
	if len(p.A) > 1 {
		t := stat.Welch(p.A, p.B)
		a.P, a.Verdict = t.P, judge(t)
		return a
	}
	switch {
	case a.Difference > 0:
		a.Verdict = Slower
	case a.Difference < 0:
		a.Verdict = Faster
	default:
		a.Verdict = Same
	}
	return a
}

// LayoutsFor is how many layouts find a true difference of so many percent with a probability of
// Power, going by how much they differ here; 0 if it is more than can be computed.
func (c *Conclusion) LayoutsFor(percent float64) int {
	difference := percent
	if c.logs {
		difference = math.Log1p(percent / 100)
	}
	n := c.test.Enough(c.Layouts, difference, Power)
	if n == stat.Many {
		return 0
	}
	return n
}
