package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// groupRows and groupBytes bound the buffered rows and their text.
const (
	groupRows  = 1 << 15
	groupBytes = 32 << 20
)

// Writer writes rows. Each chunk is one page of plain values, compressed with Zstandard.
type Writer struct {
	to       io.Writer
	at       int64
	columns  []Column
	chunks   []pendingChunk
	rows     int // of the unwritten group
	held     int // bytes of its text
	footer   format.FileMetaData
	compress *zstd.Encoder
}

type pendingChunk struct {
	levels []byte // 1 for each row with a value, 0 for null
	plain  []byte // the values
	values int
}

// NewWriter starts a file. Column names must be distinct.
func NewWriter(to io.Writer, columns []Column) (*Writer, error) {
	compress, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	root := format.SchemaElement{Name: "bbprof", NumChildren: thrift.New(int32(len(columns)))}
	w := &Writer{to: to, columns: columns, chunks: make([]pendingChunk, len(columns)), compress: compress}
	w.footer = format.FileMetaData{Version: 1, CreatedBy: "bbprof", Schema: thrift.Slice[format.SchemaElement]{root}}
	for _, c := range columns {
		w.footer.Schema = append(w.footer.Schema, c.element())
	}
	return w, w.put([]byte(Magic))
}

func (w *Writer) put(b []byte) error {
	n, err := w.to.Write(b)
	w.at += int64(n)
	return err
}

func (w *Writer) Set(key, value string) {
	i := slices.IndexFunc(w.footer.KeyValueMetadata, func(kv format.KeyValue) bool { return kv.Key == key })
	if i < 0 {
		i = len(w.footer.KeyValueMetadata)
		w.footer.KeyValueMetadata = append(w.footer.KeyValueMetadata, format.KeyValue{Key: key})
	}
	w.footer.KeyValueMetadata[i].Value = value
}

func (w *Writer) Write(cells []string) error {
	for i, c := range w.columns {
		if err := w.chunks[i].add(c, cells[i]); err != nil {
			return fmt.Errorf("%s is %.40q, which is not of type %s", c.Name, cells[i], c.Type)
		}
		w.held += len(cells[i])
	}
	if w.rows++; w.rows < groupRows && w.held < groupBytes {
		return nil
	}
	return w.flush()
}

func (p *pendingChunk) add(c Column, cell string) (err error) {
	if cell == "" && !(c.Type == Text && c.EmptyText) {
		p.levels = append(p.levels, 0)
		return nil
	}
	switch c.Type {
	case Integer:
		var n int64
		n, err = strconv.ParseInt(cell, 10, 64)
		p.plain = binary.LittleEndian.AppendUint64(p.plain, uint64(n))
	case Number:
		var x float64
		x, err = strconv.ParseFloat(cell, 64)
		p.plain = binary.LittleEndian.AppendUint64(p.plain, math.Float64bits(x))
	case Flag: // one bit each, lowest first
		var b bool
		b, err = strconv.ParseBool(cell)
		if p.values%8 == 0 {
			p.plain = append(p.plain, 0)
		}
		if b {
			p.plain[len(p.plain)-1] |= 1 << (p.values % 8)
		}
	default:
		cell = strings.ToValidUTF8(cell, "\ufffd") // readers refuse invalid UTF-8
		p.plain = binary.LittleEndian.AppendUint32(p.plain, uint32(len(cell)))
		p.plain = append(p.plain, cell...)
	}
	p.levels = append(p.levels, 1)
	p.values++
	return err
}

func (w *Writer) flush() error {
	if w.rows == 0 {
		return nil
	}
	group := format.RowGroup{NumRows: int64(w.rows), FileOffset: w.at, Ordinal: int16(len(w.footer.RowGroups))}
	for i := range w.columns {
		meta, err := w.chunk(i)
		if err != nil {
			return err
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: meta})
		group.TotalByteSize += meta.TotalUncompressedSize
		group.TotalCompressedSize += meta.TotalCompressedSize
	}
	w.footer.RowGroups = append(w.footer.RowGroups, group)
	w.footer.NumRows += group.NumRows
	w.rows, w.held = 0, 0
	return nil
}

func (w *Writer) chunk(i int) (meta format.ColumnMetaData, err error) {
	p := &w.chunks[i]
	levels, err := (&rle.Encoding{BitWidth: 1}).EncodeLevels(nil, p.levels)
	if err != nil {
		return meta, err
	}
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
	body = append(append(body, levels...), p.plain...)
	page := w.compress.EncodeAll(body, nil)
	header, err := thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: int32(len(body)), CompressedPageSize: int32(len(page)),
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(w.rows), Encoding: format.Plain, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
			Statistics: format.Statistics{NullCount: int64(w.rows - p.values)},
		}),
	})
	if err != nil {
		return meta, err
	}
	meta = format.ColumnMetaData{
		Type: w.columns[i].physical(), Encoding: thrift.Slice[format.Encoding]{format.Plain, format.RLE},
		PathInSchema: thrift.Slice[string]{w.columns[i].Name}, Codec: format.Zstd, NumValues: int64(w.rows), DataPageOffset: w.at,
		TotalUncompressedSize: int64(len(header) + len(body)), TotalCompressedSize: int64(len(header) + len(page)),
		Statistics: format.Statistics{NullCount: int64(w.rows - p.values)},
	}
	*p = pendingChunk{levels: p.levels[:0], plain: p.plain[:0]}
	if err := w.put(header); err != nil {
		return meta, err
	}
	return meta, w.put(page)
}

// Close writes the buffered rows and the footer. It leaves the underlying writer open.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &w.footer)
	if err != nil {
		return err
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	return w.put(append(footer, Magic...))
}
