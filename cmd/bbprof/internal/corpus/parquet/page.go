package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/plain"
	"github.com/parquet-go/parquet-go/format"
)

// chunk is a column of a row group, read page by page.
type chunk struct {
	kind     kind
	codec    format.CompressionCodec
	optional bool
	at, end  int64 // unread pages
	largest  int64 // memory of its largest page so far

	dictionary values
	levels     []uint32 // of each row of the page, if optional
	page       values
	rows       int // of the page
	row        int // next row
	value      int // next value
}

// values holds a page's non-null values.
type values struct {
	n    int
	cell func(i int) string
}

// kind describes how a value becomes a cell.
type kind struct {
	physical format.Type
	width    int // of a fixed-length byte array
	unsigned bool
	decimals int
	decimal  bool // an integer multiple of 10^-scale
	scale    int
}

func newChunk(c *format.ColumnMetaData, e format.SchemaElement, decimals int) chunk {
	k := kind{physical: e.Type.V, width: int(e.TypeLength.V), decimals: decimals}
	if k.physical == format.Int96 { // timestamps of old writers: treated as bytes
		k.width = 12
	}
	if t, ok := e.LogicalType.Value.(*format.IntType); ok {
		k.unsigned = !t.IsSigned
	} else if t := e.ConvertedType; t.Valid { // some writers set only this
		k.unsigned = deprecated.Uint8 <= t.V && t.V <= deprecated.Uint64
	}
	k.scale, k.decimal = scaleOf(e)
	at, end := extent(c)
	return chunk{kind: k, codec: c.Codec, optional: e.RepetitionType.V == format.Optional, at: at, end: end}
}

func (c *chunk) next() string {
	c.row++
	if c.optional && c.levels[c.row-1] == 0 {
		return ""
	}
	c.value++
	return c.page.cell(c.value - 1)
}

func (c *chunk) decode(header *format.PageHeader, raw []byte, r *Reader) (err error) {
	if header.Type == format.IndexPage {
		return nil
	}
	size := int(header.UncompressedPageSize)
	v2 := header.DataPageHeaderV2.V
	levels := 0
	if header.Type == format.DataPageV2 { // its levels come first, uncompressed
		levels = int(v2.DefinitionLevelsByteLength)
		if v2.RepetitionLevelsByteLength != 0 || levels < 0 || levels > len(raw) {
			return errors.New("the levels of a page are longer than it")
		}
	}
	body := raw[levels:]
	if !v2.IsCompressed.Valid || v2.IsCompressed.V {
		if body, err = r.decompress(c.codec, body, size-levels); err != nil {
			return err
		}
	}
	switch header.Type {
	case format.DictionaryPage:
		c.dictionary, err = c.kind.decode(new(plain.Encoding), body)
	case format.DataPage:
		h := header.DataPageHeader.V
		var levels []byte
		if c.optional {
			if h.DefinitionLevelEncoding != format.RLE {
				return fmt.Errorf("definition levels in encoding %v are not read", h.DefinitionLevelEncoding)
			}
			if levels, body, err = sized(body); err != nil {
				return err
			}
		}
		err = c.decodeData(levels, body, int(h.NumValues), h.Encoding)
	case format.DataPageV2:
		err = c.decodeData(raw[:levels], body, int(v2.NumValues), v2.Encoding)
	}
	return err
}

func (c *chunk) decodeData(levels, body []byte, rows int, how format.Encoding) (err error) {
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
	if c.page.n < present {
		return fmt.Errorf("a page of %d values holds %d", present, c.page.n)
	}
	c.rows, c.row, c.value = rows, 0, 0
	return nil
}

// plainDictionary is the old name of RLE_DICTIONARY (parquet.thrift, Encoding).
const plainDictionary format.Encoding = 2

// values decodes n values. It decodes runs itself: the library allocates what a run announces, and reads the
// single byte of a run of booleans as eight of them.
func (c *chunk) values(body []byte, n int, how format.Encoding) (v values, err error) {
	switch how {
	case format.Plain:
		return c.kind.decode(new(plain.Encoding), body)
	case plainDictionary, format.RLEDictionary:
		if c.dictionary.cell == nil {
			return v, errors.New("a page lacks its dictionary")
		}
		if n == 0 {
			return v, nil
		}
		if len(body) == 0 {
			return v, io.ErrUnexpectedEOF
		}
		index, err := hybrid(nil, body[1:], int(body[0]), n)
		dictionary := c.dictionary
		for _, i := range index {
			if int(i) >= dictionary.n {
				return v, fmt.Errorf("entry %d of a dictionary of %d", i, dictionary.n)
			}
		}
		return values{len(index), func(i int) string { return dictionary.cell(int(index[i])) }}, err
	case format.RLE: // booleans
		if c.kind.physical != format.Boolean {
			break
		}
		runs, _, err := sized(body)
		if err != nil {
			return v, err
		}
		bits, err := hybrid(nil, runs, 1, n)
		return values{len(bits), func(i int) string { return strconv.FormatBool(bits[i] != 0) }}, err
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray, format.DeltaByteArray:
		if err := checkDelta(body, n, how); err != nil {
			return v, err
		}
		return c.kind.decode(deltas[how], body)
	case format.ByteStreamSplit:
		return c.kind.decode(new(bytestreamsplit.Encoding), body)
	}
	return v, fmt.Errorf("encoding %v of type %v is not read", how, c.kind.physical)
}

var deltas = map[format.Encoding]encoding.Encoding{
	format.DeltaBinaryPacked:    new(delta.BinaryPackedEncoding),
	format.DeltaLengthByteArray: new(delta.LengthByteArrayEncoding),
	format.DeltaByteArray:       new(delta.ByteArrayEncoding),
}

// checkDelta checks what a DELTA-encoded page announces against n and MaxPage, since the library allocates that
// first.
func checkDelta(body []byte, n int, how format.Encoding) error {
	rest, err := skipDelta(body, n)
	if err != nil || how != format.DeltaByteArray {
		return err
	}
	if _, err := skipDelta(rest, n); err != nil {
		return err
	}
	prefixes, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, body)
	sum := len(body)
	for _, p := range prefixes {
		if sum += int(p); sum > maxPage {
			return fmt.Errorf("a page of texts of %d bytes, more than %d", sum, maxPage)
		}
	}
	return err
}

// skipDelta returns what follows a list of at most n numbers (Encodings.md, DELTA_BINARY_PACKED).
func skipDelta(b []byte, n int) (rest []byte, err error) {
	w := thriftWalk{rest: b} // its varints are the same
	size, parts, announced := w.varint(), w.varint(), w.varint()
	if w.varint(); !w.bad && announced > uint64(n) {
		return nil, fmt.Errorf("%d values where a page has %d", announced, n)
	}
	for left := int64(announced) - 1; left > 0 && !w.bad; {
		w.varint() // minimum delta
		if parts == 0 || size == 0 || size > maxPageValues || parts > uint64(len(w.rest)) {
			return nil, io.ErrUnexpectedEOF
		}
		widths := w.rest[:parts]
		w.skip(parts)
		for _, width := range widths {
			if left > 0 { // trailing blocks are omitted
				w.skip(min(size/parts*uint64(width)/8, uint64(len(w.rest))))
			}
			left -= int64(size / parts)
		}
	}
	if w.bad {
		return nil, io.ErrUnexpectedEOF
	}
	return w.rest, nil
}

func (k kind) decode(e encoding.Encoding, body []byte) (values, error) {
	switch k.physical {
	case format.Boolean:
		bits, err := e.DecodeBoolean(nil, body)
		return values{8 * len(bits), func(i int) string { return strconv.FormatBool(bits[i/8]>>(i%8)&1 != 0) }}, err
	case format.Int32:
		if e.Encoding() == format.DeltaBinaryPacked { // DuckDB mixes numbers above 2^31 into 32-bit ones, which the library refuses
			list, err := e.DecodeInt64(nil, body)
			return values{len(list), func(i int) string { return k.integer(int64(int32(list[i]))) }}, err
		}
		list, err := e.DecodeInt32(nil, body)
		return values{len(list), func(i int) string { return k.integer(int64(list[i])) }}, err
	case format.Int64:
		list, err := e.DecodeInt64(nil, body)
		return values{len(list), func(i int) string { return k.integer(list[i]) }}, err
	case format.Float:
		list, err := e.DecodeFloat(nil, body)
		return values{len(list), func(i int) string { return k.number(float64(list[i]), 32) }}, err
	case format.Double:
		list, err := e.DecodeDouble(nil, body)
		return values{len(list), func(i int) string { return k.number(list[i], 64) }}, err
	case format.ByteArray:
		data, offsets, err := e.DecodeByteArray(nil, body, nil)
		return values{max(len(offsets)-1, 0), func(i int) string { return k.text(data[offsets[i]:offsets[i+1]]) }}, err
	}
	data, err := e.DecodeFixedLenByteArray(nil, body, k.width)
	return values{len(data) / k.width, func(i int) string { return k.text(data[i*k.width : (i+1)*k.width]) }}, err
}

func (k kind) integer(v int64) string {
	switch {
	case k.decimal:
		return k.fixedPoint(big.NewInt(v))
	case k.unsigned && k.physical == format.Int32:
		return strconv.FormatUint(uint64(uint32(v)), 10)
	case k.unsigned:
		return strconv.FormatUint(uint64(v), 10)
	}
	return strconv.FormatInt(v, 10)
}

// widestDecimal is in bytes: Arrow's widest decimal has 256 bits.
const widestDecimal = 32

// text formats a byte value: unchanged or, for a decimal, as a big-endian number in two's complement
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

// sized splits off the bytes that a four-byte length announces.
func sized(b []byte) (inner, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := 4 + binary.LittleEndian.Uint32(b)
	return b[4:n], b[n:], nil
}

// hybrid appends n numbers of width bits from repeated and bit-packed runs (Encodings.md, RLE).
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
		if head&1 == 0 { // a run: its length, and the number in whole bytes
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

func (r *Reader) decompress(codec format.CompressionCodec, b []byte, size int) (to []byte, err error) {
	length := 0
	switch codec {
	case format.Uncompressed:
		return b, nil
	case format.Snappy:
		if length, err = snappy.DecodedLen(b); err == nil && length == size {
			return snappy.Decode(nil, b)
		}
	case format.Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			to, err = io.ReadAll(io.LimitReader(z, int64(size)+1))
		}
		length = len(to)
	case format.Zstd:
		if r.zstd == nil {
			r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecoderMaxWindow(maxPage))
		}
		if err == nil {
			to, err = r.zstd.DecodeAll(b, make([]byte, 0, size))
		}
		length = len(to)
	}
	if err == nil && length != size {
		err = fmt.Errorf("a page of %d bytes holds %d", size, length)
	}
	return to, err
}
