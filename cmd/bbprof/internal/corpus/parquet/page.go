package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// chunk is a column of a row group, read page by page.
type chunk struct {
	kind     kind
	codec    format.CompressionCodec
	optional bool
	at, end  int64

	dictionary *values
	levels     []uint32 // of each row of the page, if optional
	page       *values
	rows       int // of the page
	row        int // that is next
	value      int // that is next
}

// kind is how the bytes of a value become a cell.
type kind struct {
	physical format.Type
	width    int // of a fixed-length byte array
	unsigned bool
	decimals int
	decimal  bool // a whole number of 10^-scale
	scale    int
}

func newChunk(c *format.ColumnMetaData, e format.SchemaElement, decimals int) chunk {
	k := kind{physical: e.Type.V, width: int(e.TypeLength.V), decimals: decimals}
	if t, ok := e.LogicalType.Value.(*format.IntType); ok {
		k.unsigned = !t.IsSigned
	} else if t := e.ConvertedType; t.Valid { // which some writers set alone
		k.unsigned = deprecated.Uint8 <= t.V && t.V <= deprecated.Uint64
	}
	k.scale, k.decimal = scaleOf(e)
	at, end := extent(c)
	return chunk{kind: k, codec: c.Codec, optional: e.RepetitionType.V == format.Optional, at: at, end: end}
}

// next is the cell of the next row.
func (c *chunk) next(from io.ReaderAt, unpack *decompressor) (string, error) {
	for c.row == c.rows {
		if err := c.load(from, unpack); err != nil {
			return "", err
		}
	}
	c.row++
	if c.optional && c.levels[c.row-1] == 0 {
		return "", nil
	}
	c.value++
	return c.page.cell(c.kind, c.value-1), nil
}

func (c *chunk) load(from io.ReaderAt, unpack *decompressor) error {
	header, data, err := pageHeader(make([]byte, min(maxPageHeader, c.end-c.at)), from, c.at)
	if err != nil {
		return err
	}
	if header.CompressedPageSize < 0 || data+int64(header.CompressedPageSize) > c.end || header.UncompressedPageSize < 0 || header.UncompressedPageSize > MaxPage {
		return errors.New("a page ends after its column")
	}
	raw := make([]byte, header.CompressedPageSize)
	if n, err := from.ReadAt(raw, data); n < len(raw) {
		return err
	}
	c.at = data + int64(len(raw))
	size := int(header.UncompressedPageSize)
	switch header.Type {
	case format.DictionaryPage:
		if raw, err = unpack.decompress(c.codec, raw, size); err == nil {
			c.dictionary, err = c.kind.plain(raw)
		}
		return err
	case format.DataPage:
		h := header.DataPageHeader.V
		if raw, err = unpack.decompress(c.codec, raw, size); err != nil {
			return err
		}
		var levels []byte
		if c.optional {
			if h.DefinitionLevelEncoding != format.RLE {
				return fmt.Errorf("definition levels in encoding %v are not read", h.DefinitionLevelEncoding)
			}
			if levels, raw, err = sized(raw); err != nil {
				return err
			}
		}
		return c.decode(levels, raw, int(h.NumValues), h.Encoding)
	case format.DataPageV2:
		h := header.DataPageHeaderV2.V
		n := int(h.DefinitionLevelsByteLength)
		if h.RepetitionLevelsByteLength != 0 || n < 0 || n > len(raw) {
			return errors.New("the levels of a page are longer than it")
		}
		levels, body := raw[:n], raw[n:]
		if !h.IsCompressed.Valid || h.IsCompressed.V {
			if body, err = unpack.decompress(c.codec, body, size-n); err != nil {
				return err
			}
		}
		return c.decode(levels, body, int(h.NumValues), h.Encoding)
	}
	return nil // an index
}

// decode makes the page of its levels and values.
func (c *chunk) decode(levels, body []byte, rows int, how format.Encoding) (err error) {
	if rows < 0 || rows > maxPageValues {
		return fmt.Errorf("a page of %d values", rows)
	}
	present := rows
	if c.optional {
		if c.levels, err = hybrid(c.levels[:0], levels, 1, rows); err != nil {
			return err
		}
		present = 0
		for _, level := range c.levels {
			present += int(level)
		}
	}
	if c.page, err = c.values(body, present, how); err != nil {
		return err
	}
	if n := c.page.len(c.kind); n < present {
		return fmt.Errorf("a page of %d values holds %d", present, n)
	}
	c.rows, c.row, c.value = rows, 0, 0
	return nil
}

// plainDictionary is what RLE_DICTIONARY was called first (parquet.thrift, Encoding).
const plainDictionary format.Encoding = 2

func (c *chunk) values(body []byte, n int, how format.Encoding) (*values, error) {
	switch how {
	case format.Plain:
		return c.kind.plain(body)
	case plainDictionary, format.RLEDictionary:
		if c.dictionary == nil {
			return nil, errors.New("a page lacks its dictionary")
		}
		if n == 0 {
			return &values{}, nil
		}
		if len(body) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		index, err := hybrid(nil, body[1:], int(body[0]), n)
		entries := c.dictionary.len(c.kind)
		for _, i := range index {
			if int(i) >= entries {
				return nil, fmt.Errorf("entry %d of a dictionary of %d", i, entries)
			}
		}
		return &values{index: index, dictionary: c.dictionary}, err
	case format.RLE: // of booleans
		if c.kind.physical != format.Boolean {
			break
		}
		runs, _, err := sized(body)
		if err != nil {
			return nil, err
		}
		bits, err := hybrid(nil, runs, 1, n)
		v := &values{data: make([]byte, len(bits))}
		for i, b := range bits {
			v.data[i] = byte(b)
		}
		return v, err
	case format.DeltaBinaryPacked:
		return c.kind.library(new(delta.BinaryPackedEncoding), body, n)
	case format.DeltaLengthByteArray:
		return c.kind.library(new(delta.LengthByteArrayEncoding), body, n)
	case format.DeltaByteArray:
		return c.kind.library(new(delta.ByteArrayEncoding), body, n)
	case format.ByteStreamSplit:
		return c.kind.library(new(bytestreamsplit.Encoding), body, n)
	}
	return nil, fmt.Errorf("encoding %v of type %v is not read", how, c.kind.physical)
}

// values are those of a page that are not null.
type values struct {
	data    []byte   // of fixed width, a byte of a flag; or texts, one after the other
	offsets []uint32 // where the texts begin in data, and the end

	// Or entries of a dictionary.
	index      []uint32
	dictionary *values
}

func (v *values) len(k kind) int {
	switch {
	case v.dictionary != nil:
		return len(v.index)
	case k.physical == format.ByteArray:
		return max(len(v.offsets)-1, 0)
	}
	return len(v.data) / max(k.bytes(), 1)
}

// bytes is the width of a value.
func (k kind) bytes() int {
	switch k.physical {
	case format.Boolean:
		return 1
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	case format.Int96:
		return 12
	}
	return k.width
}

func (v *values) cell(k kind, i int) string {
	if v.dictionary != nil {
		return v.dictionary.cell(k, int(v.index[i]))
	}
	if k.physical == format.ByteArray {
		return k.text(v.data[v.offsets[i]:v.offsets[i+1]])
	}
	n := k.bytes()
	b := v.data[i*n : (i+1)*n]
	switch {
	case k.decimal && k.physical == format.Int32:
		return k.fixedPoint(big.NewInt(int64(int32(binary.LittleEndian.Uint32(b)))))
	case k.decimal && k.physical == format.Int64:
		return k.fixedPoint(big.NewInt(int64(binary.LittleEndian.Uint64(b))))
	}
	switch k.physical {
	case format.Boolean:
		return strconv.FormatBool(b[0] != 0)
	case format.Int32:
		if k.unsigned {
			return strconv.FormatUint(uint64(binary.LittleEndian.Uint32(b)), 10)
		}
		return strconv.FormatInt(int64(int32(binary.LittleEndian.Uint32(b))), 10)
	case format.Int64:
		if k.unsigned {
			return strconv.FormatUint(binary.LittleEndian.Uint64(b), 10)
		}
		return strconv.FormatInt(int64(binary.LittleEndian.Uint64(b)), 10)
	case format.Float:
		return k.number(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32)
	case format.Double:
		return k.number(math.Float64frombits(binary.LittleEndian.Uint64(b)), 64)
	}
	return k.text(b)
}

// widestDecimal is in bytes: Arrow's widest has 256 bits.
const widestDecimal = 32

// text is a value of bytes: as they are or, of a decimal, a number in two's complement, the first byte the highest
// (LogicalTypes.md, DECIMAL).
func (k kind) text(b []byte) string {
	if !k.decimal || len(b) == 0 || len(b) > widestDecimal {
		return string(b)
	}
	v := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return k.fixedPoint(v)
}

func (k kind) fixedPoint(v *big.Int) string {
	decimals := k.decimals
	if decimals < 0 {
		decimals = k.scale
	}
	return new(big.Rat).SetFrac(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(k.scale)), nil)).FloatString(decimals)
}

func (k kind) number(x float64, bits int) string {
	if k.decimals < 0 {
		return strconv.FormatFloat(x, 'g', -1, bits)
	}
	return strconv.FormatFloat(x, 'f', k.decimals, bits)
}

// plain are values as the encoding PLAIN has them.
func (k kind) plain(body []byte) (*values, error) {
	switch k.physical {
	case format.Boolean:
		v := &values{data: make([]byte, 0, 8*len(body))}
		for _, b := range body {
			for bit := range 8 {
				v.data = append(v.data, b>>bit&1)
			}
		}
		return v, nil
	case format.ByteArray:
		v := &values{data: body[:0]} // without the lengths
		for len(body) > 0 {
			text, rest, err := sized(body)
			if err != nil {
				return nil, err
			}
			v.offsets = append(v.offsets, uint32(len(v.data)))
			v.data = append(v.data, text...)
			body = rest
		}
		v.offsets = append(v.offsets, uint32(len(v.data)))
		return v, nil
	}
	return &values{data: body}, nil
}

// sized are the bytes after a length of four bytes, and what follows them.
func sized(b []byte) (inner, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := 4 + binary.LittleEndian.Uint32(b)
	return b[4:n], b[n:], nil
}

// library has a page decoded by the library.
func (k kind) library(e encoding.Encoding, body []byte, n int) (_ *values, err error) {
	_, split := e.(*bytestreamsplit.Encoding)
	if !split {
		if err := checkDelta(body, n); err != nil {
			return nil, err
		}
	}
	v := &values{}
	switch k.physical {
	case format.Int32:
		var list []int32
		if split {
			list, err = e.DecodeInt32(nil, body)
		} else { // DuckDB has numbers above 2^31 among those of 32 bits, which the library refuses there
			var wide []int64
			wide, err = e.DecodeInt64(nil, body)
			for _, n := range wide {
				list = append(list, int32(n))
			}
		}
		v.data, _ = binary.Append(nil, binary.LittleEndian, list)
	case format.Int64:
		var list []int64
		list, err = e.DecodeInt64(nil, body)
		v.data, _ = binary.Append(nil, binary.LittleEndian, list)
	case format.Float:
		var list []float32
		list, err = e.DecodeFloat(nil, body)
		v.data, _ = binary.Append(nil, binary.LittleEndian, list)
	case format.Double:
		var list []float64
		list, err = e.DecodeDouble(nil, body)
		v.data, _ = binary.Append(nil, binary.LittleEndian, list)
	case format.ByteArray:
		v.data, v.offsets, err = e.DecodeByteArray(nil, body, nil)
	default:
		v.data, err = e.DecodeFixedLenByteArray(nil, body, k.width)
	}
	return v, err
}

// checkDelta holds the number of values that a page of a DELTA encoding announces against n: the library
// makes room for them first (Encodings.md: block size, miniblocks, number of values).
func checkDelta(body []byte, n int) error {
	for range 2 {
		_, used := binary.Uvarint(body)
		if used <= 0 {
			return io.ErrUnexpectedEOF
		}
		body = body[used:]
	}
	if announced, _ := binary.Uvarint(body); announced > uint64(n) {
		return fmt.Errorf("%d values where a page has %d", announced, n)
	}
	return nil
}

// hybrid appends n numbers of some bits each from runs of equal ones and packed ones (Encodings.md, RLE).
func hybrid(to []uint32, b []byte, width, n int) ([]uint32, error) {
	if width > 32 {
		return nil, fmt.Errorf("numbers of %d bits", width)
	}
	for len(to) < n {
		head, used := binary.Uvarint(b)
		if used <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[used:]
		if head&1 == 0 { // a run: how often, and the number in whole bytes
			bytes := (width + 7) / 8
			if bytes > len(b) {
				return nil, io.ErrUnexpectedEOF
			}
			v := uint32(0)
			for i := range bytes {
				v |= uint32(b[i]) << (8 * i)
			}
			b = b[bytes:]
			for range min(head>>1, uint64(n-len(to))) {
				to = append(to, v)
			}
			continue
		}
		count := min(head>>1, uint64(n)) * 8 // the last ones may be padding
		for i := uint64(0); i < count && len(to) < n; i++ {
			at := i * uint64(width)
			from, end := at/8, (at+uint64(width)+7)/8
			if end > uint64(len(b)) {
				return nil, io.ErrUnexpectedEOF
			}
			bits := uint64(0)
			for j, x := range b[from:end] {
				bits |= uint64(x) << (8 * j)
			}
			to = append(to, uint32(bits>>(at%8)&(1<<width-1)))
		}
		b = b[min(uint64(len(b)), count*uint64(width)/8):]
	}
	return to, nil
}

type decompressor struct{ zstd *zstd.Decoder }

// decompress is a page of a known size.
func (d *decompressor) decompress(codec format.CompressionCodec, b []byte, size int) (to []byte, err error) {
	switch codec {
	case format.Uncompressed:
		return b, nil
	case format.Snappy:
		if n, err := snappy.DecodedLen(b); err != nil || n != size {
			return nil, fmt.Errorf("a page of %d bytes is said to hold %d", size, n)
		}
		return snappy.Decode(nil, b)
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		to = make([]byte, size)
		_, err = io.ReadFull(z, to)
		return to, err
	case format.Zstd:
		if d.zstd == nil {
			if d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPage), zstd.WithDecoderMaxWindow(MaxPage)); err != nil {
				return nil, err
			}
		}
		to, err = d.zstd.DecodeAll(b, make([]byte, 0, size))
		if err == nil && len(to) != size {
			err = fmt.Errorf("a page of %d bytes holds %d", size, len(to))
		}
		return to, err
	}
	return nil, unread(codec)
}

// unread says that a compression is not read. (The library's decoder of LZ4 doubles its memory on damage without end.)
func unread(codec format.CompressionCodec) error {
	return fmt.Errorf("its compression, %v, is not read; write it with Zstandard, Snappy or gzip", codec)
}
