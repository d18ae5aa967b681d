package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
)

type Reader struct {
	// Decimals of Columns may be changed before the first row.
	Columns []Column

	from   io.ReaderAt
	size   int64
	footer format.FileMetaData
	group  int     // next group
	chunks []chunk // of the current group
	held   int64   // memory of their largest pages
	left   int64   // rows left in it
	cells  []string
	zstd   *zstd.Decoder // from the first page that needs it
}

// Kept copies a stream to an unnamed file, because a table's description is at its end.
func Kept(in io.Reader) (*os.File, error) {
	f, err := atomicfile.Temporary("Parquet from a pipe")
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, in); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Open reads a file, which stays open.
func Open(f *os.File) (*Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return NewReader(f, info.Size())
}

func (r *Reader) Names() (names []string) {
	for _, c := range r.Columns {
		names = append(names, c.Name)
	}
	return names
}

// NewReader reads the footer and checks its numbers against the file.
func NewReader(from io.ReaderAt, size int64) (_ *Reader, err error) {
	defer recovered(&err)
	footer, err := readFooter(from, size)
	if err != nil {
		return nil, err
	}
	r := &Reader{from: from, size: size}
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, &r.footer); err != nil {
		return nil, fmt.Errorf("damaged Parquet: %w", err)
	}
	if len(r.footer.Schema) == 0 {
		return nil, errors.New("damaged Parquet: it has no schema")
	}
	for _, e := range r.footer.Schema[1:] { // the first element is the table
		if e.NumChildren.V > 0 || !e.Type.Valid || e.RepetitionType.V == format.Repeated {
			return nil, fmt.Errorf("column %.40q is not a single value, so the table is not flat", e.Name)
		}
		if scale, _ := scaleOf(e); scale < 0 || scale > mostScale {
			return nil, fmt.Errorf("column %.40q holds numbers of %d decimals, more than %d", e.Name, scale, mostScale)
		}
		r.Columns = append(r.Columns, Column{Name: e.Name, Type: typeOf(e), Decimals: -1})
	}
	for g, group := range r.footer.RowGroups {
		if len(group.Columns) != len(r.Columns) {
			return nil, fmt.Errorf("damaged Parquet: a row group of %d columns, of %d", len(group.Columns), len(r.Columns))
		}
		for i, c := range group.Columns {
			if err := checkChunk(&c.MetaData, r.footer.Schema[i+1], group.NumRows, size); err != nil {
				return nil, fmt.Errorf("damaged Parquet: row group %d, column %.40q: %w", g, r.Columns[i].Name, err)
			}
		}
	}
	r.cells = make([]string, len(r.Columns))
	return r, nil
}

// mostScale is the scale of Arrow's widest decimals.
const mostScale = 76

// scaleOf returns the number of decimals in a column of fixed-point numbers, such as DuckDB makes of the literal
// 1.5.
func scaleOf(e format.SchemaElement) (scale int, decimal bool) {
	if t, ok := e.LogicalType.Value.(*format.DecimalType); ok {
		return int(t.Scale), true
	}
	if t := e.ConvertedType; t.Valid && t.V == deprecated.Decimal {
		return int(e.Scale.V), true
	}
	return 0, false
}

func typeOf(e format.SchemaElement) Type {
	if _, decimal := scaleOf(e); decimal {
		return Number
	}
	switch e.Type.V {
	case format.Boolean:
		return Flag
	case format.Int32, format.Int64:
		return Integer
	case format.Float, format.Double:
		return Number
	}
	return Text
}

func (r *Reader) Rows() int64 { return r.footer.NumRows }

func (r *Reader) Size() int64 { return r.size }

// Value returns the file's metadata of a key, "" if it has none.
func (r *Reader) Value(key string) string {
	for _, kv := range r.footer.KeyValueMetadata {
		if kv.Key == key {
			return kv.Value
		}
	}
	return ""
}

// Next returns the next row, with an empty cell for null. At the end the error is io.EOF. The cells are valid
// until the next call.
func (r *Reader) Next() (_ []string, err error) {
	defer recovered(&err)
	for r.left == 0 {
		if r.group == len(r.footer.RowGroups) {
			return nil, io.EOF
		}
		group := &r.footer.RowGroups[r.group]
		r.group++
		r.left, r.held, r.chunks = group.NumRows, 0, r.chunks[:0]
		for i := range r.Columns {
			r.chunks = append(r.chunks, newChunk(&group.Columns[i].MetaData, r.footer.Schema[i+1], r.Columns[i].Decimals))
		}
	}
	r.left--
	for i := range r.chunks {
		c := &r.chunks[i]
		for c.row == c.rows {
			if err := r.load(c); err != nil {
				return nil, fmt.Errorf("damaged Parquet: row group %d, column %.40q: %w", r.group-1, r.Columns[i].Name, err)
			}
		}
		r.cells[i] = c.next()
	}
	return r.cells, nil
}

func (r *Reader) load(c *chunk) error {
	if c.at >= c.end {
		return errors.New("its pages end before its rows")
	}
	header, data, err := pageHeader(r.from, c.at, c.end)
	if err != nil {
		return err
	}
	if header.Type != format.DictionaryPage && pageValues(header) > r.left+1 {
		return errors.New("its pages have more values than the row group has rows")
	}
	if more := int64(header.UncompressedPageSize) + 8*pageValues(header) - c.largest; more > 0 {
		c.largest += more
		if r.held += more; r.held > maxPages {
			return fmt.Errorf("the pages of its row group take more than %d bytes of memory", maxPages)
		}
	}
	raw := make([]byte, header.CompressedPageSize)
	if n, err := r.from.ReadAt(raw, data); n < len(raw) {
		return err
	}
	c.at = data + int64(len(raw))
	return c.decode(header, raw, r)
}
