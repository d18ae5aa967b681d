package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Row is one line of input: a block, or the reason why it is none.
type Row struct {
	Number    int64  // from 1, over all files; headers are not counted
	File      string // as the user named it
	Line      int    // in File, from 1
	Text      string // the block's cell as written, without quotes and surrounding space
	Code      []byte
	Rejection *verdict.Rejection // nil if Code is a block
	Carried   []string           // the other cells, in the order of Input.Carried
	End       int64              // bytes of all files, as stored, up to about here
}

// reader takes rows from one stream of comma-separated text. A line is a row, also an empty
// one, so that results pair up with their lines.
type reader struct {
	in    *bufio.Reader
	line  int
	names []string // the header, nil if there is none
	block int      // index of the block's cell
	width int      // cells of the first line
	first *string  // the first line, if it is a row that was not taken yet

	cells []string
}

// What a file may hold. docs/results.md names these limits.
const (
	// MaxRow bounds the part of a line, its end included, that is read. A block of
	// profiler.MaxBlock bytes, each as "0x48 ", takes a sixth of it.
	MaxRow = 1 << 20
	// MaxLine bounds a line. What has no end of line for as long is no text, such as /dev/zero.
	MaxLine = 16 << 20
	// MaxColumns bounds the columns of a file, and those of a result.
	MaxColumns = 4096
)

// newReader reads the first line, to find the column that holds blocks: by name, by number
// from 1, or, if column is empty, the one that is called hex, else the first.
func newReader(r io.Reader, column string) (*reader, error) {
	in := &reader{in: bufio.NewReaderSize(r, 1<<16)}
	line, _, err := in.readLine()
	switch {
	case errors.Is(err, io.EOF):
		return in, nil
	case err != nil:
		return nil, &ReadError{err}
	}
	line = strings.TrimPrefix(line, "\ufeff") // spreadsheets put it there
	cells, _ := Split(line, nil)
	if len(cells) > MaxColumns {
		return nil, fmt.Errorf("line 1 has more than %d columns", MaxColumns)
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	in.width = len(cells)
	header, err := in.choose(cells, column)
	switch {
	case err != nil:
		return nil, err
	case header:
		in.names, in.line = cells, 1
	default:
		in.first = &line
	}
	return in, nil
}

// choose finds the block's cell, and whether the first line is a header.
func (r *reader) choose(first []string, column string) (header bool, err error) {
	named := func(name string) int {
		for i, cell := range first {
			if strings.EqualFold(cell, name) {
				return i
			}
		}
		return -1
	}
	number, notNumber := strconv.Atoi(column)
	switch {
	case column == "":
		if r.block = named("hex"); r.block >= 0 {
			return true, nil
		}
		r.block = 0
	case notNumber == nil:
		r.block = number - 1
		if number < 1 {
			return false, fmt.Errorf("there is no column %d; the first is 1", number)
		}
		if r.block >= len(first) {
			return false, fmt.Errorf("there is no column %d; the first line has %d", number, len(first))
		}
	default:
		if r.block = named(column); r.block < 0 {
			return false, fmt.Errorf("no column is called %q; the first line has %q", column, first)
		}
		return true, nil
	}
	return isName(first[r.block]), nil
}

// next is the next row, without its number, its file and what it carries; others are its
// cells but the block's, valid until the next call. At the end the error is io.EOF.
func (r *reader) next() (row Row, others []string, err error) {
	line, whole := "", true
	if r.first != nil {
		line, r.first = *r.first, nil
		whole = len(line) < MaxRow
	} else if line, whole, err = r.readLine(); err != nil {
		if !errors.Is(err, io.EOF) {
			err = &ReadError{err}
		}
		return Row{}, nil, err
	}
	r.line++
	row.Line = r.line
	var open int
	r.cells, open = Split(line, r.cells[:0])
	last := len(r.cells) - 1
	switch {
	case r.block > last:
		row.reject(verdict.BadHex, fmt.Sprintf("there is no column %d, the row has %d", r.block+1, len(r.cells)))
		return row, r.cells, nil
	case r.block == last && !whole:
		row.Text = strings.TrimSpace(r.cells[last])
		row.reject(verdict.BadHex, fmt.Sprintf("the column of the block ends beyond %d bytes of text", MaxRow))
	case r.block == open:
		row.Text = strings.TrimSpace(r.cells[last])
		row.reject(verdict.BadHex, "the quote that opens the column of the block is not closed on its line")
	default:
		row.Text = strings.TrimSpace(r.cells[r.block])
		row.parse()
	}
	return row, append(r.cells[:r.block], r.cells[r.block+1:]...), nil
}

// Size is about how much memory a row takes.
func (row *Row) Size() int {
	const fixed = 256 // what has no text
	n := fixed + len(row.Text) + len(row.Code)
	for _, cell := range row.Carried {
		n += len(cell)
	}
	return n
}

func (row *Row) parse() {
	code, err := asm.ParseHex(row.Text, profiler.MaxBlock)
	var bad *asm.HexError
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

// Hex is how a result names the row's block: its bytes in lower case, or the text that is
// none, cut off where it is long.
func (row Row) Hex() string {
	if row.Rejection == nil {
		return fmt.Sprintf("%x", row.Code)
	}
	text := OneLine(strings.ToValidUTF8(row.Text, "\ufffd"))
	if len(text) > shownText {
		text = strings.ToValidUTF8(text[:shownText], "") + "…"
	}
	return text
}

var notInLine = strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ")

// OneLine is a text as a cell of a result: with blanks for ends of line, for a line is a row,
// and for zero bytes, which in a result are what a loss of power left.
func OneLine(s string) string {
	if strings.ContainsAny(s, "\r\n\x00") {
		return notInLine.Replace(s)
	}
	return s
}

// Rejected is the result of a row that holds no block.
func (row Row) Rejected() profiler.Result {
	return profiler.Result{
		Hex: row.Hex(), Status: profiler.Rejected,
		Reason: row.Rejection.Reason, Rejection: row.Rejection,
	}
}

// readLine is the next line without its end, cut off at MaxRow; whole is false if it was cut.
func (r *reader) readLine() (_ string, whole bool, err error) {
	whole = true
	var line []byte
	for length := 0; ; {
		part, err := r.in.ReadSlice('\n')
		length += len(part)
		if room := MaxRow - len(line); len(part) > room {
			part, whole = part[:room], false
		}
		if err == nil && line == nil { // as nearly always: one copy
			return string(bytes.TrimRight(part, "\r\n")), whole, nil
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && length > MaxLine:
			return "", false, fmt.Errorf("line %d has no end within %d bytes, so this is no text with a row a line", r.line+1, MaxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0):
			return "", false, err
		}
		return string(bytes.TrimRight(line, "\r\n")), whole, nil
	}
}

// isName reports whether a first cell is a header's rather than a block's, damaged or
// not: letters, also some that are no hexadecimal digits, and nothing that is a number.
func isName(s string) bool {
	name := false
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z':
			name = name || !strings.ContainsRune("abcdefABCDEF", r)
		case r == '_' || r == '-' || r == ' ':
		default:
			return false
		}
	}
	return name
}
