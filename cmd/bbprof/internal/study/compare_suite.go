package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
)

// member is a program of a suite: two command lines that run it, or with -link, that link it.
type member struct {
	name, stdin string
	words       [2][]string
	args        []string
}

// readSuite reads a file with the columns name, a and b, and optionally args and stdin.
func readSuite(file string, stdin io.Reader) (suite []member, err error) {
	in, err := resultfile.OpenRows(file, stdin, "name", "a", "b")
	if errors.As(err, new(*fs.PathError)) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w; write a header, name,a,b, and a line for each program", err)
	}
	defer in.Close()
	for row, err := range in.All() {
		if err != nil {
			return nil, err
		}
		m := member{name: row.Cell("name"), stdin: row.Cell("stdin")}
		for column, words := range map[string]*[]string{"a": &m.words[0], "b": &m.words[1], "args": &m.args} {
			if *words, err = program.Words(row.Cell(column)); err == nil && len(*words) == 0 && column != "args" {
				err = fmt.Errorf("column %s is empty: write a command line", column)
			}
			if err != nil {
				return nil, row.Error(err)
			}
		}
		suite = append(suite, m)
	}
	if suite == nil {
		err = in.Error(errors.New("it names no program: write a header, name,a,b, and a line for each"))
	}
	return suite, err
}

// runSuite compares each program of a suite. It links all before it measures any, to find link errors early. A failure
// of one does not affect the others.
func (c *compareCmd) runSuite(ctx context.Context, std cli.Streams) error {
	suite, err := readSuite(c.suite, std.In)
	if err != nil {
		return cli.Usage(err)
	}
	var sides []placement
	for _, m := range suite {
		s, close, err := c.place(ctx, m.words[:], slices.Concat(m.args, c.args), std)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		defer close()
		sides = append(sides, s)
	}
	each := c.runs(sides[0])
	done := cli.Progress(c.out.Notes(std), len(suite)*each, "runs")
	all, end, failed := compareSuite(suite, sides, func(i int) ([]*Comparison, error) {
		return c.runMember(ctx, suite[i], sides[i], std, func(n int) { done.Step(i*each + n) })
	})
	done.End()
	r := comparisons{compareCmd: c, all: all, what: "program", left: len(suite) - len(all), end: end}
	var programs [][]compare.Pair
	for _, out := range all {
		if out.concluded() {
			programs = append(programs, out.Pairs)
		}
	}
	if len(programs) > 0 {
		of := compare.OfSuite(programs)
		r.suite = &of
	}
	return cmp.Or(r.finish(std), failed)
}

// compareSuite compares each program by do. A program's error becomes its Failure, and failed holds the last; end is
// any other error, and comes with the earlier programs.
func compareSuite(suite []member, sides []placement, do func(i int) ([]*Comparison, error)) (all []*Comparison, end, failed error) {
	for i, m := range suite {
		out, err := do(i)
		if bad := (*program.Error)(nil); errors.As(err, &bad) {
			failed = fmt.Errorf("%s: %w", m.name, err)
			out = []*Comparison{{A: sides[i].commands[0], B: sides[i].commands[1], Failure: err.Error()}}
		} else {
			end = err
		}
		if out != nil {
			out[0].Name = m.name
			all = append(all, out[0])
		}
		if end != nil {
			break
		}
	}
	adjust(all)
	return all, end, failed
}

func (c *compareCmd) runMember(ctx context.Context, m member, sides placement, std cli.Streams, step func(int)) ([]*Comparison, error) {
	programs := c.programs
	programs.Stdin = cmp.Or(m.stdin, programs.Stdin)
	r, err := programs.Runner(c.measuring.CPUs, std)
	if err != nil {
		return nil, err
	}
	return c.measurePrograms(ctx, r, sides, std, step)
}

func suiteLines(t *measuring.Reporter, s *compare.Suite) {
	interval := ""
	if s.Low > 0 {
		interval = fmt.Sprintf(", 95 %% interval over programs %.3f to %.3f", s.Low, s.High)
	}
	t.Line("speed-up", "of b, geometric mean over programs and layouts: %.3f%s", s.Mean, interval)
	t.Line("best", "%.3f in %s", s.Speedups[s.Best], placeText(s.Layouts[s.Best]))
	t.Line("worst", "%.3f in %s", s.Speedups[s.Worst], placeText(s.Layouts[s.Worst]))
	slower := 0
	for _, x := range s.Speedups {
		if x < 1 {
			slower++
		}
	}
	t.Line("layouts", "in %d of %d b looks slower over the suite, in %d faster", slower, len(s.Speedups), len(s.Speedups)-slower)
}

func placeText(l compare.Layout) string {
	text := fmt.Sprintf("layout %d: environment +%d bytes, stack -%d, heap +%d", l.Number, l.Env, l.Stack, l.Heap)
	if l.Link > 0 {
		text += fmt.Sprintf(", link seed %d", l.Link)
	}
	if l.Order != "" {
		text += ", objects in " + l.Order + " order"
	}
	return text
}
