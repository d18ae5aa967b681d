package corpus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Row is one line of input: a block, or the reason why it is none.
type Row struct {
	Line      int    // in the file, from 1
	Text      string // the first column as written, without quotes and surrounding space
	Code      []byte
	Rejection *verdict.Rejection // nil if Code is a block
}

// Reader takes rows from comma-separated text: the first column is a block in hexadecimal,
// the others are left alone. A line is a row, also an empty one, so that results pair up
// with their lines; a quoted column must end on its line, since otherwise one stray quote
// would swallow all rows behind it. A first line whose first column is a name is a header.
type Reader struct {
	in     *bufio.Reader
	line   int
	header string
}

// maxRow bounds the part of a line, its end included, that is looked at. A block of profiler.MaxBlock bytes,
// each as "0x48 ", takes a sixth of it.
const maxRow = 1 << 20

// NewReader reads rows from r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 1<<16)} }

// Header is the first column's name, "" if there was no header (yet).
func (r *Reader) Header() string { return r.header }

// Next is the next row. At the end the error is io.EOF; any other is the underlying
// reader's. A row that holds no block is no error.
func (r *Reader) Next() (Row, error) {
	for {
		line, whole, err := r.readLine()
		if err != nil {
			return Row{}, err
		}
		r.line++
		if r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // spreadsheets put it there
		}
		text, problem := firstColumn(string(line), whole)
		if r.line == 1 && problem == "" && isName(text) {
			r.header = text
			continue
		}
		row := Row{Line: r.line, Text: text}
		if problem != "" {
			row.reject(verdict.BadHex, problem)
		} else {
			row.parse()
		}
		return row, nil
	}
}

func (row *Row) parse() {
	code, err := ParseHex(row.Text, profiler.MaxBlock)
	var bad *HexError
	switch {
	case err == nil:
		row.Code = code
	case errors.As(err, &bad) && bad.TooLong:
		row.reject(verdict.CodeExceedsL1I, err.Error())
	default:
		row.reject(verdict.BadHex, err.Error())
	}
}

func (row *Row) reject(reason verdict.Reason, detail string) {
	row.Rejection = &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf("line %d: %s", row.Line, detail)}
}

// shownText is how much of a text that is no block a result repeats.
const shownText = 200

// Rejected is the result of a row that holds no block.
func (row Row) Rejected() profiler.Result {
	text := strings.ToValidUTF8(row.Text, "\ufffd")
	if len(text) > shownText {
		text = strings.ToValidUTF8(text[:shownText], "") + "…"
	}
	return profiler.Result{
		Hex: text, Status: profiler.Rejected,
		Reason: row.Rejection.Reason, Rejection: row.Rejection,
	}
}

// readLine is the next line without its end, cut off at maxRow; whole is false if it was cut.
func (r *Reader) readLine() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := r.in.ReadSlice('\n')
		if room := maxRow - len(line); len(part) > room {
			part, whole = part[:room], false
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0):
			return nil, false, err
		}
		return bytes.TrimRight(line, "\r\n"), whole, nil
	}
}

// firstColumn cuts the first column out of a line, of which whole says that it was not cut
// off. If the column's end is not there, problem says so.
func firstColumn(line string, whole bool) (text, problem string) {
	quoted, isQuoted := strings.CutPrefix(strings.TrimLeft(line, " \t"), `"`)
	end := ","
	if isQuoted {
		line, end = quoted, `"`
	}
	text, _, ended := strings.Cut(line, end)
	switch {
	case !ended && !whole:
		problem = fmt.Sprintf("the first column is longer than %d bytes of text", maxRow)
	case !ended && isQuoted:
		problem = "the quote that opens the first column is not closed on its line"
	}
	return strings.TrimSpace(text), problem
}

// isName reports whether a first column is a header's rather than a block's, damaged or
// not: letters, also some that are no hexadecimal digits, and nothing that is a number.
func isName(s string) bool {
	name := false
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			name = name || hexDigit(r) < 0
		case r == '_' || r == '-' || r == ' ':
		default:
			return false
		}
	}
	return name
}
