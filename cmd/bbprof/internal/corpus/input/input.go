// Package input streams the rows of text files as blocks. It holds only the current row, so a corpus may have any
// length.
package input

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

type ReadError struct{ Err error }

func (e *ReadError) Error() string { return e.Err.Error() }

func (e *ReadError) Unwrap() error { return e.Err }

// Input reads the rows of several files in sequence: text, optionally compressed with gzip or zstd, with or
// without a header, or Parquet. It detects the format from a file's first bytes.
type Input struct {
	files   []*file
	current int
	rows    int64
	before  int64 // bytes of the files before the current one
	carried []string
	places  map[string]int // index of each name in carried

	noting  sync.Mutex // guards ignored, which may be read while another goroutine reads ahead
	ignored Ignored
}

type file struct {
	name   string
	path   string    // to reopen, "" if it can be read only once
	open   io.Reader // if it can be read only once
	info   os.FileInfo
	column string
	spread []int    // index in Input.carried of each cell but the block's, notCarried for column set
	choice []string // how its rows are read

	*reader
	raw     *countingReader
	packed  bool // compressed
	closers []io.Closer
}

// stdinName names standard input.
const stdinName = "-"

// Open opens the files and reads the first line of each, since a result's columns must be known before its first
// row. column names the column of blocks, or is its number from 1; if empty, findLayout chooses it. All other columns
// are carried, renamed if their name is in taken, which lists the result's own columns. Only set is not carried if
// taken, but read: the result's own column set shows it.
func Open(names []string, stdin io.Reader, column string, taken []string) (*Input, error) {
	in := &Input{places: map[string]int{}}
	lower := map[string]bool{}
	for _, name := range taken {
		lower[strings.ToLower(name)] = true
	}
	for _, name := range names {
		f := &file{name: name, column: column}
		in.files = append(in.files, f)
		err := f.find(stdin)
		if err == nil {
			if err = f.start(); err == nil {
				err = in.assign(f, lower)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.name, err)
			}
		}
		if err != nil {
			in.Close()
			return nil, err
		}
		if f.path != "" { // there may be more files than file descriptors
			f.close()
		}
	}
	return in, nil
}

func (f *file) find(stdin io.Reader) error {
	if f.name == stdinName {
		f.open = stdin
		return nil
	}
	info, err := os.Stat(f.name)
	switch {
	case err != nil:
		return &fs.PathError{Op: "open", Path: f.name, Err: errors.Unwrap(err)}
	case info.IsDir():
		return fmt.Errorf("%s is a directory; name a file", f.name)
	}
	f.info = info
	if info.Mode().IsRegular() {
		f.path = f.name
		return nil
	}
	f.open, err = os.Open(f.name) // a pipe cannot be reopened
	return err
}

// start opens the file and finds its column of blocks.
func (f *file) start() (err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	from := f.open
	var opened *os.File
	if f.path != "" {
		if opened, err = os.Open(f.path); err != nil {
			return err
		}
		from = opened
	}
	if c, ok := from.(io.Closer); ok && f.name != stdinName {
		f.closers = append(f.closers, c)
	}
	f.raw = &countingReader{from: from}
	plain, packed, err := Decompressed(f.raw)
	if err != nil {
		return &ReadError{err}
	}
	f.packed, f.closers = packed, append(f.closers, plain)
	start := bufio.NewReaderSize(plain, sampleSize)
	if mark, _ := start.Peek(len(ByteOrderMark)); string(mark) == ByteOrderMark {
		start.Discard(len(mark))
	}
	text := io.Reader(start)
	for _, read := range formats {
		in := bufio.NewReaderSize(text, sampleSize)
		made, err := read(f, in, opened)
		if err != nil {
			return err
		}
		if text = in; made != nil {
			text, f.packed = made, true // offsets in the file are not offsets in the text
		}
	}
	f.reader, err = newReader(text, f.column, f.path != "")
	return err
}

func (f *file) close() {
	for _, c := range slices.Backward(f.closers) {
		c.Close()
	}
	f.closers, f.reader = nil, nil
}

// formats lists what a file may hold besides columns of hexadecimal text. Each function returns such text for a
// file in its format; for any other it returns nil and consumes nothing.
var formats = []func(f *file, in *bufio.Reader, opened *os.File) (text io.Reader, err error){parquetText, gematriaText, snippetText, assemblyText}

type countingReader struct {
	from io.Reader
	n    int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// magic numbers: RFC 1952, 2.3.1; RFC 8878, 3.1.1
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// maxWindow bounds a compressed file's window, which is held in memory: that of zstd --ultra at its highest level.
const maxWindow = 128 << 20

// Decompressed returns the text of r, and whether it was compressed. Closing it does not close r.
func Decompressed(r io.Reader) (_ io.ReadCloser, packed bool, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	start, err := in.Peek(len(zstdMagic))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, false, err
	case bytes.HasPrefix(start, gzipMagic):
		z, err := gzip.NewReader(in)
		return whole{z}, true, endMissing(err)
	case bytes.HasPrefix(start, zstdMagic):
		// No further threads: they would share cores with the measured blocks.
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, false, err
		}
		return whole{z.IOReadCloser()}, true, nil
	}
	return io.NopCloser(in), false, nil
}

// whole reports truncated compressed data as such.
type whole struct{ io.ReadCloser }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	return n, endMissing(err)
}

func endMissing(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is compressed and its end is missing; copy it again: %w", err)
	}
	return err
}

// Compressed reports whether a file with this start is compressed.
func Compressed(start []byte) bool {
	return bytes.HasPrefix(start, gzipMagic) || bytes.HasPrefix(start, zstdMagic)
}

// assign chooses the index in Carried for each cell of a file. Cells of one name share it across files.
func (in *Input) assign(f *file, taken map[string]bool) error {
	name := ""
	if f.names != nil {
		name = f.names[f.layout.block]
		f.choice = append(f.choice, "line 1 is the header; blocks are in its column "+cmp.Or(name, strconv.Itoa(f.layout.block+1)))
	}
	f.choice = append(f.choice, f.layout.unusual(name, f.column)...)
	used := map[int]bool{}
	repeats := map[string]int{} // occurrences of a name in this file
	for i := range f.width {
		if i == f.layout.block {
			continue
		}
		name := fmt.Sprintf("column_%d", i+1)
		if f.names != nil && f.names[i] != "" {
			name = OneLine(strings.ToValidUTF8(f.names[i], "\ufffd")) // JSON and Parquet require UTF-8
		}
		if strings.EqualFold(name, SetColumn) && taken[SetColumn] && !slices.Contains(f.spread, notCarried) {
			f.spread = append(f.spread, notCarried)
			continue
		}
		if taken[strings.ToLower(name)] {
			name = "input_" + name
		}
		at, known := in.places[name]
		for first := name; known && used[at]; at, known = in.places[name] {
			repeats[first]++
			name = fmt.Sprintf("%s_%d", first, repeats[first]+1)
		}
		if !known {
			at = len(in.carried)
			in.places[name] = at
			in.carried = append(in.carried, name)
		}
		used[at] = true
		f.spread = append(f.spread, at)
	}
	if n := len(in.carried) + len(taken); n > MaxColumns {
		return fmt.Errorf("the result would have %d columns, more than %d; leave out some of the input's", n, MaxColumns)
	}
	return nil
}

func (in *Input) Carried() []string { return in.carried }

// Choices explains how each file is read, where that was detected.
func (in *Input) Choices() (list []string) {
	for _, f := range in.files {
		for _, choice := range f.choice {
			list = append(list, f.name+": "+choice)
		}
	}
	return list
}

// Ignored returns what was ignored so far. It may run during Next on another goroutine.
func (in *Input) Ignored() Ignored {
	in.noting.Lock()
	defer in.noting.Unlock()
	return in.ignored
}

func (in *Input) note(change func(*Ignored)) {
	in.noting.Lock()
	defer in.noting.Unlock()
	change(&in.ignored)
}

// Size returns the stored bytes of all files, 0 if unknown.
func (in *Input) Size() (n int64) {
	for _, f := range in.files {
		if f.path == "" {
			return 0
		}
		n += f.info.Size()
	}
	return n
}

// Next returns the next row. At the end the error is io.EOF; any other is a *ReadError. A row without a block is
// not an error.
func (in *Input) Next() (Row, error) {
	for in.current < len(in.files) {
		f := in.files[in.current]
		if f.reader == nil {
			if err := f.start(); err != nil {
				return Row{}, &ReadError{fmt.Errorf("%s: %w", f.name, err)}
			}
		}
		row, cells, err := f.next()
		switch {
		case errors.Is(err, io.EOF):
			in.before += f.raw.n
			f.close()
			in.current++
			continue
		case err != nil:
			return Row{}, &ReadError{fmt.Errorf("%s: %w", f.name, err)}
		}
		in.rows++
		row.Number, row.File = in.rows, f.name
		if row.End = in.before + f.raw.n; !f.packed {
			row.End -= int64(f.in.Buffered())
		}
		row.Carried = in.carry(f, cells)
		if row.open {
			in.note(func(i *Ignored) {
				i.opened++
				i.firstOpen = cmp.Or(i.firstOpen, fmt.Sprintf("%s:%d", row.File, row.Line))
			})
		}
		if i, ok := in.places[AddressColumn]; ok && i < len(row.Carried) {
			readable := false
			if row.At, readable = Address(row.Carried[i]); !readable {
				in.note(func(i *Ignored) {
					i.unplaced++
					i.first = cmp.Or(i.first, fmt.Sprintf("%s:%d", row.File, row.Line))
				})
			}
		}
		if i := slices.Index(f.spread, notCarried); i >= 0 && i < len(cells) {
			row.parseSet(cells[i])
		}
		return row, nil
	}
	return Row{}, io.EOF
}

// SetColumn is the column of a block's initial state, as -set takes it; notCarried stands for its index among
// carried columns.
const (
	SetColumn  = "set"
	notCarried = -1
)

// AddressColumn is the column of a block's address in its program.
const AddressColumn = "address"

// Ignored counts rows of which a part was ignored.
type Ignored struct {
	unplaced, surplus int
	first             string // place of the first in unplaced
	opened            int    // a quote is not closed on its line
	firstOpen         string
}

// Warn reports them, if any.
func (i Ignored) Warn(w io.Writer) {
	if i.surplus > 0 {
		fmt.Fprintf(w, "bbprof: warning: %s had more columns than the first line, and these were dropped\n", words.Plural(i.surplus, "row"))
	}
	if i.opened > 0 {
		fmt.Fprintf(w, "bbprof: warning: %s with a quote that is not closed on its line, the first in %s: each line is a row, also within "+
			"quotes; write line breaks in a cell another way\n", words.Plural(i.opened, "row"), i.firstOpen)
	}
	if i.unplaced > 0 {
		fmt.Fprintf(w, "bbprof: warning: %s with an invalid address, not such as 0x401136, the first in %s: measured "+
			"as without one\n", words.Plural(i.unplaced, "row"), i.first)
	}
}

// Address parses a cell of that column, such as 0x401136, or 0x0 in an object file; nil if empty.
func Address(cell string) (at *uint64, readable bool) {
	digits, ok := strings.CutPrefix(cell, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return nil, cell == ""
	}
	return &n, true
}

// carry sorts a row's cells into the carried columns. Cells beyond the file's first line go to the last column,
// with their commas.
func (in *Input) carry(f *file, cells []string) []string {
	if len(in.carried) == 0 && len(cells) == 0 {
		return nil
	}
	carried := make([]string, len(in.carried))
	for i, at := range f.spread {
		if i < len(cells) && at != notCarried {
			carried[at] = cells[i]
		}
	}
	beyond := len(cells) - len(f.spread)
	switch last := len(f.spread) - 1; {
	case beyond <= 0:
	case last < 0 || f.spread[last] == notCarried:
		in.note(func(i *Ignored) { i.surplus++ })
	default:
		carried[f.spread[last]] = strings.Join(cells[last:], string(f.layout.comma))
	}
	return carried
}

func (in *Input) Close() {
	for _, f := range in.files {
		f.close()
	}
}
