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

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// ordered reads the rows of a file by their numbers, whatever order they stand in. Workers
// leave rows near their places, and a heap puts those right. A row that comes later still, as
// after a second look, is noted in a first pass and fetched in the second.
type ordered struct {
	file *os.File
	in   *resultfile.LineReader
	row  int // the column
	near nearRows
	hold int       // how many rows near may hold: none of a file that is in order
	late []lateRow // not given out yet, by number
	skip []int64   // where late rows begin that the second pass has yet to come by
}

// lateRow is a row that the heap cannot put in its place.
type lateRow struct{ row, at int64 }

// nearCount is how many rows the heap holds, some 10 MB.
const nearCount = 8192

// openOrdered makes the first pass. each is called with every row, in the file's order; the
// cells are valid until it returns.
func openOrdered(f *os.File, each func(in *resultfile.LineReader, cells []string) error) (*ordered, error) {
	o := &ordered{file: f}
	if err := o.rewind(); err != nil {
		return nil, err
	}
	if o.in.Schema() == nil {
		return nil, errors.New("it has no row")
	}
	if o.row = o.in.Schema().Index("row"); o.row < 0 {
		return nil, errors.New("its rows have no number (column row), so it is no result of batch")
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
		row := number(cells[o.row])
		if row < 1 {
			return nil, &resultfile.DamageError{Line: o.in.Line(), At: o.in.At(), What: "it has no number of a row"}
		}
		if err := each(o.in, cells); err != nil {
			return nil, err
		}
		if row < latest {
			o.hold = nearCount
		}
		latest = max(latest, row)
		if row < last {
			o.late = append(o.late, lateRow{row, o.in.At()})
			o.skip = append(o.skip, o.in.At())
			continue
		}
		heap.Push(&o.near, nearRow{row: row})
		if len(o.near) > nearCount {
			last = heap.Pop(&o.near).(nearRow).row
		}
	}
	o.near = nil
	slices.SortFunc(o.late, func(a, b lateRow) int { return cmp.Compare(a.row, b.row) })
	return o, o.rewind()
}

func (o *ordered) rewind() (err error) {
	if _, err = o.file.Seek(0, io.SeekStart); err == nil {
		o.in, err = resultfile.NewStreamReader(o.file)
	}
	return err
}

// schema is the file's.
func (o *ordered) schema() resultfile.Schema { return o.in.Schema() }

// next is the next row by number, io.EOF behind the last. The cells are the caller's.
func (o *ordered) next() (row int64, cells []string, err error) {
	for len(o.near) <= o.hold {
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
		heap.Push(&o.near, nearRow{number(cells[o.row]), slices.Clone(cells)})
	}
	switch {
	case len(o.late) > 0 && (len(o.near) == 0 || o.late[0].row < o.near[0].row):
		l := o.late[0]
		o.late = o.late[1:]
		text, err := lineAt(o.file, l.at)
		if err != nil {
			return 0, nil, err
		}
		cells, err := o.in.Lines().Parse(text, nil)
		return l.row, cells, err
	case len(o.near) == 0:
		return 0, nil, io.EOF
	}
	n := heap.Pop(&o.near).(nearRow)
	return n.row, n.cells, nil
}

// nearRow is a row in the heap; nearRows is the heap.
type (
	nearRow struct {
		row   int64
		cells []string
	}
	nearRows []nearRow
)

func (h nearRows) Len() int           { return len(h) }
func (h nearRows) Less(i, j int) bool { return h[i].row < h[j].row }
func (h nearRows) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nearRows) Push(x any)        { *h = append(*h, x.(nearRow)) }
func (h *nearRows) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nearRow{}
	*h = (*h)[:last]
	return x
}

// Sort puts a file's rows into the order of the input. It writes another file beside it and
// renames that, so the rows are never without a file that has them all. Call it after Close.
func (o *Output) Sort() error {
	if o.pipe != nil || o.sorted {
		return nil
	}
	if err := sortFile(o.path); err != nil {
		return &WriteError{fmt.Errorf("putting %s in order, which is complete otherwise: %w", o.path, err)}
	}
	o.sorted = true
	return nil
}

func sortFile(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var header runHeader
	rows, err := openOrdered(f, header.find)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	beside := path + ".sorting"
	to, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			to.Close()
			os.Remove(beside)
		}
	}()
	lines := rows.in.Lines()
	out := bufio.NewWriterSize(to, 1<<16)
	out.Write(lines.Header())
	var line []byte
	for {
		row, cells, err := rows.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		header.move(row, cells)
		if line, err = lines.Append(line[:0], cells); err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	if err := errors.Join(out.Flush(), to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(beside, path)
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
