// Package cores compares the results of one set of blocks on several kinds of core: which blocks take other numbers of
// cycles, by category, and of which alternatives another one is the fastest. Pure.
package cores

import (
	"cmp"
	"slices"

	"github.com/bbprof/bbprof/internal/stat"
)

// Cell is what a block takes on one core; Cycles is 0 where it was not accepted.
type Cell struct {
	Cycles, Low, High float64
	Seen              bool // the core's results have it
}

// Row is a block, with a cell for each core.
type Row struct {
	Block       string // as hexadecimal text, with what it was set to start from
	Category    string
	Alternative string // the set of alternatives that it is one of, "" of none
	Cells       []Cell
}

// Pair compares two cores.
type Pair struct {
	A          int    `json:"-"`
	B          int    `json:"-"`
	NameA      string `json:"a"`
	NameB      string `json:"b"`
	Joined     int    `json:"joined"`         // blocks that both results have
	OnlyA      int    `json:"accepted_a"`     // of these accepted on a alone
	OnlyB      int    `json:"accepted_b"`     //
	Neither    int    `json:"accepted_never"` //
	All        Line   `json:"all"`
	Categories []Line `json:"categories"`
	Sets       int    `json:"sets"` // of alternatives with two blocks or more that both accepted
	Ranked     []Set  `json:"ranked_differently"`
}

// Line is how the blocks of a category differ. Ratios are cycles on b by cycles on a.
type Line struct {
	Category string  `json:"category,omitempty"`
	Blocks   int     `json:"blocks"` // accepted on both
	Fewer    int     `json:"fewer"`  // take fewer cycles on b, by more than the threshold
	More     int     `json:"more"`   //
	P5       float64 `json:"p5_ratio"`
	Median   float64 `json:"median_ratio"`
	P95      float64 `json:"p95_ratio"`

	ratios []float64
}

// Set is a set of alternatives that two cores rank differently: of two blocks one is faster on a and the other on b, each by
// more than the threshold.
type Set struct {
	Name   string  `json:"name"`
	Blocks int     `json:"blocks"`
	Pairs  int     `json:"pairs"`  // of blocks that are ranked differently
	BestA  string  `json:"best_a"` // the fastest block on a
	BestB  string  `json:"best_b"`
	CostA  float64 `json:"cost_on_a"` // how much slower BestB is on a than BestA, as a share
	CostB  float64 `json:"cost_on_b"` // how much slower BestA is on b than BestB
}

// faster reports whether a cell is faster than another by more than a threshold, and by more than their intervals.
func (c Cell) faster(than Cell, threshold float64) bool {
	return c.Cycles*(1+threshold) < than.Cycles && c.High < than.Low
}

// Differ says whether a block takes fewer cycles on core b than on a (-1), more (1), or neither (0).
func (r Row) Differ(a, b int, threshold float64) int {
	switch x, y := r.Cells[a], r.Cells[b]; {
	case x.Cycles == 0 || y.Cycles == 0:
		return 0
	case y.faster(x, threshold):
		return -1
	case x.faster(y, threshold):
		return 1
	}
	return 0
}

// Compare compares each core with each after it.
func Compare(names []string, rows []Row, threshold float64) (pairs []Pair) {
	for a := range names {
		for b := a + 1; b < len(names); b++ {
			p := Pair{A: a, B: b, NameA: names[a], NameB: names[b], Ranked: []Set{}}
			p.lines(rows, threshold)
			p.sets(rows, threshold)
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func (p *Pair) lines(rows []Row, threshold float64) {
	lines := map[string]*Line{}
	for _, r := range rows {
		x, y := r.Cells[p.A], r.Cells[p.B]
		if !x.Seen || !y.Seen {
			continue
		}
		p.Joined++
		switch {
		case x.Cycles == 0 && y.Cycles == 0:
			p.Neither++
		case y.Cycles == 0:
			p.OnlyA++
		case x.Cycles == 0:
			p.OnlyB++
		}
		if x.Cycles == 0 || y.Cycles == 0 {
			continue
		}
		if lines[r.Category] == nil {
			lines[r.Category] = &Line{Category: r.Category}
		}
		for _, l := range []*Line{&p.All, lines[r.Category]} {
			l.Blocks++
			l.ratios = append(l.ratios, y.Cycles/x.Cycles)
			switch r.Differ(p.A, p.B, threshold) {
			case -1:
				l.Fewer++
			case 1:
				l.More++
			}
		}
	}
	p.All.summarise()
	p.Categories = []Line{}
	for _, l := range lines {
		l.summarise()
		p.Categories = append(p.Categories, *l)
	}
	slices.SortFunc(p.Categories, func(a, b Line) int { return cmp.Compare(a.Category, b.Category) })
}

func (l *Line) summarise() {
	n := len(l.ratios)
	if n == 0 {
		return
	}
	slices.Sort(l.ratios)
	l.P5, l.Median, l.P95 = l.ratios[n*5/100], stat.Median(l.ratios), l.ratios[min(n-1, n*95/100)]
	l.ratios = nil
}

// sets finds the alternatives that the two cores rank differently, the most expensive mistake first.
func (p *Pair) sets(rows []Row, threshold float64) {
	sets := map[string][]int{}
	for i, r := range rows {
		if r.Alternative != "" && r.Cells[p.A].Cycles > 0 && r.Cells[p.B].Cycles > 0 {
			sets[r.Alternative] = append(sets[r.Alternative], i)
		}
	}
	for name, members := range sets {
		if len(members) < 2 {
			continue
		}
		p.Sets++
		s := Set{Name: name, Blocks: len(members)}
		bestA, bestB := rows[members[0]], rows[members[0]]
		for i, m := range members {
			x := rows[m]
			if x.Cells[p.A].Cycles < bestA.Cells[p.A].Cycles {
				bestA = x
			}
			if x.Cells[p.B].Cycles < bestB.Cells[p.B].Cycles {
				bestB = x
			}
			for _, other := range members[:i] {
				y := rows[other]
				if x.Cells[p.A].faster(y.Cells[p.A], threshold) && y.Cells[p.B].faster(x.Cells[p.B], threshold) ||
					y.Cells[p.A].faster(x.Cells[p.A], threshold) && x.Cells[p.B].faster(y.Cells[p.B], threshold) {
					s.Pairs++
				}
			}
		}
		if s.Pairs == 0 {
			continue
		}
		s.BestA, s.BestB = bestA.Block, bestB.Block
		s.CostA = bestB.Cells[p.A].Cycles/bestA.Cells[p.A].Cycles - 1
		s.CostB = bestA.Cells[p.B].Cycles/bestB.Cells[p.B].Cycles - 1
		p.Ranked = append(p.Ranked, s)
	}
	slices.SortFunc(p.Ranked, func(a, b Set) int {
		return cmp.Or(cmp.Compare(max(b.CostA, b.CostB), max(a.CostA, a.CostB)), cmp.Compare(a.Name, b.Name))
	})
}
