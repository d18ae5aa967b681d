// Package account compares a program's run time with the sum over its blocks of executions × cycles, each block
// measured alone.
package account

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Block is a row of a result with its execution count.
type Block struct {
	Place
	Address      uint64  // in the file; 0: unknown
	Count        float64 // executions
	Instructions float64 // without the terminator
	Terminated   bool    // has a terminator
	Cycles       float64 // per execution, measured alone
	Measured     bool    // false: the block was rejected, and Cycles is unset
	InPlace      float64 // mean cycles in its program, from branch records; 0 if unknown
	Line         string  // file:line of its source, "" if unknown
}

// A Place is a function of a file.
type Place struct {
	File     string `json:"file"`
	Function string `json:"function"`
}

// A Run is the program's run without tools.
type Run struct {
	Program         []string  `json:"program"`
	UserSeconds     []float64 `json:"user_seconds"`      // of each run
	CyclesPerSecond float64   `json:"cycles_per_second"` // of the core, measured during the runs
	// Samples counts samples of time by function.
	Samples map[Place]float64 `json:"-"`
	// Missed counts what models of caches and of a branch predictor missed; nil if they were not asked.
	Missed map[Place]Missed `json:"-"`
}

// Missed counts what a function missed.
type Missed struct {
	L1       float64 `json:"l1_loads"` // loads that miss L1
	L2       float64 `json:"l2_loads"`
	Branches float64 `json:"branches"` // conditional branches
}

// Cycles are what a miss takes beside a hit, if nothing else goes on meanwhile.
const (
	l1MissCycles     = 10 // L2 answers after 14 to 16 cycles, L1 after 4 or 5 (uops.info, Golden Cove and Zen 4)
	l2MissCycles     = 60 // L3 of a server, some 70 to 75 cycles (Golden Cove)
	mispredictCycles = 17 // Golden Cove (Intel 64 and IA-32 Architectures Optimization Reference Manual)
)

// loads and branches are the cycles that the misses take.
func (m Missed) loads() float64 { return l1MissCycles*m.L1 + l2MissCycles*m.L2 }

func (m Missed) branches() float64 { return mispredictCycles * m.Branches }

func (m Missed) cycles() float64 { return m.loads() + m.branches() }

type Table struct {
	Run
	Cycles       float64 `json:"cycles"`           // of the median run
	BlockCycles  float64 `json:"block_cycles"`     // the sum of count × cycles
	Share        float64 `json:"share"`            // of the program's cycles, explained by blocks
	Instructions float64 `json:"instructions"`     // executed in blocks
	Transfers    float64 `json:"transfers"`        // executed terminators, which no block includes
	Unmeasured   float64 `json:"unmeasured_share"` // share of Instructions in rejected blocks
	Missed       *Misses `json:"missed,omitempty"`
	Functions    []Line  `json:"functions"` // by descending cycles
}

// Misses are the misses of the whole program.
type Misses struct {
	Missed
	LoadCycles   float64 `json:"load_cycles"`
	BranchCycles float64 `json:"branch_cycles"`
	Share        float64 `json:"share"` // of the program's cycles, explained by blocks and misses
}

// A Line is one function.
type Line struct {
	Place
	Cycles      *float64 `json:"cycles,omitempty"` // from time samples; nil without
	BlockCycles float64  `json:"block_cycles"`
	Share       *float64 `json:"share,omitempty"` // of Cycles, explained by blocks
	WithMisses  *float64 `json:"share_with_misses,omitempty"`
	Unmeasured  float64  `json:"unmeasured_share"`
	InPlace     Timed    `json:"in_place,omitzero"`
	Hottest     string   `json:"hottest_line,omitempty"` // source line of the block with most cycles
	total, most float64
	missed      Missed
}

// Timed sums count × cycles of the measured blocks whose cycles in the program are known.
type Timed struct {
	Cycles float64 `json:"cycles"` // in the program
	Alone  float64 `json:"block_cycles"`
}

// Met reports whether any sample lies in a file with blocks.
func Met(blocks []Block, samples map[Place]float64) bool {
	sampled := map[string]bool{}
	for p := range samples {
		sampled[p.File] = true
	}
	return slices.ContainsFunc(blocks, func(b Block) bool { return sampled[b.File] })
}

func Tabulate(blocks []Block, run Run) Table {
	t := Table{Run: run}
	seconds := slices.Sorted(slices.Values(run.UserSeconds))
	if n := len(seconds); n > 0 {
		t.Cycles = (seconds[n/2] + seconds[(n-1)/2]) / 2 * run.CyclesPerSecond
	}
	lines := map[Place]*Line{}
	at := func(p Place) *Line {
		if lines[p] == nil {
			lines[p] = &Line{Place: p}
		}
		return lines[p]
	}
	unmeasured := 0.0
	for _, b := range blocks {
		l, executed := at(b.Place), b.Count*b.Instructions
		t.Instructions += executed
		l.total += executed
		if b.Terminated {
			t.Transfers += b.Count
		}
		if !b.Measured {
			unmeasured += executed
			l.Unmeasured += executed
			continue
		}
		alone := b.Count * b.Cycles
		t.BlockCycles, l.BlockCycles = t.BlockCycles+alone, l.BlockCycles+alone
		if alone > l.most {
			l.most, l.Hottest = alone, b.Line
		}
		if b.InPlace > 0 {
			l.InPlace.Cycles += b.Count * b.InPlace
			l.InPlace.Alone += alone
		}
	}
	samples := 0.0
	for _, n := range run.Samples {
		samples += n
	}
	for p, n := range run.Samples {
		cycles := n / samples * t.Cycles
		at(p).Cycles = &cycles
	}
	t.Unmeasured, t.Share = ratio(unmeasured, t.Instructions), ratio(t.BlockCycles, t.Cycles)
	if run.Missed != nil {
		t.Missed = &Misses{}
		for p, m := range run.Missed {
			at(p).missed = m
			t.Missed.L1, t.Missed.L2, t.Missed.Branches = t.Missed.L1+m.L1, t.Missed.L2+m.L2, t.Missed.Branches+m.Branches
		}
		t.Missed.LoadCycles, t.Missed.BranchCycles = t.Missed.loads(), t.Missed.branches()
		t.Missed.Share = ratio(t.BlockCycles+t.Missed.cycles(), t.Cycles)
	}
	for _, l := range lines {
		l.Unmeasured = ratio(l.Unmeasured, l.total)
		if l.Cycles != nil {
			share, with := ratio(l.BlockCycles, *l.Cycles), ratio(l.BlockCycles+l.missed.cycles(), *l.Cycles)
			if l.Share = &share; run.Missed != nil {
				l.WithMisses = &with
			}
		}
		t.Functions = append(t.Functions, *l)
	}
	slices.SortFunc(t.Functions, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(b.BlockCycles, a.BlockCycles),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Function, b.Function))
	})
	return t
}

func (l Line) weight() float64 {
	if l.Cycles != nil {
		return *l.Cycles
	}
	return l.BlockCycles + l.missed.cycles()
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Report formats the table as text with the given number of functions.
func (t Table) Report(most int) string {
	var s strings.Builder
	seconds := slices.Sorted(slices.Values(t.UserSeconds))
	low, high := 0.0, 0.0
	if len(seconds) > 0 {
		low, high = seconds[0], seconds[len(seconds)-1]
	}
	fmt.Fprintf(&s, "program     %s\n", strings.Join(t.Program, " "))
	fmt.Fprintf(&s, "measured    %.4g cycles: %.3f to %.3f s of user time in %d runs, at %.3f GHz\n", t.Cycles, low, high, len(seconds), t.CyclesPerSecond/1e9)
	fmt.Fprintf(&s, "blocks      %.4g cycles, the sum of count × cycles: %.2f of what was measured\n", t.BlockCycles, t.Share)
	if m := t.Missed; m != nil {
		fmt.Fprintf(&s, "loads       %.4g cycles, if each of %.4g that miss L1 takes %d more, and each of %.4g that miss L2 another %d: %.2f\n",
			m.LoadCycles, m.L1, l1MissCycles, m.L2, l2MissCycles, ratio(m.LoadCycles, t.Cycles))
		fmt.Fprintf(&s, "branches    %.4g cycles, if each of %.4g that are mispredicted takes %d: %.2f\n",
			m.BranchCycles, m.Branches, mispredictCycles, ratio(m.BranchCycles, t.Cycles))
		fmt.Fprintf(&s, "together    %.2f of what was measured\n", m.Share)
	}
	fmt.Fprintf(&s, "left out    %.4g transfers of control that end blocks, and %.2f %% of %.4g instructions, in blocks that were rejected\n\n",
		t.Transfers, 100*t.Unmeasured, t.Instructions)
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	timed := slices.ContainsFunc(t.Functions, func(l Line) bool { return l.InPlace.Cycles > 0 })
	inPlace, misses := "", ""
	if t.Missed != nil {
		misses = "with misses\t"
	}
	if timed {
		inPlace = "in place\tthose alone\t"
	}
	fmt.Fprintln(w, "cycles\tof all\tblocks\tblocks/cycles\t"+misses+"rejected\t"+inPlace+"function")
	for _, l := range t.Functions[:min(most, len(t.Functions))] {
		cycles, share, of := "-", "-", "-"
		if l.Cycles != nil {
			cycles, of, share = fmt.Sprintf("%.3g", *l.Cycles), fmt.Sprintf("%.1f %%", 100*ratio(*l.Cycles, t.Cycles)), fmt.Sprintf("%.2f", *l.Share)
			if l.WithMisses != nil {
				misses = fmt.Sprintf("%.2f\t", *l.WithMisses)
			}
		} else if misses != "" {
			misses = "-\t"
		}
		if timed {
			inPlace = fmt.Sprintf("%.3g\t%.3g\t", l.InPlace.Cycles, l.InPlace.Alone)
		}
		where := path.Base(l.File)
		if l.Hottest != "" {
			where += ", most at " + l.Hottest
		}
		fmt.Fprintf(w, "%s\t%s\t%.3g\t%s\t%s%.1f %%\t%s%s (%s)\n", cycles, of, l.BlockCycles, share, misses, 100*l.Unmeasured, inPlace, l.Function, where)
	}
	w.Flush()
	return s.String()
}
