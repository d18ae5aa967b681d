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
	"slices"
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
	Again        bool     `json:"called_again,omitzero"` // after the calls that count
	Notes        []Note   `json:"notes,omitempty"`
	Expected     *Row     `json:"expected,omitempty"`
	Outcome      Outcome  `json:"outcome,omitempty"`
}

// Note is a remark on the counts at some sizes.
type Note struct {
	Sizes []int  `json:"sizes"`
	Text  string `json:"text"`
}

func (c *Cell) add(size int, r count.Result) {
	c.Instructions, c.Again = append(c.Instructions, r.Instructions), c.Again || r.Again
	for _, text := range r.Remarks() {
		i := slices.IndexFunc(c.Notes, func(n Note) bool { return n.Text == text })
		if i < 0 {
			i, c.Notes = len(c.Notes), append(c.Notes, Note{Text: text})
		}
		c.Notes[i].Sizes = append(c.Notes[i].Sizes, size)
	}
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
		r, err := p.countOne(ctx, c)
		if err != nil {
			return cell, fmt.Errorf("%s -%s, size %d: %w", b.Compiler, b.Level, n, err)
		}
		cell.add(n, r)
		counts = append(counts, float64(r.Instructions))
		p.Done(done + len(counts))
	}
	cell.Growth = fit(p.Sizes, counts)
	return cell, nil
}

func init() { journal.Register(count.Result{}) }

// countOne asks the journal before it counts; the program's content tells whether it is the same.
func (p Plan) countOne(ctx context.Context, c launch.Command) (count.Result, error) {
	key := ""
	if p.Kept != nil {
		key = fmt.Sprintf("%s %s %q", launch.Content(c.Exe.Path), p.Function, c.Args)
	}
	if r, ok := p.Kept.Take(key); ok {
		return r.(count.Result), nil
	}
	o := p.Count
	o.Whole = true
	r, err := count.Function(ctx, c, p.Function, o)
	if err == nil {
		err = p.Kept.Keep(key, r)
	}
	return r, err
}
