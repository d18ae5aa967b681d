package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The library's decoders allocate what a file's numbers say before they check whether the file is that
// large. What follows holds those numbers against the file first, all of them before the first row. The names
// of fields are those of the format's definition, parquet.thrift.

const (
	maxFooter     = 64 << 20
	maxList       = 1 << 18   // of a footer: columns × row groups
	maxPageHeader = 1 << 16   // statistics hold a value at most twice
	MaxPage       = 64 << 20  // of data, not compressed; writers make pages of some 1 MB
	MaxPages      = 128 << 20 // the largest page of each column of a row group, which are read side by side
	maxPageValues = 1 << 20   // a row group of pyarrow's
	zstdHeader    = 18        // RFC 8878, 3.1.1: magic number and frame header, at most
)

// readFooter is the footer, its numbers held against its length.
func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	var end [8]byte // length and magic number
	if size < int64(len(Magic)+len(end)) {
		return nil, errors.New("it ends within the first bytes of a Parquet file")
	}
	if _, err := r.ReadAt(end[:], size-int64(len(end))); err != nil {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case string(end[4:]) != Magic:
		return nil, errors.New("it does not end as a Parquet file does, so it was not written in full")
	case length > size-int64(len(end)+len(Magic)) || length > maxFooter:
		return nil, fmt.Errorf("damaged Parquet: a footer of %d bytes in a file of %d", length, size)
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, size-int64(len(end))-length); err != nil {
		return nil, err
	}
	w := thriftWalk{rest: footer}
	w.structure(0)
	if w.bad {
		return nil, errors.New("damaged Parquet: its footer does not hold what it announces")
	}
	return footer, nil
}

// thriftWalk skips a value in Thrift's compact protocol without building it
// (thrift-compact-protocol.md).
type thriftWalk struct {
	rest []byte
	bad  bool
}

func (w *thriftWalk) byte() byte {
	if len(w.rest) == 0 {
		w.bad = true
		return 0
	}
	b := w.rest[0]
	w.rest = w.rest[1:]
	return b
}

func (w *thriftWalk) varint() uint64 {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 {
		w.bad = true
		return 0
	}
	w.rest = w.rest[n:]
	return v
}

func (w *thriftWalk) skip(n uint64) {
	if n > uint64(len(w.rest)) {
		w.bad = true
		return
	}
	w.rest = w.rest[n:]
}

const deepest = 32 // the format nests some ten deep

func (w *thriftWalk) structure(depth int) {
	for !w.bad && depth < deepest {
		field := w.byte()
		if field == 0 {
			return
		}
		if field>>4 == 0 {
			w.varint() // the field's number in full
		}
		if kind := field & 0xf; kind > 2 { // 1 and 2 are true and false, which have no more bytes
			w.value(kind, depth)
		}
	}
	w.bad = true
}

func (w *thriftWalk) value(kind byte, depth int) {
	switch kind {
	case 1, 2, 3: // in a list a flag is a byte
		w.skip(1)
	case 4, 5, 6:
		w.varint()
	case 7:
		w.skip(8)
	case 8:
		w.skip(w.varint())
	case 9, 10:
		head := w.byte()
		n := uint64(head >> 4)
		if n == 0xf {
			n = w.varint()
		}
		if n > maxList || n > uint64(len(w.rest)) {
			w.bad = true
		}
		for i := uint64(0); i < n && !w.bad; i++ {
			w.value(head&0xf, depth+1)
		}
	case 12:
		w.structure(depth + 1)
	default: // maps do not occur in the format
		w.bad = true
	}
}

// checkPages holds the header of each page against its column and the file.
func checkPages(groups []format.RowGroup, r io.ReaderAt, size int64) error {
	for g, group := range groups {
		sum := int64(0)
		for _, column := range group.Columns {
			largest, err := checkColumn(&column.MetaData, group.NumRows, r, size)
			if err != nil {
				return fmt.Errorf("damaged Parquet: row group %d, column %.40q: %w", g, column.MetaData.PathInSchema, err)
			}
			if sum += largest; sum > MaxPages {
				return fmt.Errorf("row group %d: its pages take more than %d bytes of memory", g, MaxPages)
			}
		}
	}
	return nil
}

func checkColumn(c *format.ColumnMetaData, rows int64, r io.ReaderAt, size int64) (largest int64, err error) {
	at, end := extent(c)
	if at < int64(len(Magic)) || c.TotalCompressedSize < 0 || end > size {
		return 0, fmt.Errorf("it is said to lie from byte %d to %d", at, end)
	}
	if c.NumValues != rows || rows < 0 { // all columns are flat
		return 0, fmt.Errorf("it has %d values for %d rows", c.NumValues, rows)
	}
	left := rows
	buffer := make([]byte, min(maxPageHeader, end-at))
	for left > 0 && at < end {
		header, data, err := pageHeader(buffer[:min(int64(len(buffer)), end-at)], r, at)
		if err != nil {
			return 0, err
		}
		values := pageValues(header)
		at = data + int64(header.CompressedPageSize)
		switch {
		case header.CompressedPageSize < 0 || at > end:
			return 0, fmt.Errorf("a page ends at byte %d, after the end of its column", at)
		case header.UncompressedPageSize < 0 || header.UncompressedPageSize > MaxPage:
			return 0, fmt.Errorf("a page of %d bytes, and %d are the most", header.UncompressedPageSize, MaxPage)
		case values < 0 || values > maxPageValues:
			return 0, fmt.Errorf("a page of %d values, and %d are the most", values, maxPageValues)
		}
		if err := checkCompressed(c.Codec, header, r, data); err != nil {
			return 0, err
		}
		if header.Type != format.DictionaryPage {
			left -= values
		}
		largest = max(largest, int64(header.UncompressedPageSize)+8*values)
	}
	if left != 0 {
		return 0, fmt.Errorf("its pages have %d values for %d rows", rows-left, rows)
	}
	return largest, nil
}

// extent is where the pages of a chunk begin and end.
func extent(c *format.ColumnMetaData) (at, end int64) {
	at = c.DataPageOffset
	if d := c.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	return at, at + c.TotalCompressedSize
}

// pageHeader reads the header at an offset; data is where the page's bytes begin.
func pageHeader(buffer []byte, r io.ReaderAt, at int64) (h *format.PageHeader, data int64, err error) {
	if n, err := r.ReadAt(buffer, at); n < len(buffer) {
		return nil, 0, err
	}
	w := thriftWalk{rest: buffer}
	if w.structure(0); w.bad {
		return nil, 0, fmt.Errorf("at byte %d there is no header of a page", at)
	}
	h = new(format.PageHeader)
	length := len(buffer) - len(w.rest)
	err = thrift.Unmarshal(new(thrift.CompactProtocol), buffer[:length], h)
	return h, at + int64(length), err
}

func pageValues(h *format.PageHeader) int64 {
	switch {
	case h.DataPageHeader.Valid:
		return int64(h.DataPageHeader.V.NumValues)
	case h.DataPageHeaderV2.Valid:
		return int64(h.DataPageHeaderV2.V.NumValues)
	case h.DictionaryPageHeader.Valid:
		return int64(h.DictionaryPageHeader.V.NumValues)
	}
	return 0
}

// checkCompressed holds the size that a page's compressed bytes announce against the page's.
func checkCompressed(codec format.CompressionCodec, h *format.PageHeader, r io.ReaderAt, at int64) error {
	levels := int64(0)
	if v2 := h.DataPageHeaderV2; v2.Valid { // levels stand before the rest, not compressed
		levels = int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return nil
		}
	}
	if levels < 0 || levels >= int64(h.CompressedPageSize) {
		return nil // nothing is compressed; a wrong number the library finds
	}
	start := make([]byte, min(zstdHeader, int64(h.CompressedPageSize)-levels))
	if n, err := r.ReadAt(start, at+levels); n < len(start) {
		return err
	}
	announced := uint64(0)
	switch codec {
	case format.Uncompressed, format.Gzip: // gzip announces nothing before its end
	case format.Snappy: // its length as a varint
		announced, _ = binary.Uvarint(start)
	case format.Zstd:
		var frame zstd.Header
		if err := frame.Decode(start); err != nil {
			return fmt.Errorf("a page of no Zstandard: %w", err)
		}
		if frame.WindowSize > MaxPage {
			return fmt.Errorf("a page that refers back by %d bytes", frame.WindowSize)
		}
		announced = frame.FrameContentSize
	default:
		return unread(codec)
	}
	if announced > uint64(h.UncompressedPageSize) {
		return fmt.Errorf("a page of %d bytes is said to hold %d", h.UncompressedPageSize, announced)
	}
	return nil
}
