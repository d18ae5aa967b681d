// Package matrix tests what compilers make of a function: it compiles a source with each compiler at each level, counts
// the function's instructions at several sizes, fits their growth, and compares it with an expectation. Counts are
// exact, so one run each suffices.
//
//	compile → count at each size → fit the order of growth → compare with the expectation
package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/count"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
)

type Plan struct {
	Source   string
	Function string
	Builds   []Build
	Sizes    []int    // ascending
	Args     []string // of the program; a size replaces {}, or is appended
	Count    count.Options
	Done     func(n int) // receives the number of counts so far
	Kept     *journal.Journal
}

func (p Plan) Steps() int { return len(p.Builds) * len(p.Sizes) }

type Cell struct {
	Build
	Instructions []uint64 `json:"instructions"` // at each size
	Growth       Order    `json:"growth"`
	Expected     *Row     `json:"expected,omitempty"`
	Outcome      Outcome  `json:"outcome,omitempty"`
}

// Run compiles and counts. A *launch.Error blames a compiler, the source or the function. If ctx ends, its error comes
// with the builds that were counted.
func Run(ctx context.Context, p Plan) (cells []Cell, err error) {
	dir, err := os.MkdirTemp("", "bbprof-matrix")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for i, b := range p.Builds {
		to := filepath.Join(dir, strconv.Itoa(i), "program")
		if err = os.Mkdir(filepath.Dir(to), 0o755); err == nil {
			err = b.compile(ctx, p.Source, to)
		}
		var c Cell
		if err == nil {
			c, err = p.count(ctx, b, to, i*len(p.Sizes))
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		} else if err != nil {
			return cells, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

func (p Plan) count(ctx context.Context, b Build, path string, done int) (Cell, error) {
	cell := Cell{Build: b}
	var counts []float64
	for _, n := range p.Sizes {
		words, err := launch.Fill(append([]string{path}, p.Args...), strconv.Itoa(n))
		if err != nil {
			return cell, err
		}
		c, err := launch.NewCommand(words)
		if err != nil {
			return cell, err
		}
		instructions, err := p.countOne(ctx, c)
		if err != nil {
			return cell, fmt.Errorf("%s -%s, size %d: %w", b.Compiler, b.Level, n, err)
		}
		cell.Instructions, counts = append(cell.Instructions, instructions), append(counts, float64(instructions))
		p.Done(done + len(counts))
	}
	cell.Growth = fit(p.Sizes, counts)
	return cell, nil
}

// countOne asks the journal before it counts; the program's content tells whether it is the same.
func (p Plan) countOne(ctx context.Context, c launch.Command) (uint64, error) {
	key := ""
	if p.Kept != nil {
		key = fmt.Sprintf("%s %s %q", launch.Content(c.Exe.Path), p.Function, c.Args)
	}
	if n, ok := p.Kept.Take(key); ok {
		return n.(uint64), nil
	}
	r, err := count.Function(ctx, c, p.Function, p.Count)
	if err == nil {
		err = p.Kept.Keep(key, r.Instructions)
	}
	return r.Instructions, err
}
