package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Row is one line of input: a block, or the reason why it is not one.
type Row struct {
	Number    int64  // from 1, over all files; headers are not counted
	File      string // as the user named it
	Line      int    // in File, from 1
	Text      string // the block's cell as written, without quotes and surrounding space
	Code      []byte
	SetText   string             // the cell of column set
	Set       initial.Set        // what that says
	At        *uint64            // where it stands in its program, nil if that is not known
	Rejection *verdict.Rejection // nil if Code is a block
	Carried   []string           // the other cells, in the order of Input.Carried
	End       int64              // bytes of all files, as stored, up to about here
}

// Block is the row's block, to be measured as its columns say.
func (r Row) Block() profiler.Block {
	return profiler.Block{Code: r.Code, Setup: profiler.Setup{Address: r.At, Set: r.Set}}
}

// reader takes rows from one stream of text with separated cells. A line is a row, unless it is
// blank or a comment, which begins with #.
type reader struct {
	in     *bufio.Reader
	line   int
	long   []byte   // the latest line that was longer than in's buffer
	names  []string // the header, nil if there is none
	layout layout
	width  int     // cells of the first line
	first  *string // the first line, if it is a row that was not taken yet

	cells []string
}

// What a file may hold. docs/reference.md names these limits.
const (
	// MaxRow bounds the part of a line, its end included, that is read. A block of
	// profiler.MaxBlock bytes, each as "0x48 ", takes a sixth of it.
	MaxRow = 1 << 20
	// MaxLine bounds a line. What has no end of line for as long is no text, such as /dev/zero.
	MaxLine = 16 << 20
	// MaxColumns bounds the columns of a file, and those of a result.
	MaxColumns = 4096
)

// sampleSize is how much of a file is looked at to find its layout.
const sampleSize = 1 << 16

// newReader reads the first line, to find the column that holds blocks: by name, by number
// from 1, or, if column is empty, as findLayout does. In a file, which does not make anybody wait
// as a pipe does, a sample of the rows has to hold a block.
func newReader(r io.Reader, column string, isFile bool) (*reader, error) {
	in := &reader{in: bufio.NewReaderSize(r, sampleSize)}
	sample, err := in.sample(isFile)
	if is := foreign(sample); is != "" {
		return nil, fmt.Errorf("it is %s", is)
	}
	text := string(sample) // which reading on overwrites
	lines := sampleRows(sample, errors.Is(err, io.EOF))
	first, err := in.firstRow()
	switch {
	case errors.Is(err, io.EOF):
		return in, nil
	case err != nil:
		return nil, &ReadError{err}
	}
	if len(lines) > 0 {
		lines = lines[1:]
	}
	first = strings.TrimPrefix(first, ByteOrderMark)
	if in.layout, err = findLayout(first, lines, column); err != nil {
		return nil, err
	}
	cells := trimmed(first, in.layout.comma)
	in.width = len(cells)
	if in.layout.header {
		in.names = cells
	} else {
		in.first = &first
		lines = append(lines, first)
		in.line--
	}
	if isFile && !in.anyBlock(lines) {
		return nil, fmt.Errorf("none of its first %d rows is a block: %s", len(lines), seems(text))
	}
	return in, nil
}

// sample is the start of the stream. Of a pipe, in which each row may be long in coming, it is no
// more than what is needed: a row with a block, or a header and the row after it.
func (r *reader) sample(isFile bool) (sample []byte, err error) {
	want := 1
	if isFile {
		want = sampleSize
	}
	for {
		_, err = r.in.Peek(want)
		sample, _ = r.in.Peek(r.in.Buffered())
		rows := sampleRows(sample, err != nil)
		if err != nil || len(sample) == sampleSize || len(rows) > 1 || len(rows) == 1 && slices.ContainsFunc(trimmed(rows[0], ','), isBlock) {
			return sample, err
		}
		want = len(sample) + 1
	}
}

func (r *reader) firstRow() (string, error) {
	for {
		line, _, err := r.readLine()
		if err != nil {
			return "", err
		}
		r.line++
		if isRow(strings.TrimPrefix(line, ByteOrderMark)) {
			return line, nil
		}
	}
}

// ByteOrderMark is what spreadsheets and some editors begin a file with.
const ByteOrderMark = "\ufeff"

// sampleRows are the rows of which a sample holds all.
func sampleRows(sample []byte, whole bool) (rows []string) {
	for line := range strings.Lines(strings.TrimPrefix(string(sample), ByteOrderMark)) {
		if (whole || strings.HasSuffix(line, "\n")) && isRow(line) {
			rows = append(rows, strings.TrimRight(line, "\r\n"))
		}
	}
	return rows
}

// anyBlock reports whether one of some rows is a block, or there are none.
func (r *reader) anyBlock(lines []string) bool {
	return len(lines) == 0 || slices.ContainsFunc(lines, func(line string) bool {
		cells := trimmed(line, r.layout.comma)
		return r.layout.block < len(cells) && isBlock(cells[r.layout.block])
	})
}

// next is the next row, without its number, its file and what it carries; others are its
// cells but the block's, valid until the next call. At the end the error is io.EOF.
func (r *reader) next() (row Row, others []string, err error) {
	line, whole, err := r.nextLine()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = &ReadError{err}
		}
		return Row{}, nil, err
	}
	block := r.layout.block
	row.Line = r.line
	var open int
	r.cells, open = Split(line, r.layout.comma, r.cells[:0])
	last := len(r.cells) - 1
	switch {
	case block > last:
		row.reject(verdict.BadHex, fmt.Sprintf("there is no column %d, the row has %d", block+1, len(r.cells)))
		return row, r.cells, nil
	case block == last && !whole:
		row.Text = strings.TrimSpace(r.cells[last])
		row.reject(verdict.BadHex, fmt.Sprintf("the column of the block ends beyond %d bytes of text", MaxRow))
	case block == open:
		row.Text = strings.TrimSpace(r.cells[last])
		row.reject(verdict.BadHex, "the quote that opens the column of the block is not closed on its line")
	default:
		row.Text = strings.TrimSpace(r.cells[block])
		row.parse()
	}
	return row, append(r.cells[:block], r.cells[block+1:]...), nil
}

func (r *reader) nextLine() (line string, whole bool, err error) {
	if r.first != nil {
		line, r.first = *r.first, nil
		r.line++
		return line, len(line) < MaxRow, nil
	}
	for {
		line, whole, err = r.readLine()
		if err != nil {
			return "", false, err
		}
		r.line++
		if isRow(line) {
			return line, whole, nil
		}
	}
}

// Size is about how much memory a row takes.
func (row *Row) Size() int {
	const fixed = 256 // what has no text
	n := fixed + len(row.Text) + len(row.Code) + len(row.SetText)
	for _, cell := range row.Carried {
		n += len(cell)
	}
	return n
}

func (row *Row) parse() {
	if why, ok := strings.CutPrefix(row.Text, notAssembled); ok {
		row.Text = ""
		row.reject(verdict.BadHex, why)
		return
	}
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

// parseSet reads the cell of column set; an empty one sets nothing.
func (row *Row) parseSet(cell string) {
	if strings.TrimSpace(cell) == "" || row.Rejection != nil {
		return
	}
	row.SetText = cell
	var err error
	if row.Set, err = initial.ParseSet(cell); err != nil {
		row.reject(verdict.BadSet, "column set: "+err.Error())
	}
}

func (row *Row) reject(reason verdict.Reason, detail string) {
	row.Rejection = &verdict.Rejection{Reason: reason, Detail: fmt.Sprintf("line %d: %s", row.Line, detail)}
}

// shownText is how much of a text that is not a block a result repeats.
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
		Reason: row.Rejection.Reason, Rejection: row.Rejection, Init: initial.State{Set: row.SetText},
	}
}

// readLine is the next line without its end, cut off at MaxRow; whole is false if it was cut.
func (r *reader) readLine() (_ string, whole bool, err error) {
	whole = true
	line := r.long[:0] // kept, since growing it for each row costs several copies
	defer func() { r.long = line }()
	for length := 0; ; {
		part, err := r.in.ReadSlice('\n')
		length += len(part)
		if room := MaxRow - len(line); len(part) > room {
			part, whole = part[:room], false
		}
		if err == nil && len(line) == 0 { // as nearly always: one copy
			return string(bytes.TrimRight(part, "\r\n")), whole, nil
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && length > MaxLine:
			return "", false, fmt.Errorf("line %d has no end within %d bytes, so this is not text with a row per line", r.line+1, MaxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0):
			return "", false, err
		}
		return string(bytes.TrimRight(line, "\r\n")), whole, nil
	}
}
