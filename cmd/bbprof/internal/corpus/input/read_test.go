package input

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// open reads a text from standard input, one byte per read: chunking must not matter.
func open(t *testing.T, text, column string) *Input {
	t.Helper()
	return require.Get(Open([]string{"-"}, iotest.OneByteReader(strings.NewReader(text)), column, []string{"hex", "cycles"}))(t)
}

// readAll formats each row as "text=code" or "text!reason", and after | its carried cells.
func readAll(t *testing.T, in *Input) (rows []string) {
	t.Helper()
	for {
		row, err := in.Next()
		if err == io.EOF {
			return rows
		}
		require.NoError(t, err)
		s := row.Text + "=" + hex.EncodeToString(row.Code)
		if row.Rejection != nil {
			s = row.Text + "!" + string(row.Rejection.Reason)
		}
		if len(row.Carried) > 0 {
			s += "|" + strings.Join(row.Carried, "|")
		}
		rows = append(rows, s)
	}
}

// header returns the name of the column of blocks, if there is a header.
func header(in *Input) (name string) {
	for _, choice := range in.Choices() {
		if _, after, ok := strings.Cut(choice, "blocks are in its column "); ok {
			name = after
		}
	}
	return name
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in, header string
		want             []string
	}{
		{"empty", "", "", nil},
		{"end of line", "90\n", "", []string{"90=90"}},
		{"carriage returns", "90,a\r\n91,b\r\n", "", []string{"90=90|a", "91=91|b"}},
		{"columns", "90,a,\"b\n91,\n", "", []string{"90=90|a|b", "91=91||"}},
		{"a header's hex may stand anywhere", "source,HEX\nx,90\n", "HEX", []string{"90=90|x"}},
		{"header alone", "hex", "hex", nil},
		{"header in quotes", "\"Basic block\",x\n90,\n", "Basic block", []string{"90=90|"}},
		{"header after a byte-order mark", "\ufeffhex\n90\n", "hex", []string{"90=90"}},
		{"block after a byte-order mark", "\ufeff90\n", "", []string{"90=90"}},
		{"a name further down is no header", "90\nhex\n", "", []string{"90=90", "hex!bad_hex"}},
		{"hexadecimal letters are no header", "add\n", "", []string{"add!bad_hex"}},
		{"a damaged block is no header", "48g1\n", "", []string{"48g1!bad_hex"}},
		{"blank lines and comments are no rows", "\n# a,b\n90\n \t\n,x\n  #\n\n", "", []string{"90=90", "!bad_hex"}},
		{"a header after comments", "\ufeff# made by x\n\nhex,n\n90,1\n", "hex", []string{"90=90|1"}},
		{"tabs", "id\tcode\n7\t4801c0\n", "code", []string{"4801c0=4801c0|7"}},
		{"tabs beside commas", "4801c0\tadd rax, rax\n90\tnop\n", "", []string{"4801c0=4801c0|add rax, rax", "90=90|nop"}},
		{"tabs between bytes", "48\t01\tc0,x\n", "", []string{"48\t01\tc0=4801c0|x"}},
		{"semicolons", "hex;n\n90;1\n91;2;3\n", "hex", []string{"90=90|1", "91=91|2;3"}},
		{"a name that blocks have", "id,code\n10,4801c0\n11,90\n", "code", []string{"4801c0=4801c0|10", "90=90|11"}},
		{"numbers beside blocks", "n,body\n10,4801c0\n11,c3\n", "body", []string{"4801c0=4801c0|10", "c3=c3|11"}},
		{"names beside blocks", "main,4801c0\nf,90\n", "", []string{"4801c0=4801c0|main", "90=90|f"}},
		{"numbers alone", "n,m\n90,1\n91,2\n", "n", []string{"90=90|1", "91=91|2"}},
		{"a header that does not name its blocks", ",source\n90,x\n", "1", []string{"90=90|x"}},
		{"quotes", "\"48 01 c0\",x\n \"90\" ,\n", "", []string{"48 01 c0=4801c0|x", "90=90|"}},
		{"quotes within", "90,\"a \"\"b\"\", c\",d\n", "", []string{"90=90|a \"b\", c|d"}},
		{"a stray quote ends with its line", "\"90\n91\n", "", []string{"90!bad_hex", "91=91"}},
		{"spaces", "  0x90 , x\n", "", []string{"0x90=90| x"}},
		{"more columns than at first", "90,a\n91,b,c,\"d\"\n92\n", "", []string{"90=90|a", "91=91|b,c,d", "92=92|"}},
	} {
		in := open(t, c.in, "")
		require.Equal(t, c.name, c.want, readAll(t, in))
		require.Equal(t, c.name+": header", c.header, header(in))
	}
}

func TestColumn(t *testing.T) {
	const header = "name,asm,hex\nx,90,91\n"
	for _, c := range []struct {
		column, in, want string
	}{
		{"ASM", header, "90=90|x|91"},
		{"2", header, "90=90|x|91"},
		{"3", header, "91=91|x|90"},
		{"", header, "91=91|x|90"},
		{"2", "x,90,91\n", "90=90|x|91"},
		{"2", "x,90,91\ny\n", "90=90|x|91\n!bad_hex|y|"},
	} {
		got := strings.Join(readAll(t, open(t, c.in, c.column)), "\n")
		require.Equal(t, fmt.Sprintf("-column %q of %q", c.column, c.in), c.want, got)
	}
	in := open(t, "hex\n90\n4z\n", "")
	in.Next()
	if row, err := in.Next(); err != nil || row.Line != 3 || row.Number != 2 || !strings.HasPrefix(row.Rejection.Detail, "line 3: character 2: ") {
		t.Errorf("%+v, %v, %v", row, row.Rejection, err)
	}
	for column, says := range map[string]string{
		"source": `no column is called "source"; the first line has name, asm, hex`,
		"4":      "there is no column 4; the first line has 3", "0": "there is no column 0", "-1": "there is no column -1",
	} {
		_, err := Open([]string{"-"}, strings.NewReader(header), column, nil)
		require.Fails(t, column, err, says)
	}
}

// TestCarriedNames: names are unique and differ from a result's own.
func TestCarriedNames(t *testing.T) {
	for in, want := range map[string]string{
		"hex,a,b\n":           "a b",
		"90,x,y\n":            "column_2 column_3",
		"hex,a,,a,a\n":        "a column_3 a_2 a_3",
		"id,hex,Cycles,x\n":   "id input_Cycles x",
		"hex,hex,input_hex\n": "input_hex input_hex_2",
		"":                    "",
	} {
		require.Equal(t, in, want, strings.Join(open(t, in, "").Carried(), " "))
	}
}

// TestFiles: several files, with or without header or compression, form one corpus.
func TestFiles(t *testing.T) {
	names := []string{require.File(t, "a.csv", "hex,frequency\n90,1\n91,2\n")}
	var z bytes.Buffer
	gz := gzip.NewWriter(&z)
	gz.Write([]byte("source,hex\ns,92"))
	gz.Close()
	names = append(names, require.File(t, "b.csv.gz", z.Bytes()))
	z.Reset()
	zs := require.Get(zstd.NewWriter(&z))(t)
	zs.Write([]byte("93,3\n94,4\n"))
	zs.Close()
	names = append(names, require.File(t, "c", z.Bytes()), require.File(t, "empty", ""), "-")
	in := require.Get(Open(names, strings.NewReader("95,5,6\n"), "", nil))(t)
	defer in.Close()
	require.Equal(t, "carries", "frequency source column_2 column_3", strings.Join(in.Carried(), " "))
	want := []string{
		"1 a.csv:2 90 1|||", "2 a.csv:3 91 2|||", "3 b.csv.gz:2 92 |s||", "4 c:1 93 ||3|", "5 c:2 94 ||4|", "6 -:1 95 ||5|6",
	}
	var before int64
	for _, w := range want {
		row := require.Get(in.Next())(t)
		at := fmt.Sprintf("%d %s:%d", row.Number, filepath.Base(row.File), row.Line)
		require.Equal(t, "row", w, fmt.Sprintf("%s %x %s", at, row.Code, strings.Join(row.Carried, "|")))
		if row.End < before {
			t.Errorf("row %d ends at %d, the one before at %d", row.Number, row.End, before)
		}
		before = row.End
	}
	if _, err := in.Next(); err != io.EOF {
		t.Errorf("after the last row: %v", err)
	}
	require.Equal(t, "the size with standard input", int64(0), in.Size())
}

func TestSize(t *testing.T) {
	name := require.File(t, "a.csv", "hex\n90\n9191\n")
	in := require.Get(Open([]string{name, name}, nil, "", nil))(t)
	ends := []int64{in.Size()}
	for row, err := in.Next(); err == nil; row, err = in.Next() {
		ends = append(ends, row.End)
	}
	require.Equal(t, "size, and where rows end", []int64{24, 7, 12, 19, 24}, ends)
}

// TestReaderBounds reads at and just beyond the limits; the next row must survive.
func TestReaderBounds(t *testing.T) {
	longest := strings.Repeat("90", profiler.MaxBlock)
	for _, c := range []struct {
		name, line string
		want       verdict.Reason
	}{
		{"longest block", longest, ""},
		{"longest block in quotes", `"` + longest + `",x`, ""},
		{"longest block and a long comment", longest + "," + strings.Repeat("x", MaxRow), ""},
		{"a byte too long", longest + "90", verdict.CodeExceedsL1I},
		{"a column as long as is read", strings.Repeat(" ", MaxRow-len("90\n")) + "90", ""},
		{"a column that goes on", strings.Repeat(" ", MaxRow-len("9\n")) + "90", verdict.BadHex},
		{"a quoted column that goes on", `"` + strings.Repeat(" ", MaxRow) + `90"`, verdict.BadHex},
	} {
		r := require.Get(Open([]string{"-"}, strings.NewReader(c.line+"\n91\n"), "", nil))(t)
		row := require.Get(r.Next())(t)
		var got verdict.Reason
		if row.Rejection != nil {
			got = row.Rejection.Reason
		}
		if got != c.want || got == "" && len(row.Code) == 0 {
			t.Errorf("%s: block of %d bytes, reason %q, want %q", c.name, len(row.Code), got, c.want)
		}
		if next, err := r.Next(); err != nil || next.Text != "91" || next.Line != 2 {
			t.Errorf("%s: the next row is %+v, %v", c.name, next, err)
		}
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	r := require.Get(Open([]string{"-"}, io.MultiReader(strings.NewReader("90\n91"), iotest.ErrReader(broken)), "", nil))(t)
	if row, err := r.Next(); err != nil || row.Text != "90" {
		t.Fatalf("%+v, %v", row, err)
	}
	// The row that it broke in may lack its end.
	var reading *ReadError
	if _, err := r.Next(); !errors.Is(err, broken) || !errors.As(err, &reading) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// FuzzReader: every line but a header yields one row, in order, with a block or a reason.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"hex,x\n90\n", "\"48\n01\"", "\r\n\n", "\ufeff90,\"", "zz\x00\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if Compressed(in) {
			return // lines are counted differently there
		}
		var lines []int // line numbers of rows
		for i, line := range bytes.Split(in, []byte("\n")) {
			if i == 0 {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			if isRow(string(line)) {
				lines = append(lines, i+1)
			}
		}
		r, err := Open([]string{"-"}, bytes.NewReader(in), "", nil)
		if err != nil {
			return // with a reason
		}
		header := header(r)
		rows := 0
		for {
			row, err := r.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			rows++
			if (row.Rejection == nil) == (len(row.Code) == 0) {
				t.Fatalf("%q: block %x and reason %v", row.Text, row.Code, row.Rejection)
			}
			if row.Rejection != nil {
				row.Rejected()
			}
			if header != "" && rows == 1 {
				lines = lines[1:]
			}
			if row.Line != lines[rows-1] {
				t.Fatalf("row %d is said to be line %d of %v, header %q", rows, row.Line, lines, header)
			}
			if len(row.Carried) != len(r.Carried()) {
				t.Fatalf("%d cells of %d columns carried", len(row.Carried), len(r.Carried()))
			}
		}
		if header != "" && rows == 0 {
			rows++
		}
		require.Equal(t, fmt.Sprint("rows of lines ", lines), len(lines), rows)
	})
}

// TestForeign: a file without rows is refused before measuring, with a guess of its format; one with some damaged
// rows is not.
func TestForeign(t *testing.T) {
	for content, says := range map[string]string{
		"\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 100): "it is an ELF file (a program or an object); bbprof extract takes its blocks",
		"\x1f\x8b\x08\x00":               "/x: it is compressed and its end is missing; copy it again: unexpected EOF",
		"[{\"hex\":\"90\"}]\n":           "it seems to be JSON",
		"{\"hex\":\"90\",\"bytes\":1}\n": "it is JSON; bbprof convert makes CSV of a result in JSON lines", // its first line is no header with a column bytes
		"PAR1....":                       "it ends within the first bytes of a Parquet file",
		"\xff\xfeh\x00e\x00x\x00":        "it is text in UTF-16",
		strings.Repeat("\x00", 1000):     "it is binary data, not text",
		"PK\x03\x04" + strings.Repeat("\x00", 26) + "bbprof-states.json": "it is a file of bbprof capture; measure its blocks with bbprof batch -state FILE",
		"id,name\n1,a\n2,b\n":             "none of its first 2 rows is a block: blocks are hexadecimal",
		"n,a,b\nx,90c3,c390\ny,c390,c3\n": "columns 2 and 3 both look like blocks; -column names one",
	} {
		_, err := Open([]string{require.File(t, "x", content)}, nil, "", nil)
		require.Fails(t, content, err, says)
	}
	_, err := Open([]string{require.File(t, "x", "id,name\n1,a\n2,b\n")}, nil, NoFlag, nil)
	require.Fails(t, "a command without -column", err, "; a header with hex names another column")
	for _, content := range []string{"", "hex\n", "zz,1\n" + strings.Repeat("yy,2\n", 100) + "90,3\n"} {
		require.Get(Open([]string{require.File(t, "x", content)}, nil, "", nil))(t).Close()
	}
}

// TestChoices: a detected layout is reported.
func TestChoices(t *testing.T) {
	for content, want := range map[string]string{
		"90,n\n":            "",
		"n,hex\n1,90\n":     "-: line 1 is the header; blocks are in its column hex",
		"n\thex\n1\t90\n":   "-: line 1 is the header; blocks are in its column hex|-: tabs separate the columns",
		"id;code\n1;4801\n": "-: line 1 is the header; blocks are in its column code|-: semicolons separate the columns|-: blocks are taken from column 2 (code); -column names another",
		"f,4801\n":          "-: blocks are taken from column 2; -column names another",
	} {
		require.Equal(t, content, want, strings.Join(open(t, content, "").Choices(), "|"))
	}
}

// endlessly yields one byte forever.
type endlessly byte

func (e endlessly) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// TestEndlessLine: an endless line is an error with its place, not a hang.
func TestEndlessLine(t *testing.T) {
	var z bytes.Buffer
	gz := gzip.NewWriter(&z)
	gz.Write([]byte("90\n"))
	io.CopyN(gz, endlessly('x'), 2*MaxLine)
	gz.Close()
	for name, r := range map[string]io.Reader{
		"zeros":      endlessly(0),
		"letters":    endlessly('a'),
		"line 2":     io.MultiReader(strings.NewReader("90\n"), endlessly('a')),
		"compressed": &z,
	} {
		in, err := Open([]string{"-"}, r, "", nil)
		for err == nil {
			_, err = in.Next()
		}
		if errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "no end within") && !strings.Contains(err.Error(), "binary data") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyColumns: the maximum number of columns takes no time, and more are refused.
func TestManyColumns(t *testing.T) {
	for _, name := range []func(int) string{func(i int) string { return fmt.Sprint("x", i) }, func(int) string { return "x" }} {
		for columns, ok := range map[int]bool{MaxColumns - 2: true, MaxColumns: false, 50_000: false} {
			var b strings.Builder
			b.WriteString("hex")
			for i := range columns - 1 {
				b.WriteString("," + name(i))
			}
			b.WriteString("\n90" + strings.Repeat(",1", columns-1) + "\n")
			in, err := Open([]string{"-"}, strings.NewReader(b.String()), "", []string{"hex", "cycles"})
			if (err == nil) != ok {
				t.Errorf("%d columns: %v", columns, err)
			}
			if err == nil && len(readAll(t, in)) != 1 {
				t.Errorf("%d columns: no row", columns)
			}
		}
	}
}

// TestParquet: a Parquet table is read like its CSV, from a file and from a pipe.
func TestParquet(t *testing.T) {
	var table bytes.Buffer
	w := require.Get(parquet.NewWriter(&table, []parquet.Column{{Name: "# id", Type: parquet.Integer}, {Name: "Hex"}, {Name: "note"}}))(t)
	for _, cells := range [][]string{{"7", "90", "a, \"b\""}, {"", "", ""}, {"9", "zz", "#\n"}, {"10", "4801c0", ""}} {
		require.NoError(t, w.Write(cells))
	}
	require.NoError(t, w.Close())
	name := require.File(t, "corpus.pq", table.Bytes())
	want := []string{`90=90|7|a, "b"`, "!bad_hex||", "zz!bad_hex|9|# ", "4801c0=4801c0|10|"}
	for _, from := range []string{name, "-"} {
		in := require.Get(Open([]string{from}, bytes.NewReader(table.Bytes()), "", nil))(t)
		require.Equal(t, "names", []string{"# id", "note"}, in.Carried())
		require.Equal(t, from, want, readAll(t, in))
	}
}

// TestUnplaced: invalid addresses are counted for a warning; 0x0 is valid, an empty cell is none.
func TestUnplaced(t *testing.T) {
	in := require.Get(Open([]string{"-"}, strings.NewReader("hex,address\n90,401136\n90,0x0\n90,\n90,0x401136\n90,main+4\n90,\"0x1\n"), "", nil))(t)
	var at []string
	for row, err := in.Next(); err == nil; row, err = in.Next() {
		if at = append(at, ""); row.At != nil {
			at[len(at)-1] = fmt.Sprintf("%#x", *row.At)
		}
	}
	require.Equal(t, "addresses", []string{"", "0x0", "", "0x401136", "", "0x1"}, at)
	require.Equal(t, "ignored", true, in.Ignored() == Ignored{unplaced: 2, first: "-:2", opened: 1, firstOpen: "-:7"})
}
