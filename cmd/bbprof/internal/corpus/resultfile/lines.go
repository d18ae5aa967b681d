package resultfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/parquet"
)

// Lines formats and parses rows as lines, for a schema.
type Lines struct {
	format Format
	schema Schema
	names  []string // for JSON: quoted, with punctuation
	export *export  // for another tool's format
}

// NewLines fails if the schema lacks a column that another tool's format needs.
func NewLines(f Format, s Schema) (l *Lines, err error) {
	l = &Lines{format: f, schema: s}
	if f == JSON {
		err = s.Distinct()
	} else if how := f.export(); how != nil {
		if l.export, err = how.over(s); err != nil {
			err = fmt.Errorf("format %s: %w", f, err)
		}
	}
	for i, c := range s {
		start := ","
		if i == 0 {
			start = "{"
		}
		l.names = append(l.names, string(appendString([]byte(start), c.Name))+":")
	}
	return l, err
}

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

// footer returns the text after the last row.
func (l *Lines) footer() []byte {
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
		if strings.ContainsAny(cell, ",\"\r\n") || strings.HasPrefix(cell, " ") || strings.HasPrefix(cell, "\t") {
			cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
		}
		line = append(line, cell...)
	}
	return append(line, '\n')
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
	What string
}

func (e *DamageError) Error() string { return fmt.Sprintf("line %d is not a row: %s", e.Line, e.What) }

type LineReader struct {
	in     *input.LineSource
	lines  *Lines
	at     Positions // nil if it is no result
	Line   int       // of the latest row
	At     int64     // byte offset of the latest row, even if damaged
	End    int64     // of its end
	cells  []string
	pushed *string // a line to reread
	long   bool    // the rest of an overlong line must be skipped
}

// maxLine bounds a line of a result: six times a row of input (input.MaxRow), each byte escaped by JSON, and
// bbprof's own columns.
const maxLine = 8 << 20

// NewLineReader reads the header, if the format has one. The format "" is JSON if the text begins so, and else CSV.
func NewLineReader(r io.Reader, f Format) (*LineReader, error) {
	in := &LineReader{in: input.NewLineSource(r)}
	if start, _ := in.in.Peek(len(input.ByteOrderMark)); string(start) == input.ByteOrderMark {
		in.in.Discard(len(input.ByteOrderMark))
		in.End = int64(len(input.ByteOrderMark))
	}
	if f == "" {
		f = CSV
		switch start, _ := in.in.Peek(len(parquet.Magic)); {
		case bytes.HasPrefix(start, []byte("{")):
			f = JSON
		case string(start) == parquet.Magic:
			return nil, errors.New("it is compressed Parquet; decompress it")
		case input.Compressed(start):
			return nil, errors.New("it is compressed; bbprof convert makes CSV of it")
		}
	}
	var names []string
	var err error
	switch f {
	case CSV:
		names, err = in.readNames()
	case JSON:
		names, err = in.peekNames()
	default:
		err = fmt.Errorf("format %s cannot be read back line by line", f)
	}
	if err == nil && len(names) > input.MaxColumns {
		err = tooWide(len(names))
	}
	if err != nil || names == nil {
		return in, err
	}
	in.lines, err = NewLines(f, SchemaOf(names))
	if err == nil && in.lines.schema.isResult() {
		in.at, err = in.lines.schema.Positions(), in.lines.schema.unambiguous()
	}
	return in, err
}

// readNames reads the header of CSV, nil if nothing was written, or only part of the header.
func (r *LineReader) readNames() ([]string, error) {
	header, ended, err := r.readLine()
	if err == io.EOF || err == nil && !ended {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, open := input.Split(header, ',', nil)
	if open >= 0 {
		return nil, &DamageError{1, "a quote of the header is not closed"}
	}
	return names, nil
}

func (r *LineReader) Schema() Schema {
	if r.lines == nil {
		return nil
	}
	return r.lines.schema
}

// Lines returns the file's row format, or nil if it lacks a header.
func (r *LineReader) Lines() *Lines { return r.lines }

func (r *LineReader) Next() ([]string, error) {
	if r.lines == nil {
		return nil, io.EOF
	}
	line, ended, err := r.readLine()
	if err != nil {
		return nil, err
	}
	if !ended {
		return nil, &DamageError{r.Line, "its end is missing, as where a run was killed; bbprof batch -resume drops it"}
	}
	cells, err := r.lines.Parse(line, r.cells[:0])
	if err != nil {
		return nil, &DamageError{r.Line, err.Error()}
	}
	r.cells = cells
	return cells, nil
}

// NextResult is Next, but a row of a result that bbprof cannot have written is a *DamageError.
func (r *LineReader) NextResult() ([]string, error) {
	cells, err := r.Next()
	if err == nil && r.at != nil {
		if wrong := r.at.check(cells); wrong != nil {
			return nil, &DamageError{r.Line, wrong.Error()}
		}
	}
	return cells, err
}

// readLine returns the next line without its end; ended is false if it has none. An overlong line is a
// *DamageError.
func (r *LineReader) readLine() (_ string, ended bool, err error) {
	if r.pushed != nil {
		line := *r.pushed
		r.pushed = nil
		return line, true, nil
	}
	for r.long { // the rest of the previous line
		_, size, err := r.in.Line(0, maxLine)
		r.End += int64(size)
		if r.long = errors.Is(err, bufio.ErrBufferFull); err != nil && !r.long {
			return "", false, err
		}
	}
	line, size, err := r.in.Line(maxLine, maxLine)
	if r.long = errors.Is(err, bufio.ErrBufferFull); size == 0 || err != nil && !r.long && !errors.Is(err, io.EOF) {
		return "", false, err
	}
	r.At, r.End = r.End, r.End+int64(size)
	if r.Line++; size > maxLine {
		return "", false, &DamageError{r.Line, fmt.Sprintf("it has more than %d bytes", maxLine)}
	}
	return string(TrimEnd(line)), err == nil, nil
}

func TrimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// appendJSON appends an object with all columns in order. Unknown values are null; carried cells are strings, even
// if empty.
func (l *Lines) appendJSON(line []byte, cells []string) ([]byte, error) {
	for i, c := range l.schema {
		line = append(line, l.names[i]...)
		cell := cells[i]
		switch {
		case cell == "" && (c.of != nil || c.Type != Text):
			line = append(line, "null"...)
		case c.Type == Text:
			line = appendString(line, cell)
		case !c.fits(cell):
			return nil, c.mistyped(cell)
		default:
			line = append(line, cell...)
		}
	}
	return append(line, '}', '\n'), nil
}

func appendString(line []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			e.Encode(s) // encoding a string into memory cannot fail
			return append(line, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
		}
	}
	line = append(line, '"')
	line = append(line, s...)
	return append(line, '"')
}

func (l *Lines) parseJSON(line string, cells []string) ([]string, error) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil || object == nil {
		return nil, fmt.Errorf("it is not an object: %w", cmp.Or(err, errors.New("it is null")))
	}
	if d.More() {
		return nil, errors.New("there is text after the object")
	}
	for _, c := range l.schema {
		value, ok := object[c.Name]
		if !ok {
			return nil, fmt.Errorf("%s is missing", c.Name)
		}
		cell, err := c.ofJSON(value)
		if err != nil {
			return nil, err
		}
		cells = append(cells, cell)
		delete(object, c.Name)
	}
	for name := range object {
		return nil, fmt.Errorf("%.40q is a column that the first row lacks", name)
	}
	return cells, nil
}

func (c Column) ofJSON(value any) (cell string, err error) {
	switch v := value.(type) {
	case nil:
	case string:
		cell = v
	case json.Number:
		cell = v.String()
	case bool:
		cell = strconv.FormatBool(v)
	default:
		return "", fmt.Errorf("%s is not a text, number or flag", c.Name)
	}
	if !c.fits(cell) {
		return "", c.mistyped(cell)
	}
	return input.OneLine(cell), nil
}

// peekNames returns the names in the first object, in order, and leaves the line to be read again.
func (r *LineReader) peekNames() (names []string, err error) {
	first, ended, err := r.readLine()
	if err == io.EOF || err == nil && !ended {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.pushed = &first
	d := json.NewDecoder(strings.NewReader(first))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, &DamageError{1, "it begins no object"}
	}
	for d.More() {
		name, err := d.Token()
		if err == nil {
			_, err = d.Token()
		}
		if err != nil {
			return nil, &DamageError{1, err.Error()}
		}
		if names = append(names, fmt.Sprint(name)); len(names) > input.MaxColumns {
			break
		}
	}
	return names, nil
}
