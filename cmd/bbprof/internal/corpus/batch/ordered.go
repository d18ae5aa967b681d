package batch

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// orderedRows reads a file's rows by number. It reads a sorted file sequentially; for any other, a first pass notes
// each row's offset.
type orderedRows struct {
	file io.ReaderAt
	size int64
	in   *resultfile.LineReader
	row  int      // index of the column
	rows []rowAt  // unread rows by number; nil if the file is sorted
	lost []string // headers of runs in rows that a later one of their number replaces
}

type rowAt struct{ row, at int64 }

// openOrdered makes a first pass over the first size bytes of a file. It calls each with every row in file order;
// the cells are valid until each returns.
func openOrdered(f io.ReaderAt, size int64, each func(in *resultfile.LineReader, cells []string) error) (*orderedRows, error) {
	o := &orderedRows{file: f, size: size}
	inOrder, last := true, int64(0)
	err := o.pass(func(row int64, cells []string) error {
		inOrder, last = inOrder && row > last, row
		return each(o.in, cells)
	})
	if err == nil && !inOrder {
		err = o.pass(func(row int64, _ []string) error {
			o.rows = append(o.rows, rowAt{row, o.in.At})
			return nil
		})
		slices.SortStableFunc(o.rows, func(a, b rowAt) int { return cmp.Compare(a.row, b.row) })
		if err == nil {
			err = o.keepLast()
		}
	}
	if err == nil {
		err = o.rewind()
	}
	return o, err
}

// keepLast drops rows that a later one replaces, as one measured again does that was rejected as busy_core.
func (o *orderedRows) keepLast() error {
	header := o.in.Schema().Index("run_header")
	kept := o.rows[:0]
	for i, r := range o.rows {
		if i+1 == len(o.rows) || o.rows[i+1].row != r.row {
			kept = append(kept, r)
			continue
		}
		cells, err := rowFrom(o.file, r.at, o.in.Lines())
		if err != nil {
			return err
		}
		if header >= 0 && cells[header] != "" {
			o.lost = append(o.lost, cells[header])
		}
	}
	o.rows = kept
	return nil
}

func (o *orderedRows) pass(f func(row int64, cells []string) error) error {
	if err := o.rewind(); err != nil {
		return err
	}
	for {
		row, cells, err := nextRow(o.in, o.row)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(row, cells)
		}
		if err != nil {
			return err
		}
	}
}

// nextRow reads a row, and its number from a column.
func nextRow(in *resultfile.LineReader, column int) (row int64, cells []string, err error) {
	if cells, err = in.NextResult(); err != nil {
		return 0, nil, err
	}
	if row = number(cells[column]); row < 1 || row > maxNumber {
		err = &resultfile.DamageError{Line: in.Line, What: fmt.Sprintf("its number (column row) is not from 1 to %d", int64(maxNumber))}
	}
	return row, cells, err
}

func (o *orderedRows) rewind() (err error) {
	if o.in, err = resultfile.NewLineReader(io.NewSectionReader(o.file, 0, o.size), ""); err != nil {
		return err
	}
	if o.in.Schema() == nil {
		return errors.New("it has no row")
	}
	if o.row = o.in.Schema().Index("row"); o.row < 0 {
		return errors.New("its rows have no number (column row), so it is not a result of batch")
	}
	return nil
}

func (o *orderedRows) schema() resultfile.Schema { return o.in.Schema() }

// next returns the next row by number, and io.EOF after the last. The cells are valid until the call after it.
func (o *orderedRows) next() (row int64, cells []string, err error) {
	if o.rows == nil {
		return nextRow(o.in, o.row)
	}
	if len(o.rows) == 0 {
		return 0, nil, io.EOF
	}
	next := o.rows[0]
	o.rows = o.rows[1:]
	cells, err = rowFrom(o.file, next.at, o.in.Lines())
	return next.row, cells, err
}

// Sort sorts a file's rows into input order. It reads the open file, writes a second one beside it, locks that and
// renames it, so that a complete file exists at all times. Call it after Flush.
func (o *Output) Sort() error {
	if o.pipe != nil || o.store.end == 0 { // JSON lines without a row are an empty file
		return nil
	}
	to, err := o.store.sortBeside(o.ended)
	if err != nil {
		return &WriteError{fmt.Errorf("sorting %s, which is complete but unsorted: %w", o.store.path, err)}
	}
	o.store.file.Close()
	o.store.file = to
	return nil
}

// sortBeside makes the new file, locked and renamed to the path.
func (s *store) sortBeside(ended [2]string) (_ *os.File, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	to, err := atomicfile.CreateBeside(s.path, "sorting", info.Mode().Perm())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			to.Close()
			os.Remove(to.Name())
		}
	}()
	if err := sortInto(to, s.file, s.end, ended); err != nil {
		return nil, err
	}
	if err := errors.Join(to.Sync(), atomicfile.Lock(to), inPlace(s.path, s.file)); err != nil {
		return nil, err
	}
	return to, os.Rename(to.Name(), s.path)
}

// sortInto writes the rows in the first size bytes of a file by number, with one run's header replaced.
func sortInto(to io.Writer, from io.ReaderAt, size int64, ended [2]string) error {
	header, column := "", -1 // of the first run
	rows, err := openOrdered(from, size, func(in *resultfile.LineReader, cells []string) error {
		if column = in.Schema().Index("run_header"); column >= 0 && header == "" {
			header = cells[column]
		}
		return nil
	})
	if err != nil {
		return err
	}
	lines := rows.in.Lines()
	out := bufio.NewWriterSize(to, 1<<16)
	out.Write(lines.Header())
	var line []byte
	for first := true; ; first = false {
		_, cells, err := rows.next()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		switch { // the header goes to the first row, where it is looked up and survives truncation
		case header == "":
		case first:
			cells[column] = cmp.Or(cells[column], header)
		case cells[column] == "" && len(rows.lost) > 0:
			cells[column], rows.lost = rows.lost[0], rows.lost[1:]
		}
		if header != "" && !first && cells[column] == header {
			cells[column] = ""
		}
		if header != "" && cells[column] == ended[0] {
			cells[column] = ended[1]
		}
		if line, err = lines.Append(line[:0], cells); err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}
