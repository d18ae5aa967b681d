package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/matrix"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

const matrixTitle = "Of a function in several builds"

type matrixFlags struct {
	compilers []string
	levels    []string
	sizes     []int
	files     []string // source files
	expect    string
	update    bool
}

func (m *matrixFlags) declare(f *cli.Flags) {
	m.levels, m.sizes = []string{"O0", "O1", "O2", "O3"}, []int{10, 100, 1000}
	f.Operands = &m.files
	f.Section(matrixTitle)
	cli.Parsed(f, &m.compilers, parseList, "matrix", "LIST", "compilers, with flags if need be: 'gcc-12,clang-22 -march=native'; rustc and go too")
	cli.Parsed(f, &m.levels, parseList, "levels", "LIST", "levels of optimisation, each with each compiler; go optimises with "+
		"all but O0").Fallback = "O0,O1,O2,O3"
	cli.Parsed(f, &m.sizes, parseSizes, "sizes", "LIST", "three sizes or more; each becomes the program's argument").Fallback = "10,100,1000"
	f.Text(&m.expect, "expect", "FILE", "compare with what this file expects; exit 1 if a build grows faster or has more than "+
		"-max-ratio times the instructions")
	f.Toggle(&m.update, "update", "write what was counted into the file of -expect")
}

func parseList(s string) ([]string, error) {
	var seen []string
	return cli.ListOf(s, func(one string) (string, error) {
		if one == "" {
			return "", errors.New("write names with commas between them")
		}
		if one = strings.TrimPrefix(one, "-"); slices.Contains(seen, one) {
			return "", fmt.Errorf("%s is there twice", one)
		}
		seen = append(seen, one)
		return one, nil
	})
}

func parseSizes(s string) ([]int, error) {
	sizes, err := cli.ListOf(s, func(one string) (int, error) {
		return cli.WholeNumber(one, 1, math.MaxInt, "write whole numbers from 1 on with commas between them, such as 10,100,1000")
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(sizes)
	if sizes = slices.Compact(sizes); len(sizes) < 3 {
		return nil, errors.New("an order of growth takes three sizes or more, such as 10,100,1000")
	}
	return sizes, nil
}

func (m *matrixFlags) check(c *countCmd) error {
	var r cli.Rules
	if of := c.flags.Of(matrixTitle); len(m.compilers) == 0 {
		r.Not(of != "", "-%s is for -matrix: name the compilers with that, such as -matrix gcc,clang", of)
		r.Not(len(m.files) > 0, "unexpected argument %q: %s", cli.First(m.files), c.flags.Stray)
		return r.Err
	}
	r.Not(len(m.files) != 1, "name one source for -matrix to compile, such as sums.c; %s", cli.HowMany(m.files))
	r.Not(c.function == "", "no function to count: name one with -func")
	r.Not(c.flags.Of(growthTitle, "max-ratio") != "", "-matrix finds how a count grows by itself, with -sizes: leave out -grow, -a and -b")
	r.Not(c.image != "" || c.JIT, "-matrix counts in the programs that it compiles: leave out -program and -jit")
	r.Not(m.update && m.expect == "", "-update needs the file to write: name it with -expect")
	return r.Err
}

type matrixResult struct {
	Function string        `json:"function"`
	Source   string        `json:"source"`
	Sizes    []int         `json:"sizes"`
	Builds   []matrix.Cell `json:"builds"`
	Lost     int           `json:"lost"`
	judged   bool
	// Incomplete means interrupted: Builds lacks those not fully counted.
	Incomplete bool `json:"incomplete,omitzero"`
}

func (c *countCmd) countMatrix(ctx context.Context, std cli.Streams) error {
	m := &c.matrix
	rows, err := m.read()
	if err != nil {
		return err
	}
	p := matrix.Plan{Source: m.files[0], Function: c.function, Sizes: m.sizes, Args: c.words, Count: c.Options, Kept: std.Kept}
	for _, compiler := range m.compilers {
		for _, level := range m.levels {
			p.Builds = append(p.Builds, matrix.Build{Compiler: compiler, Level: level})
		}
	}
	done := cli.Progress(c.out.Notes(std), p.Steps(), "counts")
	counted := 0
	p.Done = func(n int) {
		counted = n
		done.Step(n)
	}
	p.Count.Stepped = func(int) { done.Step(counted) } // one count may take minutes
	cells, err := matrix.Run(ctx, p)
	done.End()
	r := matrixResult{Function: c.function, Source: m.files[0], Sizes: m.sizes, Builds: cells,
		judged: m.expect != "" && !m.update && err == nil, Incomplete: err != nil}
	return cli.Ended(err, len(cells) > 0, func() error {
		if r.judged {
			r.Lost = matrix.Compare(c.function, m.sizes, cells, rows, c.maxRatio)
		}
		if m.update && err == nil {
			if err := m.write(matrix.Merge(rows, matrix.Expectation(c.function, m.sizes, cells))); err != nil {
				return err
			}
		}
		return c.out.Reject(std, r.Lost > 0, r, r.report())
	})
}

func (m *matrixFlags) read() ([]matrix.Row, error) {
	if m.expect == "" {
		return nil, nil
	}
	file, err := os.Open(m.expect)
	if m.update && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cli.BadUsage("-expect: %w; -update writes what is counted now", err)
	}
	defer file.Close()
	rows, err := matrix.Read(file)
	if err != nil {
		return nil, cli.BadUsage("-expect %s: %w", m.expect, err)
	}
	return rows, nil
}

func (m *matrixFlags) write(rows []matrix.Row) error {
	if err := cli.WriteWhole(m.expect, func(w io.Writer) error { return matrix.Write(w, rows) }); err != nil {
		return fmt.Errorf("-expect: %w", err)
	}
	return nil
}

func (r matrixResult) report() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s of %s: instructions by size\n", r.Function, filepath.Base(r.Source))
	header := []string{"compiler", "level"}
	for _, n := range r.Sizes {
		header = append(header, fmt.Sprint(n))
	}
	counts := cli.NewTable("ll"+strings.Repeat("r", len(r.Sizes))+"ll", append(header, "growth", "")...)
	for _, b := range r.Builds {
		cells := []string{b.Compiler, b.Level}
		for _, n := range b.Instructions {
			cells = append(cells, fmt.Sprint(n))
		}
		counts.Row(append(cells, string(b.Growth), outcomeText(b))...)
	}
	w.WriteString(counts.String())
	again := false
	for _, b := range r.Builds {
		for _, n := range b.Notes {
			fmt.Fprintf(&w, "%s -%s, size %s: %s\n", b.Compiler, b.Level, strings.ReplaceAll(strings.Trim(fmt.Sprint(n.Sizes), "[]"), " ", ", "), n.Text)
		}
		again = again || b.Again
	}
	if again {
		w.WriteString(calledAgain)
	}
	if r.Incomplete {
		w.WriteString("incomplete: interrupted; builds that were not counted are left out, and nothing is compared or written\n")
	}
	if r.judged {
		fmt.Fprintf(&w, "%s: %d lost an optimisation\n", words.Plural(len(r.Builds), "build"), r.Lost)
	}
	return w.String()
}

func outcomeText(b matrix.Cell) string {
	switch b.Outcome {
	case matrix.Lost, matrix.Better:
		return fmt.Sprintf("%s: %s and %s at %d were expected", b.Outcome, b.Expected.Growth,
			words.Plural(int(b.Expected.Instructions), "instruction"), b.Expected.Size)
	}
	return string(b.Outcome)
}
