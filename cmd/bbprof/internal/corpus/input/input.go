// Package input streams blocks in: rows of text files to blocks, one at a time. Nothing is held
// but the current row, so a corpus may be of any length.
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

// Input is the rows of some files, one after the other: text, which may be compressed with gzip or
// zstd and may have a header, or Parquet. Their first bytes tell.
type Input struct {
	files   []*file
	current int
	rows    int64
	before  int64 // bytes of the files before the current one
	carried []string
	places  map[string]int // of the names in carried

	noting   sync.Mutex // what a goroutine may ask for while another reads ahead
	surplus  int64
	unplaced Unplaced
}

type file struct {
	name   string
	path   string    // to open again, "" of what can be read only once
	open   io.Reader // of what can be read only once
	info   os.FileInfo
	column string
	spread []int // of the cells but the block's, which one of Input.carried each is, -1 of column set
	header string
	choice string // how its rows are read, if that is not as usual

	*reader
	raw    *counted
	packed bool // compressed
	close  func()
}

// Standard input is called - .
const stdinName = "-"

// Open opens the files, and reads the first line of each: a result's columns have to be known
// before its first row. column names the one that holds blocks, or is its number from 1;
// if it is empty that is the one called hex, else the first. All other columns are carried;
// taken are names that they must not have, since the result has columns of these names. Only a
// column called set is read instead where the result has one, which then shows what it said.
func Open(names []string, stdin io.Reader, column string, taken []string) (*Input, error) {
	in := &Input{places: map[string]int{}}
	lower := map[string]bool{}
	for _, name := range taken {
		lower[strings.ToLower(name)] = true
	}
	for _, name := range names {
		f := &file{name: name, column: column}
		in.files = append(in.files, f)
		if err := f.find(stdin); err != nil {
			in.Close()
			return nil, err
		}
		if err := f.start(); err != nil {
			in.Close()
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if err := in.assign(f, lower); err != nil {
			in.Close()
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if f.path != "" { // there may be more files than descriptors
			f.close()
			f.reader = nil
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
	f.open, err = os.Open(f.name) // a pipe: once closed it is gone
	return err
}

func (f *file) start() error {
	from, done := f.open, func() {}
	var opened *os.File
	if f.path != "" {
		var err error
		if opened, err = os.Open(f.path); err != nil {
			return err
		}
		from, done = opened, func() { opened.Close() }
	} else if c, ok := f.open.(*os.File); ok && f.name != stdinName {
		done = func() { c.Close() }
	}
	f.close = done
	f.raw = &counted{from: from}
	plain, packed, decoderDone, err := decompressed(f.raw)
	if err != nil {
		done()
		return &ReadError{err}
	}
	f.packed = packed
	f.close = func() { decoderDone(); done() }
	for _, read := range formats {
		in := bufio.NewReaderSize(plain, sampleSize)
		plain = in
		text, done, err := read(f, in, opened)
		if err != nil {
			f.close()
			return err
		}
		if text == nil {
			continue
		}
		plain, f.packed = text, true // positions in the file are not those of the text
		before := f.close
		f.close = func() { done(); before() }
	}
	if f.reader, err = newReader(plain, f.column, f.path != ""); err != nil {
		f.close()
	}
	return err
}

// formats are what else than columns of hexadecimal text a file may hold. Each gives such text of a file that is of its
// format, and nil of any other, of which it takes nothing; done is called at the end.
var formats = []func(f *file, in *bufio.Reader, opened *os.File) (text io.Reader, done func(), err error){parquetText, gematriaText, snippetText, assemblyText}

type counted struct {
	from io.Reader
	n    int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// Magic numbers: RFC 1952, 2.3.1; RFC 8878, 3.1.1.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// maxWindow is how far back a compressed file may refer, all of which is held: that of the
// highest level of zstd --ultra.
const maxWindow = 128 << 20

// decompressed is the text, decompressed if it has to be; packed says that it had to
// one. done frees the decoder.
func decompressed(r io.Reader) (_ io.Reader, packed bool, done func(), err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	start, err := in.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, nil, err
	}
	switch {
	case bytes.HasPrefix(start, gzipMagic):
		z, err := gzip.NewReader(in)
		return whole{z}, true, func() {}, endMissing(err)
	case bytes.HasPrefix(start, zstdMagic):
		// Not on other threads: they would share cores with the blocks that are measured.
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, false, nil, err
		}
		return whole{z}, true, z.Close, nil
	}
	return in, false, func() {}, nil
}

// whole says of compressed data that is cut off that it is.
type whole struct{ io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	return n, endMissing(err)
}

func endMissing(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is compressed and its end is missing; copy it again: %w", err)
	}
	return err
}

// Compressed reports whether a file that begins so is.
func Compressed(start []byte) bool {
	return bytes.HasPrefix(start, gzipMagic) || bytes.HasPrefix(start, zstdMagic)
}

// Decompressed reads through whatever compression r has.
func Decompressed(r io.Reader) (io.ReadCloser, error) {
	plain, _, done, err := decompressed(r)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{plain, closer(done)}, nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// assign decides where in Carried each of a file's cells goes. Cells of one name go together,
// whichever file they are in.
func (in *Input) assign(f *file, taken map[string]bool) error {
	name := ""
	if f.names != nil {
		name = f.names[f.layout.block]
		f.header = cmp.Or(name, strconv.Itoa(f.layout.block+1))
	}
	f.choice = f.layout.unusual(name, f.column)
	used := map[int]bool{}
	again := map[string]int{} // how often a name came in this file
	for i := range f.width {
		if i == f.layout.block {
			continue
		}
		name := fmt.Sprintf("column_%d", i+1)
		if f.names != nil && f.names[i] != "" {
			name = OneLine(strings.ToValidUTF8(f.names[i], "\ufffd")) // JSON and Parquet hold no other
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
			again[first]++
			name = fmt.Sprintf("%s_%d", first, again[first]+1)
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
		return fmt.Errorf("the result would have %d columns, and %d are the most; leave out some of the input's", n, MaxColumns)
	}
	return nil
}

func (in *Input) Carried() []string { return in.carried }

// Headers maps each file whose first line is a header to the name of its blocks' column, or to the
// column's number from 1 where the header leaves it without a name.
func (in *Input) Headers() map[string]string {
	h := map[string]string{}
	for _, f := range in.files {
		if f.header != "" {
			h[f.name] = f.header
		}
	}
	return h
}

// Choices says of each file that is not read as usual how it is read.
func (in *Input) Choices() (list []string) {
	for _, f := range in.files {
		if f.choice != "" {
			list = append(list, f.name+": "+f.choice)
		}
	}
	return list
}

// Surplus is how many rows so far had more cells than their file's first line, and no column
// to put them into. Another goroutine may be in Next.
func (in *Input) Surplus() int64 {
	in.noting.Lock()
	defer in.noting.Unlock()
	return in.surplus
}

// Unplaced are those of the rows so far. Another goroutine may be in Next.
func (in *Input) Unplaced() Unplaced {
	in.noting.Lock()
	defer in.noting.Unlock()
	return in.unplaced
}

// note changes surplus or unplaced.
func (in *Input) note(change func()) {
	in.noting.Lock()
	defer in.noting.Unlock()
	change()
}

// Size is the bytes of all files as stored, 0 if that is not known.
func (in *Input) Size() (n int64) {
	for _, f := range in.files {
		if f.path == "" {
			return 0
		}
		n += f.info.Size()
	}
	return n
}

// Next is the next row. At the end the error is io.EOF; any other is a *ReadError. A row
// that holds no block is no error.
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
			f.reader = nil
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
		if i, ok := in.places[AddressColumn]; ok && i < len(row.Carried) {
			readable := false
			if row.At, readable = Address(row.Carried[i]); !readable {
				in.note(func() { in.unplaced.Add(fmt.Sprintf("%s:%d", row.File, row.Line)) })
			}
		}
		if i := slices.Index(f.spread, notCarried); i >= 0 && i < len(cells) {
			row.parseSet(cells[i])
		}
		return row, nil
	}
	return Row{}, io.EOF
}

// SetColumn is called what a row's block is to start from, as -set takes it; notCarried is its place
// among the columns that are.
const (
	SetColumn  = "set"
	notCarried = -1
)

// AddressColumn is called what says where in its program a block stands.
const AddressColumn = "address"

// Unplaced are rows that have a cell in that column that is no address, so their blocks have none.
type Unplaced struct {
	rows  int
	first string
}

// Add takes one, and where it stands.
func (u *Unplaced) Add(where string) {
	u.rows++
	u.first = cmp.Or(u.first, where)
}

// Warn says so, if there are any.
func (u Unplaced) Warn(w io.Writer) {
	if u.rows > 0 {
		fmt.Fprintf(w, "bbprof: warning: %s with an address that is not such as 0x401136, the first in %s: measured as without one\n", words.Plural(u.rows, "row"), u.first)
	}
}

// Address reads a cell of that column, such as 0x401136, or 0x0 as in an object file; nil of an empty one.
func Address(cell string) (at *uint64, readable bool) {
	digits, ok := strings.CutPrefix(cell, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return nil, cell == ""
	}
	return &n, true
}

// carry puts a row's cells where they belong. Those beyond the file's first line go to the
// last column, commas and all.
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
		in.note(func() { in.surplus++ })
	default:
		carried[f.spread[last]] = strings.Join(cells[last:], string(f.layout.comma))
	}
	return carried
}

func (in *Input) Close() {
	for _, f := range in.files {
		if f.reader != nil {
			f.close()
			f.reader = nil
		}
	}
}
