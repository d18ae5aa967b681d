// Package tables reads tables of instructions, bbprof's own and others', and compares two.
package tables

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"regexp"
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

type Table struct {
	Name      string
	Published bool // by others, who chain equal registers and break no dependency
	Counted   bool // published in core cycles, with dependencies broken for throughputs
	Forms     []Numbers
	Unmatched []string // names that match no form
}

const (
	latency    = "latency"
	throughput = "throughput"
)

// ReadForeign reads a file of InstLatx64, or one of uops.info as FILE#CORE; is reports whether it is one.
func ReadForeign(name string) (is bool, t Table, err error) {
	file, core, _ := strings.Cut(name, "#")
	f, err := os.Open(file)
	if err != nil {
		return false, t, nil // its name may hold a #
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if start, _ := in.Peek(512); isUopsInfo(start) {
		t, err = readUopsInfo(in, core)
		return true, t, err
	}
	text, err := io.ReadAll(in)
	t = readInstLat(string(text))
	return len(t.Forms)+len(t.Unmatched) > 0, t, err
}

func Read(columns []string, rows iter.Seq2[[]string, error]) (t Table, err error) {
	for _, name := range []string{"form", latency, throughput} {
		if !slices.Contains(columns, name) {
			return t, fmt.Errorf("it has no column %s; it has %s", name, strings.Join(columns, ", "))
		}
	}
	row := 0
	for cells, err := range rows {
		if err != nil {
			return t, err
		}
		row++
		cell := func(name string) string {
			if i := slices.Index(columns, name); i >= 0 && i < len(cells) {
				return cells[i]
			}
			return ""
		}
		var bad error
		cycles := func(name string) float64 {
			text := cell(name)
			v := number(text)
			if text != "" && !(v > leastCycles) {
				bad = fmt.Errorf("row %d (%.100s): %s is %.40q, not a number of cycles; mend the row or leave it out", row, cell("form"), name, text)
			}
			return v
		}
		n := Numbers{Form: cell("form"), Latency: cycles(latency), Throughput: cycles(throughput), Alone: math.NaN()}
		n.Shown = shown(n.Form, cell("latencies"))
		if m := alone.FindStringSubmatch(cell("throughputs")); m != nil {
			n.Alone = number(m[1])
		}
		for _, what := range []string{latency, throughput} {
			if strings.HasPrefix(cell(what+"_note"), "mean") {
				n.Mean += what
			}
		}
		if strings.HasPrefix(cell("throughput_note"), "varies") {
			n.Low, n.High = cycles("throughput_low"), cycles("throughput_high")
		}
		if bad != nil {
			return t, bad
		}
		t.Forms = append(t.Forms, n)
	}
	return t, nil
}

// leastCycles is below any number of a table: a difference of two measurements may be a little below 0.
const leastCycles = -1

// number parses a cell; one that holds no finite number is NaN.
func number(cell string) float64 {
	v, err := strconv.ParseFloat(cell, 64)
	if err != nil || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

var (
	alone = regexp.MustCompile(`(?:^|; )alone: ([^; ]+)`)
	// pairs matches latencies between numbered operands, maybe of stated values.
	pairs = regexp.MustCompile(`(?:^|; )(\d+) to (\d+)(?:,[^:]*)?: ([^; ]+)`)
)

// shown returns the largest latency between a form's free registers of one class.
func shown(form, latencies string) float64 {
	f, largest := asm.FormNamed(form), math.NaN()
	if f == nil {
		return largest
	}
	free := map[string]asm.OperandClass{} // by number
	for i, o := range f.Operands() {
		if o.Fixed < 0 && register(o) {
			free[strconv.Itoa(i+1)] = o.Class
		}
	}
	for _, m := range pairs.FindAllStringSubmatch(latencies, -1) {
		from, free1 := free[m[1]]
		to, free2 := free[m[2]]
		if free1 && free2 && from == to {
			largest = larger(largest, number(m[3]))
		}
	}
	return largest
}

func register(o asm.Operand) bool {
	return slices.Contains([]asm.OperandClass{asm.GPROperand, asm.VectorOperand, asm.MMXOperand, asm.OpmaskOperand, asm.X87Operand}, o.Class)
}

func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

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

// near allows for two-digit numbers, too.
func near(here, there, share float64) bool {
	const slack = 0.02 // cycles
	return math.Abs(here-there) <= max(share*there, slack)
}

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

type Agreement struct {
	Scale                  float64 // factor of the other table's numbers
	Latencies, Throughputs Tally
	Means                  int // numbers not compared
	Differ                 []Difference
}

// Latencies that differ by 2 % are listed, and throughputs by 10 % or, of bbprof's own, by 2 %: others print two digits
// and measure loops with overhead.
const (
	listed          = 0.02
	listedPublished = 0.10
)

// Compare compares two tables by form. Published numbers are scaled by the median ratio of the latencies, as their clock
// differs.
func Compare(here, there Table) Agreement {
	a := Agreement{Scale: 1}
	others := map[string]Numbers{}
	for _, n := range there.Forms {
		others[n.Form] = n
	}
	limit := listed
	if there.Published {
		limit = listedPublished
	}
	var both [][2]Numbers
	var ratios []float64
	for _, n := range here.Forms {
		o, ok := others[n.Form]
		if !ok {
			continue
		}
		if there.Published {
			n.Latency = n.Shown
			if !there.Counted && !math.IsNaN(n.Alone) {
				n.Throughput = n.Alone
			}
		}
		both = append(both, [2]Numbers{n, o})
		if r := n.Latency / o.Latency; r > 0.9 && r < 1.1 {
			ratios = append(ratios, r)
		}
	}
	if there.Published && !there.Counted && len(ratios) > 0 {
		a.Scale = stat.Median(ratios)
	}
	one := func(n [2]Numbers, what string, t *Tally, here, there, limit float64) {
		there *= a.Scale
		switch {
		case !(here > 0) || !(there > 0):
			return
		case strings.Contains(n[0].Mean, what) || strings.Contains(n[1].Mean, what):
			a.Means++
			return
		}
		t.add(here, there)
		switch {
		case near(here, there, limit):
		case what == throughput && limit == listed && within(n[0], n[1]):
			t.Varying++
		default:
			a.Differ = append(a.Differ, Difference{Form: n[0].Form, What: what, Here: here, There: there})
		}
	}
	for _, n := range both {
		one(n, latency, &a.Latencies, n[0].Latency, n[1].Latency, listed)
		one(n, throughput, &a.Throughputs, n[0].Throughput, n[1].Throughput, limit)
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
