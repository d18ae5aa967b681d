package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The library's decoders allocate what a file's numbers announce before they check the file's size. The functions
// below check those numbers first. Field names are those of the format's definition, parquet.thrift.

const (
	maxFooter     = 64 << 20
	maxStructures = 1 << 19   // in a footer's lists: columns × row groups, some 700 bytes of memory each
	maxPageHeader = 1 << 16   // statistics hold a value at most twice
	maxPage       = 64 << 20  // bytes of a page, uncompressed; writers make pages of some 1 MB
	maxPages      = 128 << 20 // sum of the largest page of each column of a row group: these are read side by side
	maxPageValues = 1 << 20   // the size of pyarrow's row groups
)

// readFooter reads the footer and checks its numbers against its length.
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

// thriftWalk skips a value in Thrift's compact protocol without building it (thrift-compact-protocol.md).
type thriftWalk struct {
	rest       []byte
	structures int // in lists
	bad        bool
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

const deepest = 32 // the format nests some ten levels

func (w *thriftWalk) structure(depth int) {
	for !w.bad && depth < deepest && w.structures <= maxStructures {
		field := w.byte()
		if field == 0 {
			return
		}
		if field>>4 == 0 {
			w.varint() // field number in full
		}
		if kind := field & 0xf; kind > 2 { // 1 and 2 are true and false, without further bytes
			w.value(kind, depth)
		}
	}
	w.bad = true
}

func (w *thriftWalk) value(kind byte, depth int) {
	switch kind {
	case 1, 2, 3: // in a list a flag takes a byte
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
		if n > uint64(len(w.rest)) {
			w.bad = true
		} else if head&0xf == 12 {
			w.structures += int(n)
		}
		for i := uint64(0); i < n && !w.bad; i++ {
			w.value(head&0xf, depth+1)
		}
	case 12:
		w.structure(depth + 1)
	default: // the format has no maps
		w.bad = true
	}
}

// checkChunk checks the footer's description of a column chunk against the file.
func checkChunk(c *format.ColumnMetaData, e format.SchemaElement, rows, size int64) error {
	at, end := extent(c)
	switch {
	case at < int64(len(Magic)) || c.TotalCompressedSize < 0 || end > size:
		return fmt.Errorf("it cannot extend from byte %d to %d", at, end)
	case c.NumValues != rows || rows < 0: // all columns are flat
		return fmt.Errorf("it has %d values for %d rows", c.NumValues, rows)
	case c.Type != e.Type.V:
		return fmt.Errorf("its type is %v in the schema and %v in the row group", e.Type.V, c.Type)
	}
	switch c.Codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd:
		return nil
	}
	// On damaged LZ4 the library's decoder doubles its memory without end.
	return fmt.Errorf("its compression, %v, is not read; write it with Zstandard, Snappy or gzip", c.Codec)
}

// extent returns where the pages of a chunk begin and end.
func extent(c *format.ColumnMetaData) (at, end int64) {
	at = c.DataPageOffset
	if d := c.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	return at, at + c.TotalCompressedSize
}

// pageHeader reads the header at an offset and checks its numbers against the column's end; data is where the
// page's bytes begin.
func pageHeader(r io.ReaderAt, at, end int64) (h *format.PageHeader, data int64, err error) {
	buffer := make([]byte, min(maxPageHeader, end-at))
	if n, err := r.ReadAt(buffer, at); n < len(buffer) {
		return nil, 0, err
	}
	w := thriftWalk{rest: buffer}
	if w.structure(0); w.bad {
		return nil, 0, fmt.Errorf("at byte %d there is no header of a page", at)
	}
	h = new(format.PageHeader)
	length := len(buffer) - len(w.rest)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), buffer[:length], h); err != nil {
		return nil, 0, err
	}
	data = at + int64(length)
	size, values := max(h.CompressedPageSize, h.UncompressedPageSize), pageValues(h)
	switch {
	case h.CompressedPageSize < 0 || data+int64(h.CompressedPageSize) > end:
		return nil, 0, fmt.Errorf("a page ends at byte %d, after the end of its column", data+int64(h.CompressedPageSize))
	case h.UncompressedPageSize < 0 || size > maxPage:
		return nil, 0, fmt.Errorf("a page of %d bytes, more than %d", size, maxPage)
	case values < 0 || values > maxPageValues:
		return nil, 0, fmt.Errorf("a page of %d values, more than %d", values, maxPageValues)
	}
	return h, data, nil
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
