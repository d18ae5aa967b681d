package study

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
)

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
		m := member{name: row.Cell("name"), stdin: row.Cell("stdin"), sides: make([][]string, 2)}
		for column, words := range map[string]*[]string{"a": &m.sides[0], "b": &m.sides[1], "args": &m.args} {
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

// ofSuite compares each program by measured. A program's error becomes its Failure, and failed is the last; any other
// error ends the suite.
func (r *comparisons) ofSuite(suite []member, placed []placement, measured func(i int) ([]*Comparison, error)) (failed error) {
	for i, m := range suite {
		out, err := measured(i)
		if bad := (*program.Error)(nil); errors.As(err, &bad) {
			failed = m.named(err)
			out, err = []*Comparison{{A: placed[i].commands[0], B: placed[i].commands[1], Failure: err.Error()}}, nil
		}
		if out != nil {
			out[0].Name = m.name
			r.all = append(r.all, out[0])
		}
		if r.end = err; err != nil {
			break
		}
	}
	adjust(r.all)
	r.what, r.left = "program", len(suite)-len(r.all)
	var programs [][]compare.Pair
	for _, out := range concluded(r.all) {
		programs = append(programs, out.Pairs)
	}
	if len(programs) > 0 {
		of := compare.OfSuite(programs)
		r.suite = &of
	}
	return failed
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
