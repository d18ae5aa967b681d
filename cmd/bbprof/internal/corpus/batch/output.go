package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/verdict"
)

// Output receives the rows: a file stores each at once, a pipe gets them in order.
type Output struct {
	schema  resultfile.Schema
	at      resultfile.Positions
	store   *store           // measured rows by offset; for a file, the result itself
	offsets map[uint64]int64 // in store, of a measured block's row, by the block's hash
	pipe    *pipe            // nil for a file

	done  marks     // rows of earlier runs
	tally Tally     // of those rows
	ended [2]string // the run's header and its replacement when sorting
}

func newOutput(schema resultfile.Schema) *Output {
	return &Output{schema: schema, at: schema.Positions(), offsets: map[uint64]int64{}, done: marks{}}
}

// Earlier returns how many rows earlier runs wrote.
func (o *Output) Earlier() int64 { return o.tally.Rows }

// Create starts a file. An existing one must be empty unless overwrite is set. The format must append.
func Create(path string, format resultfile.Format, schema resultfile.Schema, overwrite bool) (*Output, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 && !overwrite {
		return nil, fmt.Errorf("%s is there already, with %d bytes; -resume continues it, -overwrite replaces it", path, info.Size())
	}
	f, err := atomicfile.OpenLocked(path)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(0); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o := newOutput(schema)
	return o, o.open(f, path, format, 0)
}

func (o *Output) open(f *os.File, path string, format resultfile.Format, end int64) error {
	lines, err := resultfile.NewLines(format, o.schema)
	if err == nil {
		o.store, err = newStore(f, path, lines, end)
	}
	if err != nil {
		f.Close()
	}
	return err
}

// Pipe writes rows to w, which cannot be reread, in input order unless unordered is set. A temporary file keeps the
// measured rows for repeated blocks.
func Pipe(w io.Writer, format resultfile.Format, schema resultfile.Schema, columns []string, unordered bool) (*Output, error) {
	spool, err := atomicfile.Temporary("what was measured, for blocks that come again")
	if err != nil {
		return nil, err
	}
	out, err := resultfile.NewSelection(w, format, schema, columns)
	if err == nil {
		err = asWriteError(out.Flush())
	}
	if err != nil {
		spool.Close()
		return nil, err
	}
	o := newOutput(schema)
	o.pipe = &pipe{out: out, unordered: unordered, waiting: map[int64][]string{}}
	return o, o.open(spool, "", resultfile.CSV, 0)
}

// gone reports whether a row went out and cannot be replaced.
func (o *Output) gone(seq int64) bool {
	return o.pipe != nil && (o.pipe.unordered || seq < o.pipe.next)
}

// void replaces rows, and those that repeat them, by rejections.
func (o *Output) void(why map[int64]string, t *Tally) error {
	end := o.store.end
	in, err := resultfile.NewLineReader(io.NewSectionReader(o.store.file, 0, end), "")
	for err == nil {
		var cells []string
		if cells, err = in.Next(); err != nil {
			break
		}
		reason, ok := why[cmp.Or(number(o.at.Cell(cells, "duplicate_of")), number(o.at.Cell(cells, "row")))]
		if !ok || o.at.IsBusy(cells) {
			continue
		}
		t.remove(o.at, cells)
		o.at.Reject(cells, verdict.BusyCore, reason)
		t.add(o.at, cells)
		t.Void++
		if _, err = o.store.append(cells); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// put writes a row. seq counts this run's rows from 0 in input order; key is the block's hash if it was measured
// for this row, else nil.
func (o *Output) put(seq int64, cells []string, key *uint64) error {
	if o.pipe != nil {
		if err := o.pipe.put(seq, cells); err != nil {
			return err
		}
	}
	if o.pipe == nil || key != nil {
		at, err := o.store.append(cells)
		if err != nil {
			return err
		}
		if key != nil {
			o.offsets[*key] = at
		}
	}
	return nil
}

// measured returns the row for which a block was measured, nil if there is none.
func (o *Output) measured(key uint64, hex string) (cells []string, err error) {
	at, known := o.offsets[key]
	if !known {
		return nil, nil
	}
	if cells, err = rowFrom(o.store.file, at, o.store.lines); err == nil && cells[o.at["hex"]] != hex {
		cells = nil // a hash collision
	}
	return cells, err
}

// stuck reports whether too many finished rows wait for an earlier one to accept more.
func (o *Output) stuck() bool { return o.pipe != nil && o.pipe.full() }

// Held returns how many finished rows were not written: they waited for an earlier one when writing failed.
func (o *Output) Held() int64 {
	if o.pipe == nil {
		return 0
	}
	return int64(len(o.pipe.waiting))
}

// Flush writes everything. A file is then complete, though unsorted. The error is a *WriteError, which may wrap a
// *DisplacedError if the path no longer names the file.
func (o *Output) Flush() error {
	if o.pipe != nil {
		return o.pipe.close()
	}
	return o.store.flush()
}

// Ended has sorting replace a run's header by one that describes its end.
func (o *Output) Ended(old, now string) { o.ended = [2]string{old, now} }

// InPlace fails if the path no longer names the file that was written; check before reading or removing it by
// name.
func (o *Output) InPlace() error {
	return inPlace(o.store.path, o.store.file)
}

// Close releases the lock on the file. Unflushed rows remain as after a kill.
func (o *Output) Close() error {
	o.store.stopSync()
	return o.store.file.Close()
}

// window and windowBytes bound the rows that wait for an earlier one.
const (
	window      = 8192
	windowBytes = 32 << 20
)

// pipe writes rows in input order.
type pipe struct {
	out       resultfile.Writer
	unordered bool
	waiting   map[int64][]string
	bytes     int // of waiting rows
	next      int64
	failed    error // a row may be partly written: write no more
}

func (p *pipe) write(cells []string) error {
	if p.failed == nil {
		p.failed = asWriteError(cmp.Or(p.out.Write(cells), p.out.Flush())) // a reader may be waiting
	}
	return p.failed
}

func (p *pipe) put(seq int64, cells []string) error {
	if p.unordered {
		return p.write(cells)
	}
	p.bytes += size(cells) - size(p.waiting[seq])
	p.waiting[seq] = cells
	for {
		cells, ok := p.waiting[p.next]
		if !ok {
			return nil
		}
		delete(p.waiting, p.next)
		p.bytes -= size(cells)
		p.next++
		if err := p.write(cells); err != nil {
			return err
		}
	}
}

func (p *pipe) full() bool { return len(p.waiting) >= window || p.bytes >= windowBytes }

func size(cells []string) (n int) {
	for _, cell := range cells {
		n += len(cell)
	}
	return n
}

// close also writes rows that wait for one that will not come, as after an interrupt.
func (p *pipe) close() error {
	for _, seq := range slices.Sorted(maps.Keys(p.waiting)) {
		if err := p.write(p.waiting[seq]); err != nil {
			return err
		}
		delete(p.waiting, seq)
	}
	return cmp.Or(p.failed, asWriteError(p.out.Close()))
}
