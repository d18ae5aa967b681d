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
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// Row is one line of input: a block, or the reason why it is none.
type Row struct {
	Number    int64  // from 1, across all files, without headers
	File      string // as the user named it
	Line      int    // in File, from 1
	Text      string // the block's cell, without quotes and surrounding space
	Code      []byte
	SetText   string             // the cell of column set
	Set       initial.Set        // parsed SetText
	At        *uint64            // address in its program, nil if unknown
	Rejection *verdict.Rejection // nil if Code is a block
	Carried   []string           // the other cells, in the order of Input.Carried
	End       int64              // stored bytes of all files up to about here
	open      bool               // a quote of another column is not closed on the line
}

// Block returns the row's block with its set-up.
func (r Row) Block() profiler.Block {
	return profiler.Block{Code: r.Code, Setup: profiler.Setup{Address: r.At, Set: r.Set}}
}

// reader reads rows from a stream of text with separated cells. A line is a row unless it is blank or a comment,
// which begins with #.
type reader struct {
	in     *LineSource
	line   int
	names  []string // the header, nil if there is none
	layout layout
	width  int     // number of cells in the first line
	first  *string // the first line, if it is an unread row

	cells []string
}

// Limits on files, also stated in docs/reference.md.
const (
	// MaxRow bounds how much of a line, including its end, is read. A block of profiler.MaxBlock bytes, each written
	// "0x48 ", takes a sixth of it.
	MaxRow = 1 << 20
	// MaxLine bounds a line. Input without a line end for that long is not text, such as /dev/zero.
	MaxLine = 16 << 20
	// MaxColumns bounds the columns of a file and of a result.
	MaxColumns = 4096
)

// sampleSize is how much of a file findLayout examines.
const sampleSize = 1 << 16

// newReader reads the first line to find the column of blocks: by name, by number from 1, or, if column is empty,
// with findLayout. In a file, which unlike a pipe does not block, a sample of the rows must contain a block.
func newReader(r io.Reader, column string, isFile bool) (*reader, error) {
	in := &reader{in: NewLineSource(r)}
	sample, err := in.sample(isFile)
	if is := foreign(sample); is != "" {
		return nil, fmt.Errorf("it is %s", is)
	}
	text := string(sample) // copied: reading on overwrites it
	lines := sampleRows(sample, errors.Is(err, io.EOF))
	first, _, err := in.nextLine()
	switch {
	case errors.Is(err, io.EOF):
		return in, nil
	case err != nil:
		return nil, &ReadError{err}
	}
	if len(lines) > 0 {
		lines = lines[1:]
	}
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
		return nil, fmt.Errorf("none of its first %d rows is a block: %s", len(lines), seems(text, column))
	}
	return in, nil
}

// sample returns the start of the stream. A pipe may deliver rows slowly, so it reads no more than needed: a row
// with a block, or a header and the row after it.
func (r *reader) sample(isFile bool) (sample []byte, err error) {
	return peekUntil(r.in.Reader, func(start []byte) bool {
		rows := sampleRows(start, false)
		return !isFile && (len(rows) > 1 || len(rows) == 1 && slices.ContainsFunc(trimmed(rows[0], ','), isBlock))
	})
}

// peekUntil peeks at a stream until that is enough, or all there is, or a whole sample.
func peekUntil(in *bufio.Reader, enough func(start []byte) bool) (start []byte, err error) {
	for want := 1; ; want = len(start) + 1 {
		_, err = in.Peek(want)
		start, _ = in.Peek(in.Buffered())
		if err != nil || len(start) >= sampleSize || enough(start) {
			return start, err
		}
	}
}

// ByteOrderMark starts files of spreadsheets and some editors.
const ByteOrderMark = "\ufeff"

// sampleRows returns the rows that are complete in a sample.
func sampleRows(sample []byte, whole bool) (rows []string) {
	for line := range strings.Lines(string(sample)) {
		if (whole || strings.HasSuffix(line, "\n")) && isRow(line) {
			rows = append(rows, strings.TrimRight(line, "\r\n"))
		}
	}
	return rows
}

// anyBlock reports whether a row is a block, or there are no rows.
func (r *reader) anyBlock(lines []string) bool {
	return len(lines) == 0 || slices.ContainsFunc(lines, func(line string) bool {
		cells := trimmed(line, r.layout.comma)
		return r.layout.block < len(cells) && isBlock(cells[r.layout.block])
	})
}

// next returns the next row without number, file and carried cells; others holds its cells but the block's, valid
// until the next call. At the end the error is io.EOF.
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
		row.Text, row.open = strings.TrimSpace(r.cells[block]), open >= 0
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

// Size returns about how much memory a row takes.
func (row *Row) Size() int {
	const fixed = 256 // fields without text
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

// parseSet parses the cell of column set; an empty one sets nothing.
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

// shownText is how many bytes of an invalid block a result repeats.
const shownText = 200

// Hex returns the block as results show it: its bytes in lower case, or else the invalid text, truncated if long.
func (row Row) Hex() string {
	if row.Rejection == nil {
		return fmt.Sprintf("%x", row.Code)
	}
	return words.Cut(OneLine(strings.ToValidUTF8(row.Text, "\ufffd")), shownText)
}

var notInLine = strings.NewReplacer("\r", " ", "\n", " ", "\x00", " ")

// OneLine makes a text fit a cell: blanks replace line ends, because a line is a row, and zero bytes, which in a
// result mean a power loss.
func OneLine(s string) string {
	if strings.ContainsAny(s, "\r\n\x00") {
		return notInLine.Replace(s)
	}
	return s
}

// Rejected returns the result of a row without a block.
func (row Row) Rejected() profiler.Result {
	return profiler.Result{
		Hex: row.Hex(), Status: profiler.Rejected,
		Reason: row.Rejection.Reason, Rejection: row.Rejection, Init: initial.State{Set: row.SetText},
	}
}

// readLine returns the next line without its end; whole is false if it was cut off at MaxRow.
func (r *reader) readLine() (_ string, whole bool, err error) {
	line, size, err := r.in.Line(MaxRow, MaxLine)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", false, fmt.Errorf("line %d has no end within %d bytes, so this is not text with a row per line", r.line+1, MaxLine)
	case err != nil && (!errors.Is(err, io.EOF) || size == 0):
		return "", false, err
	}
	return string(bytes.TrimRight(line, "\r\n")), size <= MaxRow, nil
}

// LineSource reads lines of any length in limited memory.
type LineSource struct {
	*bufio.Reader
	long []byte // reused: growing it for each line costs several copies
}

func NewLineSource(r io.Reader) *LineSource {
	return &LineSource{Reader: bufio.NewReaderSize(r, sampleSize)}
}

// Line returns the first keep bytes of the next line, with its end, and the line's size. They are valid until the
// next call. The error is bufio.ErrBufferFull if the line has no end within most bytes.
func (s *LineSource) Line(keep, most int) (line []byte, size int, err error) {
	s.long = s.long[:0]
	for {
		part, err := s.ReadSlice('\n')
		size += len(part)
		part = part[:min(len(part), keep-len(s.long))]
		if err == nil && len(s.long) == 0 { // the usual case: no copy
			return part, size, nil
		}
		s.long = append(s.long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || size > most {
			return s.long, size, err
		}
	}
}
