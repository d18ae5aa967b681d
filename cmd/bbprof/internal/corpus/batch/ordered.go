package batch

import (
	"bufio"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// ordered reads the rows of a file by their numbers, whatever order they stand in. Workers
// leave rows near their places, and a heap puts those right. A row that comes later still, as
// after a retry, is noted in a first pass and fetched in the second.
type ordered struct {
	file io.ReaderAt
	size int64
	in   *resultfile.LineReader
	row  int // the column
	near nearRows
	hold bool      // whether near may hold rows: not of a file that is in order
	late []lateRow // not given out yet, by number
	skip []int64   // where late rows begin that the second pass has yet to come by
}

// lateRow is a row that the heap cannot put in its place.
type lateRow struct{ row, at int64 }

// nearCount and nearBytes are how much the heap holds, as rows and as their text.
const (
	nearCount = 8192
	nearBytes = 16 << 20
)

// openOrdered makes the first pass over the first size bytes of a file. each is called with every
// row, in the file's order; the cells are valid until it returns.
func openOrdered(f io.ReaderAt, size int64, each func(in *resultfile.LineReader, cells []string) error) (*ordered, error) {
	o := &ordered{file: f, size: size}
	if err := o.rewind(); err != nil {
		return nil, err
	}
	if o.in.Schema() == nil {
		return nil, errors.New("it has no row")
	}
	if o.row = o.in.Schema().Index("row"); o.row < 0 {
		return nil, errors.New("its rows have no number (column row), so it is not a result of batch")
	}
	var last, latest int64 // numbers that left the heap, and that came into it
	for {
		cells, err := o.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		row, err := rowNumber(o.in, cells[o.row])
		if err != nil {
			return nil, err
		}
		if err := each(o.in, cells); err != nil {
			return nil, err
		}
		o.hold = o.hold || row < latest
		latest = max(latest, row)
		if row < last {
			o.late = append(o.late, lateRow{row, o.in.At()})
			o.skip = append(o.skip, o.in.At())
			continue
		}
		o.near.push(nearRow{row: row, bytes: o.in.End() - o.in.At()})
		for o.near.full() {
			last = o.near.pop().row
		}
	}
	o.near = nearRows{}
	slices.SortFunc(o.late, func(a, b lateRow) int { return cmp.Compare(a.row, b.row) })
	return o, o.rewind()
}

func rowNumber(in *resultfile.LineReader, cell string) (int64, error) {
	row := number(cell)
	if row < 1 || row > maxNumber {
		return 0, &resultfile.DamageError{Line: in.Line(), At: in.At(), What: fmt.Sprintf("its number (column row) is not from 1 to %d", int64(maxNumber))}
	}
	return row, nil
}

func (o *ordered) rewind() (err error) {
	o.in, err = resultfile.NewStreamReader(io.NewSectionReader(o.file, 0, o.size))
	return err
}

func (o *ordered) schema() resultfile.Schema { return o.in.Schema() }

// next is the next row by number, io.EOF after the last. The cells are the caller's.
func (o *ordered) next() (row int64, cells []string, err error) {
	for o.near.Len() == 0 || o.hold && !o.near.full() {
		cells, err := o.in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, nil, err
		}
		if len(o.skip) > 0 && o.skip[0] == o.in.At() {
			o.skip = o.skip[1:]
			continue
		}
		row, err := rowNumber(o.in, cells[o.row])
		if err != nil {
			return 0, nil, err // the file has changed since the first pass
		}
		o.near.push(nearRow{row, o.in.End() - o.in.At(), slices.Clone(cells)})
	}
	switch {
	case len(o.late) > 0 && (o.near.Len() == 0 || o.late[0].row < o.near.rows[0].row):
		l := o.late[0]
		o.late = o.late[1:]
		text, err := lineAt(o.file, l.at)
		if err != nil {
			return 0, nil, err
		}
		cells, err := o.in.Lines().Parse(text, nil)
		return l.row, cells, err
	case o.near.Len() == 0:
		return 0, nil, io.EOF
	}
	n := o.near.pop()
	return n.row, n.cells, nil
}

// nearRow is a row in the heap; nearRows is the heap.
type (
	nearRow struct {
		row   int64
		bytes int64 // of its line
		cells []string
	}
	nearRows struct {
		rows  []nearRow
		bytes int64
	}
)

func (h *nearRows) full() bool { return len(h.rows) > nearCount || h.bytes > nearBytes }

func (h *nearRows) push(r nearRow) { heap.Push(h, r) }
func (h *nearRows) pop() nearRow   { return heap.Pop(h).(nearRow) }

func (h *nearRows) Len() int           { return len(h.rows) }
func (h *nearRows) Less(i, j int) bool { return h.rows[i].row < h.rows[j].row }
func (h *nearRows) Swap(i, j int)      { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *nearRows) Push(x any) {
	h.rows = append(h.rows, x.(nearRow))
	h.bytes += x.(nearRow).bytes
}
func (h *nearRows) Pop() any {
	last := len(h.rows) - 1
	x := h.rows[last]
	h.rows[last] = nearRow{}
	h.rows = h.rows[:last]
	h.bytes -= x.bytes
	return x
}

// Sort puts a file's rows into the order of the input. It reads the file that is open, writes
// another beside it, locks that and renames it, so the rows are never without a file that has
// them all. Call it after Flush.
func (o *Output) Sort() error {
	if o.pipe != nil || o.sorted && o.ended[0] == o.ended[1] {
		return nil
	}
	to, err := o.sortBeside()
	if err != nil {
		return &WriteError{fmt.Errorf("putting %s in order, which is complete otherwise: %w", o.path, err)}
	}
	o.store.file.Close()
	o.store.file = to
	if info, err := to.Stat(); err == nil {
		o.store.end = info.Size()
	}
	o.sorted = true
	return nil
}

// sortBeside is the new file, which has the path's name and is locked.
func (o *Output) sortBeside() (_ *os.File, err error) {
	from := o.store.file
	info, err := from.Stat()
	if err != nil {
		return nil, err
	}
	to, err := atomicfile.CreateBeside(o.path, "sorting", info.Mode().Perm())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			to.Close()
			os.Remove(to.Name())
		}
	}()
	if err := sortInto(to, from, o.store.end, o.ended); err != nil {
		return nil, err
	}
	if err := errors.Join(to.Sync(), lock(to)); err != nil {
		return nil, err
	}
	if err := inPlace(o.path, from); err != nil {
		return nil, err
	}
	return to, os.Rename(to.Name(), o.path)
}

// sortInto writes the rows in the first size bytes of a file by their numbers, with one run's header replaced.
func sortInto(to io.Writer, from io.ReaderAt, size int64, ended [2]string) error {
	var header runHeader
	rows, err := openOrdered(from, size, header.find)
	if err != nil {
		return err
	}
	lines := rows.in.Lines()
	out := bufio.NewWriterSize(to, 1<<16)
	out.Write(lines.Header())
	var line []byte
	for {
		row, cells, err := rows.next()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		header.move(row, cells)
		if header.text != "" && cells[header.column] == ended[0] {
			cells[header.column] = ended[1]
		}
		if line, err = lines.Append(line[:0], cells); err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}

// runHeader moves the first run's header to the file's new first row, where it is looked for
// and where it outlives a file that is cut short.
type runHeader struct {
	text   string
	column int
	row    string // that had it
	moved  bool
}

func (h *runHeader) find(in *resultfile.LineReader, cells []string) error {
	if h.text != "" {
		return nil
	}
	if h.column = in.Schema().Index("run_header"); h.column >= 0 && cells[h.column] != "" {
		h.text, h.row = cells[h.column], cells[in.Schema().Index("row")]
	}
	return nil
}

// move is called with each row in the new order.
func (h *runHeader) move(row int64, cells []string) {
	switch {
	case h.text == "":
	case !h.moved && cells[h.column] == "":
		cells[h.column] = h.text
	case h.moved && h.row == strconv.FormatInt(row, 10):
		cells[h.column] = ""
	}
	h.moved = true
}
