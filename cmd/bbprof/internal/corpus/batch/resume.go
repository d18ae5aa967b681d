package batch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/atomicfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// marks holds a mark for each input row, by its number from 1, that has a result.
type marks map[int64]mark

// mark holds a fingerprint of a row's block in its upper byte, which exposes another input within a few rows;
// below, 1 + the row's offset in the result if its block was measured for it. 0 is none.
type mark uint64

const markOffset = 1<<56 - 1

// newMark marks a row at an offset, -1 if its block was not measured for it.
func newMark(hex string, at int64) mark {
	h := fnv.New32a()
	io.WriteString(h, hex)
	return mark(1+h.Sum32()%255)<<56 | mark(1+at)
}

// of reports whether the mark may belong to a row with this block.
func (m mark) of(hex string) bool { return m>>56 == newMark(hex, 0)>>56 }

func (m mark) measured() (at int64, ok bool) { return int64(m&markOffset) - 1, m&markOffset > 0 }

// number parses a cell, 0 if it holds no number.
func number(cell string) int64 {
	n, _ := strconv.ParseInt(cell, 10, 64)
	return n
}

// maxNumber bounds an input's rows: a larger number means damage.
const maxNumber = 1 << 40

// Resume opens a file to continue it, or creates it if it is missing or has no row. here describes the new run; a
// file of another CPU, with other settings or columns is refused. A torn last row is dropped, with whatever a
// power loss left after the last whole one; torn counts these bytes.
func Resume(path string, format resultfile.Format, schema resultfile.Schema, here resultfile.Run) (o *Output, torn int64, err error) {
	f, err := atomicfile.OpenLocked(path)
	if err != nil {
		return nil, 0, err
	}
	o = newOutput(schema)
	var size int64
	end, err := o.scan(f, format, here)
	if err == nil {
		size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil && end == 0 && size > 0 {
		err = o.ours(f, format)
	}
	if err == nil && size > end {
		err = f.Truncate(end)
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return o, size - end, o.open(f, path, format, end)
}

// ours fails for a file without rows that does not start like one of ours.
func (o *Output) ours(f io.ReaderAt, format resultfile.Format) error {
	lines, err := resultfile.NewLines(format, o.schema)
	if err != nil {
		return err
	}
	want := lines.Header()
	if format == resultfile.JSON {
		want = []byte(`{"` + o.schema[0].Name + `":`)
	}
	there := make([]byte, len(want))
	n, _ := f.ReadAt(there, 0)
	if !bytes.HasPrefix(want, bytes.TrimRight(there[:n], "\x00")) {
		return fmt.Errorf("it does not begin like a result and is left alone")
	}
	return nil
}

// scan reads the file and returns where the last whole row ends, 0 without one. A row that was rejected because its core
// was busy is to be measured again; a later one of its number replaces it.
func (o *Output) scan(f *os.File, format resultfile.Format, here resultfile.Run) (end int64, err error) {
	in, err := resultfile.NewLineReader(f, format)
	if err != nil {
		return 0, err
	}
	if in.Schema() == nil {
		return 0, nil
	}
	var runs resultfile.Runs
	if err := sameColumns(in.Schema(), o.schema); err != nil {
		if cells, damage := in.Next(); damage == nil && runs.Add(in.Schema(), cells) == nil {
			err = cmp.Or(sameRuns(&runs, here), err) // other settings explain other columns
		}
		return 0, err
	}
	var damage *resultfile.DamageError
	some, replaced := false, false // a row that was accepted and then rejected
	end = in.End
	for {
		row, cells, err := nextRow(in, o.at["row"])
		bad, isDamage := errors.AsType[*resultfile.DamageError](err)
		switch {
		case errors.Is(err, io.EOF):
			if replaced {
				if err := o.countLast(f, end); err != nil {
					return 0, err
				}
			}
			o.tally.Earlier = o.tally.Rows
			switch {
			case !some:
				return 0, nil
			case runs.None():
				return 0, fmt.Errorf("no row names its run (columns run and run_header), so this result cannot be resumed")
			}
			return end, sameRuns(&runs, here)
		case isDamage:
			damage = cmp.Or(damage, bad)
			continue
		case err != nil:
			return 0, err
		case damage != nil:
			// An interrupted run does not leave this: dropping all that follows might cost days.
			return 0, fmt.Errorf("%w, and whole rows follow; mend or remove that line", damage)
		case o.done[row] != 0 && !o.at.IsBusy(cells):
			return 0, fmt.Errorf("line %d is a second result of row %d", in.Line, row)
		}
		if err := runs.Add(o.schema, cells); err != nil {
			return 0, err
		}
		end, some = in.End, true
		if o.at.IsBusy(cells) {
			replaced = replaced || o.done[row] != 0
			delete(o.done, row)
			continue
		}
		at := in.At
		if cells[o.at["duplicate_of"]] != "" {
			at = -1
		}
		o.done[row] = newMark(cells[o.at["hex"]], at)
		o.tally.add(o.at, cells)
	}
}

// countLast counts the rows of a file again, of those with one number only the last.
func (o *Output) countLast(f io.ReaderAt, size int64) error {
	o.tally = Tally{}
	rows, err := openOrdered(f, size, func(*resultfile.LineReader, []string) error { return nil })
	for err == nil {
		var cells []string
		if _, cells, err = rows.next(); err == nil && !o.at.IsBusy(cells) {
			o.tally.add(o.at, cells)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// sameRuns fails unless the existing rows were measured under this run's conditions.
func sameRuns(there *resultfile.Runs, here resultfile.Run) error {
	list := there.Against(here).All()
	for _, run := range there.All() {
		if run.Shard != here.Shard {
			list = append(list, fmt.Sprintf("shard: %q, here %q", run.Shard, here.Shard))
		}
	}
	if list != nil {
		return fmt.Errorf("it was measured under other conditions, and rows of both kinds must not mix: %s", strings.Join(list, "; "))
	}
	return nil
}

func sameColumns(there, here resultfile.Schema) error {
	if slices.Equal(there.Names(), here.Names()) {
		return nil
	}
	var list []string
	without := func(a, b resultfile.Schema, says string) {
		for _, c := range a {
			if b.Index(c.Name) < 0 {
				list = append(list, says+c.Name)
			}
		}
	}
	without(there, here, "it has ")
	without(here, there, "it lacks ")
	const most = 5 // all differ if a result was given as the input, for example
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("and so on, %d more", more))
	}
	if list == nil {
		list = []string{"those of the input stand in another order, or one is there twice"}
	}
	return fmt.Errorf("its columns are not those of this run: %s; go on with the same input, the same flags and the same bbprof", strings.Join(list, ", "))
}
