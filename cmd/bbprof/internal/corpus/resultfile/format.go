package resultfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// Format is the format of a result file.
type Format string

const (
	CSV           Format = "csv"
	JSON          Format = "jsonl"
	Parquet       Format = "parquet"
	BHive         Format = "bhive"
	Gematria      Format = "gematria"
	GematriaState Format = "gematria-state"
	GematriaJSON  Format = "gematria-json"
	Ithemal       Format = "ithemal"
	OSACA         Format = "osaca"
	AnICA         Format = "anica"
	Exegesis      Format = "exegesis"
)

// formats lists the file name suffixes, without .gz and .zst, a description for the user, and, for formats of
// other tools, which hold accepted blocks, the exporter.
var formats = []struct {
	Format
	endings []string
	About   string
	export  func(Schema) (exporter, error)
}{
	{CSV, []string{"", ".", ".csv", ".txt"}, "a header, then a line a row", nil},
	{JSON, []string{".jsonl", ".ndjson", ".json"}, "an object a line", nil},
	{Parquet, []string{".parquet", ".pq"}, "a table with types", nil},
	{BHive, []string{".bhive"}, "hex and cycles per 100 iterations, no header", newBHive},
	{Gematria, []string{".tfrecord"}, "BasicBlockWithThroughputProto as TFRecord", newGematria},
	{GematriaState, nil, "BlockWithExecutionAnnotations as TFRecord; needs column mapping", newGematriaState},
	{GematriaJSON, nil, "the same as JSON", newGematriaJSON},
	{Ithemal, nil, "hex alone, for predict.py --raw-stdin", newIthemal},
	{OSACA, nil, "assembly with its marks, and each block's lines", newOSACA},
	{AnICA, nil, "a series for its MeasurementDB", newAnICA},
	{Exegesis, nil, "a snippet for llvm-exegesis, or -o DIR/ with one a file; needs column mapping", newExegesis},
}

func Formats() (all []Format) {
	for _, f := range formats {
		all = append(all, f.Format)
	}
	return all
}

// Foreign lists the formats of other tools with their descriptions.
func Foreign() (list []string) {
	for _, f := range formats {
		if f.export != nil {
			list = append(list, string(f.Format)+", "+f.About)
		}
	}
	return list
}

// FormatOf infers the format from a file's name without .gz and .zst. A name without a suffix means CSV; known is
// false for an unknown suffix.
func FormatOf(name string) (f Format, known bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".gz"), ".zst")
	for _, f := range formats {
		if slices.Contains(f.endings, filepath.Ext(name)) {
			return f.Format, true
		}
	}
	return CSV, false
}

// Whole reports whether the format holds all rows with all columns.
func (f Format) Whole() bool { return f == CSV || f == JSON || f == Parquet }

// Binary reports whether the format is not text.
func (f Format) Binary() bool { return f == Parquet || f == Gematria || f == GematriaState }

// NeedsMapping reports whether it needs the column of WithMapping.
func (f Format) NeedsMapping() bool { return f == GematriaState || f == GematriaJSON || f == Exegesis }

// Appends reports whether a file of the format is valid after each row, so that a run can resume into it: a line
// per row, and every row.
func (f Format) Appends() bool { return f == CSV || f == JSON }

type Writer interface {
	Write(cells []string) error
	Close() error // flushes, but leaves the underlying file open
}

// NewWriter returns a writer for rows of a schema.
func NewWriter(w io.Writer, f Format, s Schema) (Writer, error) {
	if f == Parquet {
		return newParquetWriter(w, s)
	}
	lines, err := NewLines(f, s)
	if err != nil {
		return nil, err
	}
	out := &lineWriter{lines: lines, out: bufio.NewWriterSize(w, 1<<16)}
	_, err = out.out.Write(lines.Header())
	return out, err
}

// NewSelection is NewWriter for the named columns, in that order; for all if there are no names.
func NewSelection(w io.Writer, f Format, s Schema, names []string) (Writer, error) {
	if len(names) == 0 {
		return NewWriter(w, f, s)
	}
	chosen, at, err := s.Select(names)
	if err != nil {
		return nil, err
	}
	sel := &selection{at: at, header: s.Index(runHeader)}
	sel.Writer, err = NewWriter(w, f, chosen)
	return sel, err
}

// Select returns the named columns in order, and their indices in s. If all names start with a minus sign, it
// returns all columns but these.
func (s Schema) Select(names []string) (chosen Schema, at []int, err error) {
	minus := func(name string) bool { return strings.HasPrefix(name, "-") }
	except := len(names) > 0 && minus(names[0])
	left := map[int]bool{}
	for _, name := range names {
		if minus(name) != except {
			return nil, nil, errors.New("some names have a minus sign and some have none; name the columns to write, or with a minus sign each those to leave out")
		}
		i := s.Index(strings.TrimPrefix(name, "-"))
		switch {
		case i < 0 && except && leftOut(name[1:]): // was not there anyway
		case i < 0:
			return nil, nil, fmt.Errorf("it has no column %s; there are %s", strings.TrimPrefix(name, "-"), strings.Join(s.Names(), ", "))
		case except:
			left[i] = true
		default:
			chosen, at = append(chosen, s[i]), append(at, i)
		}
	}
	for i := range s {
		if except && !left[i] {
			chosen, at = append(chosen, s[i]), append(at, i)
		}
	}
	return chosen, at, chosen.distinct()
}

// leftOut reports whether the named column is optional.
func leftOut(name string) bool {
	all := Schema(known())
	i := all.Index(name)
	return i >= 0 && all[i].with != nil
}

type selection struct {
	Writer
	at     []int
	header int // index of run_header, -1 if there is none
	cells  []string
}

func (s *selection) Write(cells []string) error {
	if w, ok := s.Writer.(*parquetWriter); ok && s.header >= 0 {
		w.noteRun(cells[s.header])
	}
	s.cells = Arrange(cells, s.at, s.cells)
	return s.Writer.Write(s.cells)
}

type lineWriter struct {
	lines *Lines
	out   *bufio.Writer
	line  []byte
}

func (w *lineWriter) Write(cells []string) (err error) {
	if w.line, err = w.lines.Append(w.line[:0], cells); err == nil {
		_, err = w.out.Write(w.line)
	}
	return err
}

func (w *lineWriter) Close() error {
	w.out.Write(w.lines.Footer()) // an error persists until Flush
	return w.out.Flush()
}

// Lines formats and parses rows as lines, for a schema.
type Lines struct {
	format Format
	schema Schema
	names  []string       // for JSON: quoted, with punctuation
	export exporter       // for another tool's format
	at     map[string]int // column index by name, set by the first decoder
}

// NewLines fails if the schema lacks a column that another tool's format needs.
func NewLines(f Format, s Schema) (*Lines, error) {
	l := &Lines{format: f, schema: s}
	if f == JSON {
		if err := s.distinct(); err != nil {
			return nil, err
		}
	}
	for _, known := range formats {
		if known.Format == f && known.export != nil {
			var err error
			if l.export, err = known.export(s); err != nil {
				return nil, fmt.Errorf("format %s: %w", f, err)
			}
		}
	}
	for i, c := range s {
		start := ","
		if i == 0 {
			start = "{"
		}
		l.names = append(l.names, string(appendString([]byte(start), c.Name))+":")
	}
	return l, nil
}

func (l *Lines) Schema() Schema { return l.schema }

// Header returns the text before the first row, with its line end.
func (l *Lines) Header() []byte {
	if l.format != CSV {
		return nil
	}
	return appendCSV(nil, l.schema.Names())
}

// Append appends a row with its line end, or nothing if the format omits the row.
func (l *Lines) Append(line []byte, cells []string) ([]byte, error) {
	switch {
	case l.export != nil:
		return l.export.append(line, cells)
	case l.format == JSON:
		return l.appendJSON(line, cells)
	}
	return appendCSV(line, cells), nil
}

// Footer returns the text after the last row.
func (l *Lines) Footer() []byte {
	if l.export == nil {
		return nil
	}
	return l.export.footer()
}

func appendCSV(line []byte, cells []string) []byte {
	for i, cell := range cells {
		if i > 0 {
			line = append(line, ',')
		}
		if !needsQuotes(cell) {
			line = append(line, cell...)
			continue
		}
		line = append(line, '"')
		for {
			before, after, quote := strings.Cut(cell, `"`)
			line = append(line, before...)
			if !quote {
				break
			}
			line = append(line, '"', '"')
			cell = after
		}
		line = append(line, '"')
	}
	return append(line, '\n')
}

func needsQuotes(cell string) bool {
	return strings.ContainsAny(cell, ",\"\r\n") || strings.HasPrefix(cell, " ") || strings.HasPrefix(cell, "\t")
}

// Parse splits a line, without its end, into cells.
func (l *Lines) Parse(line string, cells []string) ([]string, error) {
	if l.format == JSON {
		return l.parseJSON(line, cells)
	}
	cells, open := input.Split(line, ',', cells)
	switch {
	case open >= 0:
		return nil, fmt.Errorf("a quote is not closed")
	case len(cells) != len(l.schema):
		return nil, fmt.Errorf("%d columns, of %d", len(cells), len(l.schema))
	}
	for i, c := range l.schema {
		if !c.fits(cells[i]) {
			return nil, c.mistyped(cells[i])
		}
	}
	return cells, nil
}

// fits reports whether a cell has the column's type or is empty.
func (c Column) fits(cell string) bool {
	switch {
	case cell == "" || c.Type == Text:
		return !strings.Contains(cell, "\x00") // zero bytes are left by a disk that lost power
	case c.Type == Integer:
		_, err := strconv.ParseInt(cell, 10, 64)
		return err == nil
	case c.Type == Number:
		return isNumeral(cell)
	}
	return cell == "true" || cell == "false"
}

// isNumeral accepts numbers that are valid in both JSON and CSV.
func isNumeral(s string) bool {
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	if s == "" || s[0] != '-' && !digit(s[0]) || !digit(s[len(s)-1]) || !json.Valid([]byte(s)) {
		return false
	}
	_, err := strconv.ParseFloat(s, 64) // may be out of range
	return err == nil
}

type DamageError struct {
	Line int
	At   int64 // byte offset of the line
	What string
}

func (e *DamageError) Error() string { return fmt.Sprintf("line %d is not a row: %s", e.Line, e.What) }

type Reader interface {
	Schema() Schema // nil if there is no complete header
	// Next returns the next row. At the end the error is io.EOF; after a *DamageError, reading may continue. The cells
	// are valid until the next call.
	Next() ([]string, error)
}

// LineReader reads CSV and JSON lines.
type LineReader struct {
	in     *bufio.Reader
	lines  *Lines
	line   int
	at     int64 // offset of the latest row
	end    int64 // offset of its end
	cells  []string
	buffer []byte
	pushed *string // a line to reread
	long   bool    // the rest of an overlong line must be skipped
}

// maxLine bounds a line of a result: six times a row of input (input.MaxRow), each byte escaped by JSON, and
// bbprof's own columns.
const maxLine = 8 << 20

// NewLineReader reads the header, if the format has one.
func NewLineReader(r io.Reader, f Format) (*LineReader, error) {
	in := &LineReader{in: bufio.NewReaderSize(r, 1<<16)}
	if start, _ := in.in.Peek(len(input.ByteOrderMark)); string(start) == input.ByteOrderMark {
		in.in.Discard(len(input.ByteOrderMark)) // skips the peeked mark
		in.end = int64(len(input.ByteOrderMark))
	}
	switch f {
	case CSV:
		header, ended, err := in.readLine()
		if err == io.EOF || err == nil && !ended {
			return in, nil // nothing was written, or only part of the header
		}
		if err != nil {
			return nil, err
		}
		names, open := input.Split(header, ',', nil)
		if open >= 0 {
			return nil, &DamageError{1, 0, "a quote of the header is not closed"}
		}
		if err := checkWidth(len(names)); err != nil {
			return nil, err
		}
		in.lines, err = NewLines(CSV, SchemaOf(names))
		return in, err
	case JSON:
		names, err := in.peekNames()
		if err != nil || names == nil {
			return in, err
		}
		in.lines, err = NewLines(JSON, SchemaOf(names))
		return in, err
	}
	return nil, fmt.Errorf("format %s cannot be read back line by line", f)
}

func (r *LineReader) Schema() Schema {
	if r.lines == nil {
		return nil
	}
	return r.lines.schema
}

// Lines returns the file's row format, or nil if it lacks a header.
func (r *LineReader) Lines() *Lines { return r.lines }

// At returns the byte offset of the latest row, even if damaged.
func (r *LineReader) At() int64 { return r.at }

// End returns the byte offset of its end.
func (r *LineReader) End() int64 { return r.end }

func (r *LineReader) Line() int { return r.line }

func (r *LineReader) Next() ([]string, error) {
	if r.lines == nil {
		return nil, io.EOF
	}
	line, ended, err := r.readLine()
	if err != nil {
		return nil, err
	}
	if !ended {
		return nil, &DamageError{r.line, r.at, "its end is missing, as where a run was killed; bbprof batch -resume drops it"}
	}
	cells, err := r.lines.Parse(line, r.cells[:0])
	if err != nil {
		return nil, &DamageError{r.line, r.at, err.Error()}
	}
	r.cells = cells
	return cells, nil
}

// readLine returns the next line without its end; ended is false if it has none. An overlong line is a
// *DamageError.
func (r *LineReader) readLine() (line string, ended bool, err error) {
	if r.pushed != nil {
		line, r.pushed = *r.pushed, nil
		return line, true, nil
	}
	for r.long { // the rest of the previous line
		part, err := r.in.ReadSlice('\n')
		r.end += int64(len(part))
		if r.long = err == bufio.ErrBufferFull; err != nil && !r.long {
			return "", false, err
		}
	}
	r.at = r.end
	r.buffer = r.buffer[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.end += int64(len(part))
		switch {
		case err == nil && len(r.buffer) == 0:
			r.line++
			return string(TrimEnd(part)), true, nil
		case err == bufio.ErrBufferFull:
			r.buffer = append(r.buffer, part...)
			if len(r.buffer) > maxLine {
				r.buffer, r.long = nil, true
				r.line++
				return "", false, &DamageError{r.line, r.at, fmt.Sprintf("it has more than %d bytes", maxLine)}
			}
			continue
		case err == io.EOF && len(r.buffer)+len(part) == 0:
			return "", false, io.EOF
		case err != nil && err != io.EOF:
			return "", false, err
		}
		r.buffer = append(r.buffer, part...)
		r.line++
		return string(TrimEnd(r.buffer)), err == nil, nil
	}
}

// TrimEnd removes a line's end.
func TrimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

func openFile(name string) (Reader, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	magic := make([]byte, len(parquetMagic))
	if n, _ := f.ReadAt(magic, 0); bytes.Equal(magic[:n], parquetMagic) {
		r, err := newParquetReader(f)
		if err != nil {
			f.Close()
		}
		return r, f, err
	}
	r, closer, err := openStream(f)
	if err != nil {
		f.Close()
	}
	return r, closers{closer, f}, err
}

// openStream reads a stream. It copies Parquet to a file first.
func openStream(r io.Reader) (Reader, io.Closer, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := in.Peek(len(parquetMagic)); bytes.Equal(magic, parquetMagic) {
		f, err := parquet.Kept(in)
		if err != nil {
			return nil, nil, err
		}
		table, err := newParquetReader(f)
		return table, f, err
	}
	plain, err := input.Decompressed(in)
	if err != nil {
		return nil, nil, err
	}
	lines, err := NewStreamReader(plain)
	return lines, plain, err
}

// IsLines reports whether a file starts like CSV or JSON lines, neither Parquet nor compressed.
func IsLines(f io.ReaderAt) bool {
	magic := make([]byte, len(parquetMagic))
	n, _ := f.ReadAt(magic, 0)
	return !bytes.Equal(magic[:n], parquetMagic) && !input.Compressed(magic[:n])
}

// NewStreamReader distinguishes JSON lines from CSV by the first byte of text.
func NewStreamReader(r io.Reader) (*LineReader, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	format := CSV
	switch start, _ := in.Peek(len(parquetMagic)); {
	case bytes.HasPrefix(bytes.TrimPrefix(start, []byte(input.ByteOrderMark)), []byte("{")):
		format = JSON
	case bytes.Equal(start, parquetMagic):
		return nil, errors.New("it is compressed Parquet; decompress it")
	case input.Compressed(start):
		return nil, errors.New("it is compressed; bbprof convert makes CSV of it")
	}
	return NewLineReader(in, format)
}

type closers []io.Closer

func (c closers) Close() (err error) {
	for _, x := range c {
		if e := x.Close(); err == nil {
			err = e
		}
	}
	return err
}
