package batch

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
)

// inputRow is a row, or the error that ended the input.
type inputRow struct {
	row input.Row
	err error
}

// MismatchError reports that a resumed result belongs to another input.
type MismatchError struct{ error }

func (e *MismatchError) Error() string {
	return e.error.Error() + "; go on with the same input, or name another result with -o"
}

// filter drops rows that have a result already and those of other shards.
type filter struct {
	in    *input.Input
	done  marks
	shard Shard
	// found is called for each row whose block an earlier run measured, with the offset of its result; may be nil.
	found func(*input.Row, int64)
}

// all passes rows to put until it returns false. The last one holds an error, possibly io.EOF.
func (f *filter) all(put func(inputRow) bool) {
	left := len(f.done)
	for {
		row, err := f.in.Next()
		done := f.done[row.Number]
		switch {
		case errors.Is(err, io.EOF) && left > 0:
			err = &MismatchError{fmt.Errorf("the input ends before the rows that the result has: %d are missing", left)}
		case err != nil:
		case f.shard.Count > 1 && f.shard.of(&row) != f.shard.Index:
			continue
		case done == 0:
		case done.of(row.Hex()):
			if at, ok := done.measured(); ok && f.found != nil {
				f.found(&row, at)
			}
			left--
			continue
		default:
			err = &MismatchError{fmt.Errorf("%s, line %d: the result has another block in its row %d", row.File, row.Line, row.Number)}
		}
		if !put(inputRow{row, err}) || err != nil {
			return
		}
	}
}

// aheadRows and aheadBytes bound the rows read ahead. The reading goroutine wakes when half of them are taken,
// rarely enough not to disturb measurements on its core.
const (
	aheadRows  = 256
	aheadBytes = 8 << 20
)

// ahead buffers rows that were read but not yet taken. Reading may block for long, for example at a terminal;
// taking does not.
type ahead struct {
	mu      sync.Mutex
	room    sync.Cond
	rows    []inputRow
	bytes   int  // of rows
	filling bool // until full, then again below half
	stopped bool
	onRows  func() // called without a lock when rows become available
}

func (a *ahead) put(f inputRow) bool {
	a.mu.Lock()
	for !a.filling && !a.stopped {
		a.room.Wait()
	}
	empty, stopped := len(a.rows) == 0, a.stopped
	a.rows = append(a.rows, f)
	a.bytes += f.row.Size()
	a.filling = len(a.rows) < aheadRows && a.bytes < aheadBytes
	a.mu.Unlock()
	if empty && !stopped {
		a.onRows()
	}
	return !stopped
}

func (a *ahead) take() (f inputRow, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.rows) == 0 {
		return inputRow{}, false
	}
	f = a.rows[0]
	a.rows[0] = inputRow{}
	a.rows = a.rows[1:]
	a.bytes -= f.row.Size()
	if !a.filling && len(a.rows) <= aheadRows/2 && a.bytes <= aheadBytes/2 {
		a.filling = true
		a.room.Signal()
	}
	return f, true
}

func (a *ahead) stop() {
	a.mu.Lock()
	a.stopped = true
	a.room.Signal()
	a.mu.Unlock()
}
