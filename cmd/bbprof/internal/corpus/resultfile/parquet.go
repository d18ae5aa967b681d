package resultfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// parquetMagic begins a file.
var parquetMagic = []byte(parquet.Magic)

// parquetTypes are the columns' types there.
var parquetTypes = map[Type]parquet.Type{Text: parquet.Text, Integer: parquet.Integer, Number: parquet.Number, Flag: parquet.Flag}

type parquetWriter struct {
	schema Schema
	*parquet.Writer
}

func newParquetWriter(w io.Writer, s Schema) (*parquetWriter, error) {
	if err := s.distinct(); err != nil {
		return nil, err
	}
	var columns []parquet.Column
	for _, c := range s {
		columns = append(columns, parquet.Column{Name: c.Name, Type: parquetTypes[c.Type], EmptyText: c.of == nil})
	}
	out, err := parquet.NewWriter(w, columns)
	return &parquetWriter{s, out}, err
}

func (w *parquetWriter) Write(cells []string) error {
	err := w.Writer.Write(cells)
	if bad := (*parquet.MistypedError)(nil); errors.As(err, &bad) {
		return w.schema[bad.Column].mistyped(cells[bad.Column])
	}
	return err
}

type parquetReader struct {
	schema Schema
	in     *parquet.Reader
	cells  []string
}

func newParquetReader(f *os.File) (*parquetReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	in, err := parquet.NewReader(f, info.Size())
	if err != nil {
		return nil, err
	}
	if err := checkWidth(len(in.Columns)); err != nil {
		return nil, err
	}
	var names []string
	for _, c := range in.Columns {
		names = append(names, c.Name)
	}
	r := &parquetReader{schema: SchemaOf(names), in: in, cells: make([]string, len(names))}
	for i, c := range r.schema {
		if c.Type == Number {
			in.Columns[i].Decimals = c.Decimals
		}
	}
	return r, nil
}

func (r *parquetReader) Schema() Schema { return r.schema }

func (r *parquetReader) Next() ([]string, error) {
	row, err := r.in.Next()
	if err != nil {
		return nil, err
	}
	for i, c := range r.schema {
		cell := input.OneLine(row[i])
		if !c.fits(cell) || len(cell) > maxLine {
			return nil, fmt.Errorf("damaged Parquet: %w", c.mistyped(cell))
		}
		r.cells[i] = cell
	}
	return r.cells, nil
}
