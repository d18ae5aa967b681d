package instructions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/internal/stat"
)

// Numbers is a table's entry for a form. NaN means no number.
type Numbers struct {
	Form                string
	Latency, Throughput float64
	Shown               float64 // the largest latency between explicit operands
	Alone               float64 // throughput without broken dependencies
	Low, High           float64 // of a varying throughput; else 0
	Mean                string  // which numbers are means, not fixed times
}

// A Table is numbers to compare with.
type Table struct {
	Published bool // by others, who chain equal registers and break no dependency
	Counted   bool // published in core cycles, with dependencies broken for throughputs
	Forms     []Numbers
	Unmatched []string // names that match no form
}

// ReadTable reads rows with columns form, latency and throughput, such as bbprof's own table.
func ReadTable(columns []string, next func() ([]string, bool, error)) (t Table, err error) {
	at := map[string]int{}
	for i, c := range columns {
		at[c] = i
	}
	for _, name := range []string{"form", "latency", "throughput"} {
		if _, ok := at[name]; !ok {
			return t, fmt.Errorf("it has no column %s; it has %s", name, strings.Join(columns, ", "))
		}
	}
	for {
		cells, more, err := next()
		if err != nil || !more {
			return t, err
		}
		cell := func(name string) string {
			if i, ok := at[name]; ok && i < len(cells) {
				return cells[i]
			}
			return ""
		}
		n := Numbers{Form: cell("form"), Latency: number(cell("latency")), Throughput: number(cell("throughput"))}
		n.Shown, n.Alone = shown(n.Form, cell("latencies")), alone(cell("throughputs"))
		for _, what := range []string{latencyMode, "throughput"} {
			if strings.HasPrefix(cell(what+"_note"), "mean") {
				n.Mean += what
			}
		}
		if strings.HasPrefix(cell("throughput_note"), "varies") {
			n.Low, n.High = number(cell("throughput_low")), number(cell("throughput_high"))
		}
		t.Forms = append(t.Forms, n)
	}
}

func number(cell string) float64 {
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// shown returns the largest latency between a form's free operands of one class.
func shown(form, latencies string) float64 {
	f := asm.FormNamed(form)
	largest := math.NaN()
	if f == nil {
		return largest
	}
	operands := f.Operands()
	for text := range strings.SplitSeq(latencies, "; ") {
		pair, value, ok := strings.Cut(text, ": ")
		if !ok || strings.Contains(pair, "another register") {
			continue
		}
		pair, _, _ = strings.Cut(pair, ",") // drop the values
		from, to, _ := strings.Cut(pair, " to ")
		s, d := chosen(operands, from), chosen(operands, to)
		if s != nil && d != nil && s.Class == d.Class {
			value, _, _ = strings.Cut(value, " ")
			largest = larger(largest, number(value))
		}
	}
	return largest
}

// chosen returns the numbered operand, if it is a free register.
func chosen(operands []asm.Operand, n string) *asm.Operand {
	i, err := strconv.Atoi(n)
	if err != nil || i < 1 || i > len(operands) || operands[i-1].Fixed >= 0 {
		return nil
	}
	if _, register := classOf(operands[i-1]); !register {
		return nil
	}
	return &operands[i-1]
}

func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

func alone(throughputs string) float64 {
	for text := range strings.SplitSeq(throughputs, "; ") {
		if value, ok := strings.CutPrefix(text, "alone: "); ok {
			return number(value)
		}
	}
	return math.NaN()
}

// A Difference is a number on which two tables differ.
type Difference struct {
	Form, What  string
	Here, There float64
}

// Tally counts the numbers that both tables have.
type Tally struct {
	Compared, Within2, Within5, Within10 int
	Varying                              int // differing throughputs whose varying interval holds the other
}

func (t *Tally) add(here, there float64) {
	t.Compared++
	for share, n := range map[float64]*int{0.02: &t.Within2, 0.05: &t.Within5, 0.10: &t.Within10} {
		if near(here, there, share) {
			*n++
		}
	}
}

// slack is the cycles by which equal two-digit numbers may differ.
const slack = 0.02

// within reports whether a varying throughput's interval meets the other's interval or number.
func within(here, there Numbers) bool {
	varies := false
	for _, n := range []*Numbers{&here, &there} {
		varies = varies || n.High > 0
		if n.High == 0 {
			n.Low, n.High = n.Throughput, n.Throughput
		}
	}
	return varies && here.Low <= there.High && there.Low <= here.High
}

func near(here, there, share float64) bool {
	return math.Abs(here-there) <= max(share*there, slack)
}

// Agreement is how far two tables agree.
type Agreement struct {
	Scale                  float64 // factor of the other table's numbers
	Latencies, Throughputs Tally
	Means                  int // numbers not compared
	Differ                 []Difference
}

// Latencies that differ by 2 % are listed, and throughputs by 10 % or, of bbprof's own, by 2 %: others print two digits
// and measure loops with overhead.
const (
	latencyShare    = 0.02
	throughputShare = 0.10
)

// Compare compares two tables by form. Published numbers are scaled by the median ratio of the latencies, as their clock
// differs.
func Compare(here, there Table) Agreement {
	a := Agreement{Scale: 1}
	others := map[string]Numbers{}
	for _, n := range there.Forms {
		others[n.Form] = n
	}
	latency, throughput := func(n Numbers) float64 { return n.Latency }, func(n Numbers) float64 { return n.Throughput }
	limit := latencyShare
	if there.Published {
		limit = throughputShare
		latency = func(n Numbers) float64 { return n.Shown }
	}
	if there.Published && !there.Counted {
		throughput = func(n Numbers) float64 {
			if !math.IsNaN(n.Alone) {
				return n.Alone
			}
			return n.Throughput
		}
		var ratios []float64
		for _, n := range here.Forms {
			if r := latency(n) / others[n.Form].Latency; r > 0.9 && r < 1.1 {
				ratios = append(ratios, r)
			}
		}
		if len(ratios) > 0 {
			a.Scale = stat.Median(ratios)
		}
	}
	one := func(n Numbers, what string, t *Tally, here, there, limit float64) {
		there *= a.Scale
		switch {
		case !(here > 0) || !(there > 0):
		case strings.Contains(n.Mean, what) || strings.Contains(others[n.Form].Mean, what):
			a.Means++
		default:
			t.add(here, there)
			switch {
			case near(here, there, limit):
			case what == "throughput" && limit == latencyShare && within(n, others[n.Form]):
				t.Varying++
			default:
				a.Differ = append(a.Differ, Difference{Form: n.Form, What: what, Here: here, There: there})
			}
		}
	}
	for _, n := range here.Forms {
		if o, ok := others[n.Form]; ok {
			one(n, latencyMode, &a.Latencies, latency(n), o.Latency, latencyShare)
			one(n, "throughput", &a.Throughputs, throughput(n), o.Throughput, limit)
		}
	}
	return a
}

// Kinds groups differences by both rounded numbers, the largest group first.
func (a *Agreement) Kinds() (kinds [][]Difference) {
	index := map[string]int{}
	for _, d := range a.Differ {
		key := fmt.Sprintf("%s %.1f %.1f", d.What, d.Here, d.There)
		i, ok := index[key]
		if !ok {
			i, index[key] = len(kinds), len(kinds)
			kinds = append(kinds, nil)
		}
		kinds[i] = append(kinds[i], d)
	}
	slices.SortStableFunc(kinds, func(a, b []Difference) int { return cmp.Compare(len(b), len(a)) })
	return kinds
}
