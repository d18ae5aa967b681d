// Package matrix tests what compilers make of a function: it compiles a source with each compiler at each level, counts
// the function's instructions at several sizes, fits their growth, and compares it with an expectation. Counts are
// exact, so one run each suffices; timing the same programs shows what times would have said.
//
//	compile → count at each size → fit the order of growth → compare with the expectation
package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/count"
	"github.com/bbprof/bbprof/internal/stat"
)

// Plan says what to compile and count.
type Plan struct {
	Source   string
	Function string
	Builds   []Build
	Sizes    []int    // ascending
	Args     []string // of the program; a size replaces {}, or is appended
	Count    count.Options
	Runs     int // timed runs per program and size; 0 is none
	Timing   program.Options
	Done     func(n int) // receives the number of counts and timed runs so far
}

// Steps returns the number of counts and timed runs.
func (p Plan) Steps() int { return len(p.Builds) * len(p.Sizes) * (1 + p.Runs) }

// Cell is the result for one build.
type Cell struct {
	Build
	Instructions []uint64 `json:"instructions"` // at each size
	Growth       Order    `json:"growth"`
	FitError     float64  `json:"fit_error"` // the largest, as a share of the count
	Timing       *Timing  `json:"timing,omitempty"`
	Expected     *Row     `json:"expected,omitempty"`
	Outcome      Outcome  `json:"outcome,omitempty"`
}

// Timing is what times say about the same programs.
type Timing struct {
	Cycles []float64 `json:"median_cycles"` // of the whole program, at each size
	// Noise is the largest range of runs of one size, as a share of their median.
	Noise  float64 `json:"noise"`
	Growth Order   `json:"growth"` // of the medians
	// Agree is in how many of Runs one run of each size would have shown the counts' order.
	Agree int `json:"agree"`
	Runs  int `json:"runs"`
}

// buildPrograms holds a build's programs, one per size.
type buildPrograms struct {
	cell     Cell
	commands []program.Command
}

// Run compiles and counts. A *program.Error blames a compiler, the source or the function. If ctx ends, its error comes
// with the counted builds and the complete rounds of timing.
func Run(ctx context.Context, p Plan) ([]Cell, error) {
	dir, err := os.MkdirTemp("", "bbprof-matrix")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all, err := p.all(ctx, dir)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	var cells []Cell
	for _, b := range all {
		cells = append(cells, b.cell)
	}
	return cells, err
}

// all returns the builds, counted and, if planned, timed.
func (p Plan) all(ctx context.Context, dir string) (all []*buildPrograms, err error) {
	done := 0
	for i, b := range p.Builds {
		to := filepath.Join(dir, strconv.Itoa(i), "program")
		if err := os.Mkdir(filepath.Dir(to), 0o755); err != nil {
			return all, err
		}
		if err := b.compile(ctx, p.Source, to); err != nil {
			return all, err
		}
		one, err := p.count(ctx, b, to, func() { done++; p.Done(done) })
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	if p.Runs > 0 {
		err = p.time(ctx, all, func() { done++; p.Done(done) })
	}
	return all, err
}

func (p Plan) count(ctx context.Context, b Build, path string, done func()) (*buildPrograms, error) {
	one := &buildPrograms{cell: Cell{Build: b}}
	var counts []float64
	for _, n := range p.Sizes {
		words, err := program.Fill(append([]string{path}, p.Args...), strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		c, err := program.NewCommand(words)
		if err != nil {
			return nil, err
		}
		r, err := count.Function(ctx, c, p.Function, p.Count)
		if err != nil {
			return nil, fmt.Errorf("%s -%s, size %d: %w", b.Compiler, b.Level, n, err)
		}
		one.commands = append(one.commands, c)
		one.cell.Instructions = append(one.cell.Instructions, r.Instructions)
		counts = append(counts, float64(r.Instructions))
		done()
	}
	one.cell.Growth, one.cell.FitError = Fit(p.Sizes, counts)
	return one, nil
}

// time times all programs in rounds, each once per round in random order.
func (p Plan) time(ctx context.Context, all []*buildPrograms, done func()) error {
	r, err := program.NewRunner(p.Timing)
	if err != nil {
		return err
	}
	defer r.Close()
	cycles, err := experiment.Run(ctx, len(all)*len(p.Sizes), experiment.Plan{Rounds: p.Runs, Seed: 1}, func(ctx context.Context, i int) (float64, error) {
		sample, err := r.Run(ctx, all[i/len(p.Sizes)].commands[i%len(p.Sizes)], program.Setup{})
		if err == nil {
			done()
		}
		return sample.Cycles, err
	})
	rounds := experiment.Complete(cycles)
	for i := range cycles {
		cycles[i] = cycles[i][:rounds]
	}
	for i, b := range all {
		if rounds > 0 {
			b.cell.Timing = timing(p.Sizes, cycles[i*len(p.Sizes):][:len(p.Sizes)], b.cell.Growth)
		}
	}
	return err
}

func timing(sizes []int, cycles [][]float64, growth Order) *Timing {
	t := &Timing{Runs: len(cycles[0])}
	for _, runs := range cycles {
		sorted := slices.Sorted(slices.Values(runs))
		median := stat.Median(sorted)
		t.Cycles = append(t.Cycles, median)
		t.Noise = max(t.Noise, (sorted[len(sorted)-1]-sorted[0])/median)
	}
	t.Growth, _ = Fit(sizes, t.Cycles)
	for run := range t.Runs {
		var once []float64
		for _, runs := range cycles {
			once = append(once, runs[run])
		}
		if order, _ := Fit(sizes, once); order == growth {
			t.Agree++
		}
	}
	return t
}
