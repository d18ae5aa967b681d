package resultfile

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// parquetRuns is the metadata key for a file's runs: a JSON array of distinct values of column run_header. It is
// written even if that column, or the row with it, was omitted.
const parquetRuns = "bbprof.runs"

type parquetWriter struct {
	*parquet.Writer
	at     []int // of the written columns
	cells  []string
	header int      // index of run_header, -1 if there is none
	runs   []string // JSON
}

// newParquetWriter writes the columns s of a wider schema, in which they are at these indices.
func newParquetWriter(w io.Writer, s Schema, at []int, header int) (Writer, error) {
	if err := s.Distinct(); err != nil {
		return nil, err
	}
	var columns []parquet.Column
	for _, c := range s {
		columns = append(columns, parquet.Column{Name: c.Name, Type: c.Type, EmptyText: c.of == nil && !c.Unknown})
	}
	out, err := parquet.NewWriter(w, columns)
	if err != nil {
		return nil, err
	}
	return &parquetWriter{Writer: out, at: at, header: header}, nil
}

func (w *parquetWriter) Write(cells []string) error {
	if w.header >= 0 {
		if run := cells[w.header]; run != "" && !slices.Contains(w.runs, run) && json.Valid([]byte(run)) {
			w.runs = append(w.runs, strings.Clone(run))
			w.Set(parquetRuns, "["+strings.Join(w.runs, ",")+"]")
		}
	}
	w.cells = arrange(cells, w.at, w.cells)
	return w.Writer.Write(w.cells)
}

// Flush does nothing: rows are written in groups.
func (w *parquetWriter) Flush() error { return nil }

type parquetReader struct {
	schema Schema
	in     *parquet.Reader
	cells  []string
}

func newParquetReader(f *os.File) (*parquetReader, error) {
	in, err := parquet.Open(f)
	if err != nil {
		return nil, err
	}
	if len(in.Columns) > input.MaxColumns {
		return nil, tooWide(len(in.Columns))
	}
	r := &parquetReader{schema: SchemaOf(in.Names()), in: in, cells: make([]string, len(in.Columns))}
	for i, c := range r.schema {
		if c.Type == Number {
			in.Columns[i].Decimals = c.Decimals
		}
	}
	return r, nil
}

// runs returns the runs in the file's metadata, each in the format of column run_header.
func (r *parquetReader) runs() (headers []json.RawMessage) {
	json.Unmarshal([]byte(r.in.Value(parquetRuns)), &headers) // what cannot be read names no run
	return headers
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
