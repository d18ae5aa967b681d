package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	library "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/bbprof/bbprof/internal/require"
)

func readAll(t *testing.T, file []byte) (*Reader, [][]string) {
	t.Helper()
	r := require.Get(NewReader(bytes.NewReader(file), int64(len(file))))(t)
	var rows [][]string
	row, err := r.Next()
	for ; err == nil; row, err = r.Next() {
		rows = append(rows, slices.Clone(row))
	}
	if !errors.Is(err, io.EOF) {
		t.Fatalf("row %d: %v", len(rows)+1, err)
	}
	return r, rows
}

// TestDuckDB reads one table in three files that DuckDB 1.4 wrote with COPY … TO: snappy with dictionaries, gzip,
// and PARQUET_VERSION v2 with Zstandard, whose columns are in the DELTA encodings and BYTE_STREAM_SPLIT.
func TestDuckDB(t *testing.T) {
	var want [][]string
	for i := range 300 {
		text, flag := "block "+strconv.Itoa(i%50), strconv.FormatBool(i%3 == 0)
		if i%7 == 0 {
			text = ""
		}
		if i%5 == 0 {
			flag = ""
		}
		want = append(want, []string{strconv.Itoa(i), strconv.Itoa(i + 4294960000), strconv.Itoa(i*i - 5), text, "unique " + strconv.Itoa(i*7919),
			fmt.Sprint(float64(i) / 4), fmt.Sprint(float64(i) / 8), flag, ""})
	}
	files := require.Get(filepath.Glob("testdata/duckdb-*.parquet"))(t)
	require.Equal(t, "files", 3, len(files))
	for _, name := range files {
		_, got := readAll(t, require.Get(os.ReadFile(name))(t))
		require.Equal(t, name, want, got)
	}
}

// table is our own, with two row groups.
func table() (columns []Column, rows [][]string) {
	columns = []Column{{Name: "hex", Type: Text, EmptyText: true}, {Name: "reason"}, {Name: "row", Type: Integer},
		{Name: "cycles", Type: Number, Decimals: 4}, {Name: "rescued", Type: Flag}, {Name: "none", Type: Number}}
	for i := range groupRows + 100 {
		row := []string{fmt.Sprintf("%x", i), "", strconv.Itoa(i - 50), fmt.Sprintf("%.4f", float64(i)/16), strconv.FormatBool(i%3 == 0), ""}
		switch {
		case i%11 == 0:
			row[0], row[3] = "", ""
		case i%13 == 0:
			row[1], row[2], row[4] = "alias_4k", "", ""
		}
		rows = append(rows, row)
	}
	return columns, rows
}

func writeAll(t testing.TB, columns []Column, rows [][]string) []byte {
	t.Helper()
	var file bytes.Buffer
	w := require.Get(NewWriter(&file, columns))(t)
	for _, row := range rows {
		require.NoError(t, w.Write(row))
	}
	w.Set("bbprof.run", "old")
	w.Set("bbprof.run", "new")
	require.NoError(t, w.Close())
	return file.Bytes()
}

// TestWrite: this package and the library read back what is written.
func TestWrite(t *testing.T) {
	columns, rows := table()
	file := writeAll(t, columns, rows)
	r := require.Get(NewReader(bytes.NewReader(file), int64(len(file))))(t)
	r.Columns[3].Decimals = 4
	if value := r.Value("bbprof.run"); value != "new" || len(r.Columns) != len(columns) {
		t.Errorf("value %q, %d columns", value, len(r.Columns))
	}
	their := require.Get(library.OpenFile(bytes.NewReader(file), int64(len(file))))(t)
	if value, _ := their.Lookup("bbprof.run"); value != "new" || their.NumRows() != int64(len(rows)) || len(their.RowGroups()) != 2 {
		t.Errorf("the library: value %q, %d rows, %d groups", value, their.NumRows(), len(their.RowGroups()))
	}
	theirs := library.NewReader(their)
	buffer := make([]library.Row, 1)
	for i, want := range rows {
		got, err := r.Next()
		if err != nil || !slices.Equal(want, got) {
			t.Fatalf("row %d: %q, %v, want %q", i, got, err, want)
		}
		if n, err := theirs.ReadRows(buffer); n != 1 {
			t.Fatalf("the library, row %d: %v", i, err)
		}
		for k, v := range buffer[0] {
			cell := v.String()
			switch {
			case v.IsNull():
				if cell = ""; columns[k].EmptyText {
					t.Fatalf("the library, row %d: an empty text is null", i)
				}
			case v.Kind() == library.Double:
				cell = strconv.FormatFloat(v.Double(), 'f', 4, 64)
			}
			if cell != want[k] {
				t.Fatalf("the library, row %d: %s is %q, want %q", i, columns[k].Name, cell, want[k])
			}
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last row: %v", err)
	}
	w := require.Get(NewWriter(io.Discard, columns))(t)
	if err := w.Write([]string{"90", "", "1", "x", "", ""}); err == nil || err.Error() != `cycles is "x", which is not of type number` {
		t.Errorf("a number x: %v", err)
	}
}

// TestKinds: numbers without sign, in 32 bits and of fixed point, which are no integers, and texts of fixed length.
func TestKinds(t *testing.T) {
	type row struct {
		A     int32   `parquet:"a,decimal(2:9),dict"`
		B     int64   `parquet:"b,decimal(4:18)"`
		C     [9]byte `parquet:"c,decimal(3:20)"`
		D     int64   `parquet:"d,decimal(0:18)"`
		Large uint64  `parquet:"large"`
		Small int32   `parquet:"small,dict"`
		Few   *int64  `parquet:"few,optional,dict"`
		Fixed [3]byte `parquet:"fixed"`
	}
	few := int64(5)
	rows := []row{
		{150, 12500, [9]byte{7: 4, 8: 1}, 7, 1<<63 + 1, -7, &few, [3]byte{'a', 'b', 'c'}},
		{-5, -1, [9]byte{255, 255, 255, 255, 255, 255, 255, 255, 254}, -7, 0, 7, nil, [3]byte{'d', 'e', 'f'}},
	}
	want := [][]string{{"1.50", "1.2500", "1.025", "7", "9223372036854775809", "-7", "5", "abc"}, {"-0.05", "-0.0001", "-0.002", "-7", "0", "7", "", "def"}}
	for _, version := range []int{1, 2} {
		var file bytes.Buffer
		require.NoError(t, library.Write(&file, rows, library.DataPageVersion(version)))
		r, got := readAll(t, file.Bytes())
		require.Equal(t, version, want, got)
		require.Equal(t, version, Number, r.Columns[0].Type)
		r = require.Get(NewReader(bytes.NewReader(file.Bytes()), int64(file.Len())))(t)
		r.Columns[0].Decimals = 4
		require.Equal(t, "with four decimals", "1.5000", require.Get(r.Next())(t)[0])
	}
}

func TestRefused(t *testing.T) {
	type nested struct{ List []int64 }
	type lz4 struct {
		Hex string `parquet:"hex,lz4"`
	}
	var list, packed bytes.Buffer
	require.NoError(t, library.Write(&list, []nested{{[]int64{1}}}))
	require.NoError(t, library.Write(&packed, []lz4{{"90"}}))
	columns, rows := table()
	whole := writeAll(t, columns, rows[:10])
	for says, file := range map[string][]byte{
		"column \"List\" is not a single value":                                 list.Bytes(),
		"its compression, LZ4_RAW, is not read; write it with Zstandard":        packed.Bytes(),
		"it does not end as a Parquet file does, so it was not written in full": whole[:len(whole)-1],
		"it ends within the first bytes":                                        []byte(Magic),
		"a footer of 1162101833 bytes":                                          []byte(Magic + strings.Repeat("IDDE", 3) + Magic),
		"its footer does not hold what it announces":                            append(bytes.Repeat([]byte{9}, 1000), 200, 0, 0, 0, 'P', 'A', 'R', '1'),
	} {
		_, err := NewReader(bytes.NewReader(file), int64(len(file)))
		require.Fails(t, says, err, says)
	}
}

// TestHybrid: repeated and packed numbers, with the bytes of the example in Encodings.md.
func TestHybrid(t *testing.T) {
	packed := []byte{3, 0x88, 0xc6, 0xfa} // 0 to 7 in 3 bits each
	for _, c := range []struct {
		b        []byte
		width, n int
		want     []uint32
		fails    bool
	}{
		{b: packed, width: 3, n: 8, want: []uint32{0, 1, 2, 3, 4, 5, 6, 7}},
		{b: packed, width: 3, n: 5, want: []uint32{0, 1, 2, 3, 4}},
		{b: append([]byte{4, 7}, packed...), width: 3, n: 4, want: []uint32{7, 7, 0, 1}},
		{b: packed, width: 3, n: 9, fails: true},
		{b: packed[:3], width: 3, n: 8, fails: true},
		{b: []byte{4}, width: 3, n: 1, fails: true},
		{b: []byte{4, 1}, width: 33, n: 1, fails: true},
		{b: []byte{4}, width: 0, n: 2, want: []uint32{0, 0}},
		{b: []byte{2, 1, 2, 3, 4}, width: 32, n: 1, want: []uint32{0x04030201}},
		{b: []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, width: 1, n: 3, want: []uint32{1, 1, 1}}, // a run of 2^31
	} {
		got, err := hybrid(nil, c.b, c.width, c.n)
		if fails := err != nil; fails != c.fails || !cmp.Equal(c.want, got) {
			t.Errorf("%v, %d bits, %d numbers: %v, %v, want %v", c.b, c.width, c.n, got, err, c.want)
		}
	}
}

// onePage makes a file of one column with one page.
func onePage(t *testing.T, kind format.Type, codec format.CompressionCodec, how format.Encoding, page []byte, size, rows int) []byte {
	t.Helper()
	header := require.Get(thrift.Marshal(new(thrift.CompactProtocol), &format.PageHeader{
		Type: format.DataPage, UncompressedPageSize: int32(size), CompressedPageSize: int32(len(page)),
		DataPageHeader: thrift.New(format.DataPageHeader{NumValues: int32(rows), Encoding: how,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}),
	}))(t)
	file := slices.Concat([]byte(Magic), header, page)
	column := format.ColumnMetaData{Type: kind, Codec: codec, NumValues: int64(rows), DataPageOffset: int64(len(Magic)),
		TotalCompressedSize: int64(len(file) - len(Magic))}
	footer := require.Get(thrift.Marshal(new(thrift.CompactProtocol), &format.FileMetaData{
		NumRows: int64(rows),
		Schema: thrift.Slice[format.SchemaElement]{
			{Name: "root", NumChildren: thrift.New(int32(1))},
			{Name: "x", Type: thrift.New(kind), RepetitionType: thrift.New(format.Optional)},
		},
		RowGroups: thrift.Slice[format.RowGroup]{{NumRows: int64(rows), Columns: thrift.Slice[format.ColumnChunk]{{MetaData: column}}}},
	}))(t)
	return slices.Concat(file, footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte(Magic))
}

// TestBombs reads small files that announce large sizes.
func TestBombs(t *testing.T) {
	const rows, most = 20_000, 64 << 20                    // most: bytes that may be allocated
	levels := append([]byte{4, 0, 0, 0}, 0xc0, 0xb8, 2, 1) // a run of 20,000 ones
	deltas := func(all int32, first int32) []byte {
		list := slices.Repeat([]int32{all}, rows)
		list[0] = first
		return require.Get(new(delta.BinaryPackedEncoding).EncodeInt32(nil, list))(t)
	}
	many := []byte{0x80, 1, 4, 0xff, 0xff, 0xff, 0xff, 7, 0} // 2^31-1 numbers in blocks of 128
	var zeros bytes.Buffer
	z := gzip.NewWriter(&zeros)
	for range most >> 20 * 2 {
		require.Get(z.Write(make([]byte, 1<<20)))(t)
	}
	require.NoError(t, z.Close())
	// A list of row groups, each a list of columns without a field.
	group := append([]byte{0x19, 0xfc, 0x80, 0x80, 0x10}, make([]byte, 1<<18+1)...)
	footer := slices.Concat([]byte{0x49, 0x8c}, bytes.Repeat(group, 8), []byte{0})
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"a run of 2^30 levels": {onePage(t, format.Int64, format.Uncompressed, format.Plain, []byte{6, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 7, 1}, 10, 16),
			"a page of 16 values holds 0"},
		"texts with long prefixes": {onePage(t, format.ByteArray, format.Uncompressed, format.DeltaByteArray,
			slices.Concat(levels, deltas(1<<16, 0), deltas(0, 1<<16), make([]byte, 1<<16)), 1<<20, rows), "more than 67108864"},
		"more suffixes than rows": {onePage(t, format.ByteArray, format.Uncompressed, format.DeltaByteArray,
			slices.Concat(levels, deltas(0, 0), many, make([]byte, 1<<16)), 1<<20, rows),
			"2147483647 values where a page has 20000"},
		"more numbers than rows": {onePage(t, format.Int64, format.Uncompressed, format.DeltaBinaryPacked, slices.Concat(levels, many), 1<<20, rows),
			"2147483647 values where a page has 20000"},
		"a page larger than it says": {onePage(t, format.Int64, format.Gzip, format.Plain, zeros.Bytes(), 100, 16), "a page of 100 bytes holds 101"},
		"a footer of structures": {slices.Concat([]byte(Magic), footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte(Magic)),
			"its footer does not hold what it announces"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := NewReader(bytes.NewReader(c.file), int64(len(c.file)))
		for err == nil {
			_, err = r.Next()
		}
		runtime.ReadMemStats(&after)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > most {
			t.Errorf("%s, a file of %d bytes: %d MiB are allocated", name, len(c.file), made>>20)
		}
	}
}

// TestFlagRuns: a run of booleans holds its value once; the library's decoder reads it as eight.
func TestFlagRuns(t *testing.T) {
	page := []byte{2, 0, 0, 0, 32, 1, 4, 0, 0, 0, 16, 1, 16, 0} // levels: 16 ones; 8 times true, 8 times false
	_, rows := readAll(t, onePage(t, format.Boolean, format.Uncompressed, format.RLE, page, len(page), 16))
	want := slices.Concat(slices.Repeat([][]string{{"true"}}, 8), slices.Repeat([][]string{{"false"}}, 8))
	require.Equal(t, "rows", want, rows)
}

// FuzzRead: a damaged file causes errors, never a panic.
func FuzzRead(f *testing.F) {
	columns, rows := table()
	f.Add(writeAll(f, columns, rows[:50]))
	for _, name := range require.Get(filepath.Glob("testdata/duckdb-*.parquet"))(f) {
		f.Add(require.Get(os.ReadFile(name))(f))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file), int64(len(file)))
		for n := 0; err == nil && n < 1000; n++ {
			_, err = r.Next()
		}
	})
}
