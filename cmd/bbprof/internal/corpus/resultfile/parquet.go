package resultfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
)

// parquetMagic begins a file (Apache Parquet, "File format").
var parquetMagic = []byte("PAR1")

// rowGroup and rowGroupBytes are how many rows are held until they are written, and how much text.
const (
	rowGroup      = 1 << 15
	rowGroupBytes = 32 << 20
)

// parquetRoot is a group whose columns keep their order; parquet.Group sorts them by name.
type parquetRoot struct {
	parquet.Group
	schema Schema
}

func (g parquetRoot) Fields() []parquet.Field {
	at := make(map[string]int, len(g.schema))
	for i, c := range g.schema {
		at[c.Name] = i
	}
	sorted := g.Group.Fields()
	fields := make([]parquet.Field, len(sorted))
	for _, f := range sorted {
		fields[at[f.Name()]] = f
	}
	return fields
}

// parquetNode is a column's type there. All are optional: what is not known is null.
func (c Column) parquetNode() parquet.Node {
	switch c.Type {
	case Integer:
		return parquet.Optional(parquet.Int(64))
	case Number:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case Flag:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	}
	return parquet.Optional(parquet.String())
}

type parquetWriter struct {
	schema Schema
	out    *parquet.GenericWriter[any]
	row    []parquet.Row
	held   int // bytes of the row group that is not written yet
}

func newParquetWriter(w io.Writer, s Schema) (*parquetWriter, error) {
	if err := s.distinct(); err != nil {
		return nil, err
	}
	group := parquet.Group{}
	for _, c := range s {
		group[c.Name] = c.parquetNode()
	}
	return &parquetWriter{
		schema: s,
		out: parquet.NewGenericWriter[any](w, parquet.NewSchema("bbprof", parquetRoot{group, s}),
			parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup)),
		row: []parquet.Row{make(parquet.Row, len(s))},
	}, nil
}

func (w *parquetWriter) Write(cells []string) error {
	for i, c := range w.schema {
		v, err := c.parquetValue(cells[i])
		if err != nil {
			return c.mistyped(cells[i])
		}
		present := 1 // the definition level
		if v.IsNull() {
			present = 0
		}
		w.row[0][i] = v.Level(0, present, i)
		w.held += len(cells[i])
	}
	if _, err := w.out.WriteRows(w.row); err != nil {
		return err
	}
	if w.held < rowGroupBytes {
		return nil
	}
	w.held = 0
	return w.out.Flush()
}

func (c Column) parquetValue(cell string) (parquet.Value, error) {
	switch {
	case cell == "" && c.of != nil, cell == "" && c.Type != Text:
		return parquet.NullValue(), nil
	case c.Type == Integer:
		n, err := strconv.ParseInt(cell, 10, 64)
		return parquet.Int64Value(n), err
	case c.Type == Number:
		x, err := strconv.ParseFloat(cell, 64)
		return parquet.DoubleValue(x), err
	case c.Type == Flag:
		b, err := strconv.ParseBool(cell)
		return parquet.BooleanValue(b), err
	}
	return parquet.ByteArrayValue([]byte(strings.ToValidUTF8(cell, "\ufffd"))), nil // others refuse what is no UTF-8
}

func (w *parquetWriter) Close() error { return w.out.Close() }

type parquetReader struct {
	schema Schema
	groups []parquet.RowGroup
	rows   parquet.Rows
	buffer []parquet.Row
	ready  []parquet.Row
	cells  []string
}

func newParquetReader(f *os.File) (_ *parquetReader, err error) {
	defer recovered(&err)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkFooter(f, info.Size()); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, field := range file.Schema().Fields() {
		if !field.Leaf() || field.Repeated() {
			return nil, fmt.Errorf("column %s is not a single value, so this is not a result of bbprof", field.Name())
		}
		names = append(names, field.Name())
	}
	if err := checkWidth(len(names)); err != nil {
		return nil, err
	}
	if err := checkPages(file, f, info.Size()); err != nil {
		return nil, err
	}
	const ahead = 64
	return &parquetReader{schema: SchemaOf(names), groups: file.RowGroups(), buffer: make([]parquet.Row, ahead), cells: make([]string, len(names))}, nil
}

// recovered makes an error of a panic: the library panics on some damage.
func recovered(err *error) {
	if why := recover(); why != nil {
		*err = fmt.Errorf("damaged Parquet: %v", why)
	}
}

func (r *parquetReader) Schema() Schema { return r.schema }

func (r *parquetReader) Next() (_ []string, err error) {
	defer recovered(&err)
	for len(r.ready) == 0 {
		if r.rows == nil {
			if len(r.groups) == 0 {
				return nil, io.EOF
			}
			r.rows, r.groups = r.groups[0].Rows(), r.groups[1:]
		}
		n, err := r.rows.ReadRows(r.buffer)
		r.ready = r.buffer[:n]
		if errors.Is(err, io.EOF) {
			err = r.rows.Close()
			r.rows = nil
		}
		if err != nil {
			return nil, err
		}
	}
	row := r.ready[0]
	r.ready = r.ready[1:]
	clear(r.cells)
	for _, v := range row {
		c := r.schema[v.Column()]
		cell := input.OneLine(c.fromParquet(v))
		if !c.fits(cell) || len(cell) > maxLine {
			return nil, fmt.Errorf("damaged Parquet: %w", c.mistyped(cell))
		}
		r.cells[v.Column()] = cell
	}
	return r.cells, nil
}

// fromParquet is a value as a cell.
func (c Column) fromParquet(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Double && c.Type == Number:
		return strconv.FormatFloat(v.Double(), 'f', c.Decimals, 64)
	}
	return v.String()
}
