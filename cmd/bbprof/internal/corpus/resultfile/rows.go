package resultfile

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// Each yields the results of next until io.EOF. An error is the last.
func Each[T any](next func() (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, err := next()
			if errors.Is(err, io.EOF) || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Rows reads a result row by row. An error names the file, and its row or line.
type Rows struct {
	Schema Schema
	Runs   Runs // in the file's metadata, or in the rows so far
	Busy   int  // rows so far that are no truth, because the core was busy
	// AsWritten leaves rows accepted that bbprof would reject today, as a seal needs.
	AsWritten bool
	// Foreign leaves the rows unchecked: those of a table that another tool made.
	Foreign bool
	name    string
	in      Reader
	opened  []io.Closer
	at      Positions
	result  bool
	number  int // of the latest row
}

type Reader interface {
	Schema() Schema // nil if there is no complete header
	// Next returns the next row. At the end the error is io.EOF; after a *DamageError, reading may continue. The cells
	// are valid until the next call.
	Next() ([]string, error)
}

// OpenRows opens a result of any readable format, compressed or not, detected by its first bytes; - is standard
// input. It requires a header with these columns.
func OpenRows(name string, stdin io.Reader, columns ...string) (r *Rows, err error) {
	r = &Rows{name: name}
	if err = r.open(stdin); err == nil {
		err = r.begin(columns)
	}
	if err != nil {
		r.Close()
	}
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) && failed.Path == name {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// ParquetRows reads a Parquet file that is open; the caller closes it.
func ParquetRows(name string, f *os.File) (*Rows, error) {
	table, err := newParquetReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := &Rows{name: name, in: table}
	return r, r.begin(nil)
}

// open detects the format. It copies Parquet from a pipe to a file first.
func (r *Rows) open(stdin io.Reader) error {
	file := (*os.File)(nil)
	if r.name != "-" {
		var err error
		if file, err = os.Open(r.name); err != nil {
			return err
		}
		stdin, r.opened = file, append(r.opened, file)
	}
	in := bufio.NewReaderSize(stdin, 1<<16)
	if magic, _ := in.Peek(len(parquet.Magic)); string(magic) == parquet.Magic {
		if file == nil || !isRegular(file) {
			var err error
			if file, err = parquet.Kept(in); err != nil {
				return err
			}
			r.opened = append(r.opened, file)
		}
		table, err := newParquetReader(file)
		r.in = table
		return err
	}
	plain, _, err := input.Decompressed(in)
	if err != nil {
		return err
	}
	r.opened = append(r.opened, plain)
	lines, err := NewLineReader(plain, "")
	r.in = lines
	return err
}

func isRegular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// IsLines reports whether a file starts like CSV or JSON lines, neither Parquet nor compressed.
func IsLines(f io.ReaderAt) bool {
	magic := make([]byte, len(parquet.Magic))
	n, _ := f.ReadAt(magic, 0)
	return string(magic[:n]) != parquet.Magic && !input.Compressed(magic[:n])
}

func (r *Rows) begin(columns []string) (err error) {
	r.Schema = r.in.Schema()
	r.at, r.result = r.Schema.Positions(), r.Schema.isResult()
	if err = r.Schema.Require(columns...); err == nil && r.result {
		err = r.Schema.unambiguous()
	}
	if err == nil {
		if p, ok := r.in.(*parquetReader); ok {
			for _, run := range p.runs() {
				err = cmp.Or(err, r.Runs.addHeader(string(run)))
			}
		}
	}
	return err
}

func (r *Rows) Close() (err error) {
	for _, c := range slices.Backward(r.opened) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Error adds the file's name to an error.
func (r *Rows) Error(err error) error { return fmt.Errorf("%s: %w", r.name, err) }

type Row struct {
	Number int      // from 1, in the file
	Cells  []string // in schema order, valid until the next row
	of     *Rows
}

// Next returns the next row, and io.EOF after the last.
func (r *Rows) Next() (Row, error) {
	cells, err := r.in.Next()
	if errors.Is(err, io.EOF) {
		return Row{}, io.EOF
	}
	r.number++
	row := Row{r.number, cells, r}
	if err != nil {
		return row, r.Error(err)
	}
	if r.result && !r.Foreign {
		if err := r.at.check(cells); err != nil {
			return row, row.Error(fmt.Errorf("%w; mend the row or leave it out", err))
		}
	}
	if !r.AsWritten {
		row.Cells = r.at.asBusy(cells)
	}
	if r.at.IsBusy(row.Cells) {
		r.Busy++
	}
	if err := r.Runs.Add(r.Schema, cells); err != nil {
		return row, row.Error(err)
	}
	return row, nil
}

// LeftOut tells of rows that are no truth, if there are any.
func (r *Rows) LeftOut(notes io.Writer) {
	if r.Busy > 0 {
		fmt.Fprintf(notes, "bbprof: %s: left out: %s of a busy core; bbprof batch -resume measures them again\n", r.name, words.Plural(r.Busy, "row"))
	}
}

// All yields the rows. An error is the last.
func (r *Rows) All() iter.Seq2[Row, error] { return Each(r.Next) }

// Header returns the header as a row: in some files of blocks and cycles it is data.
func (r *Rows) Header() Row { return Row{0, r.Schema.Names(), r} }

func (r *Rows) Copy(to Writer) error {
	for row, err := range r.All() {
		if err == nil {
			err = to.Write(row.Cells)
		}
		if err != nil {
			return err
		}
	}
	return to.Close()
}

// Cell returns a column's cell, "" if there is no such column.
func (r Row) Cell(column string) string {
	return r.of.at.Cell(r.Cells, column)
}

func (r Row) Float(column string) (float64, error) {
	cell := r.Cell(column)
	v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	if err != nil {
		return 0, r.Error(fmt.Errorf("column %s is %.40q, not a number", column, cell))
	}
	return v, nil
}

// mostWeight is more than anything was ever executed, and its product with cycles is finite.
const mostWeight = 1e30

// Weight parses the weight in a column, such as an execution count; an empty cell is 0.
func (r Row) Weight(column string) (float64, error) {
	if r.Cell(column) == "" {
		return 0, nil
	}
	w, err := r.Float(column)
	if err != nil || !(w >= 0 && w <= mostWeight) {
		return 0, r.Error(fmt.Errorf("column %s: invalid weight %q: want a number from 0 on", column, r.Cell(column)))
	}
	return w, nil
}

// Error adds the file and row to an error.
func (r Row) Error(err error) error { return r.of.Error(fmt.Errorf("row %d: %w", r.Number, err)) }

// ErrEmpty reports a file without a complete header.
var ErrEmpty = errors.New("it is empty, or ends within its first line")

// Require fails if a column is missing. The name "" requires none.
func (s Schema) Require(columns ...string) error {
	if s == nil {
		return ErrEmpty
	}
	for _, name := range columns {
		if name != "" && s.Index(name) < 0 {
			return fmt.Errorf("it has no column %s; it has %.300s", name, strings.Join(s.Names(), ", "))
		}
	}
	return nil
}
