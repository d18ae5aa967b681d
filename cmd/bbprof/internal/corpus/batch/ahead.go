package batch

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
)

// fed is a row, or the error that ended them.
type fed struct {
	row input.Row
	err error
}

// MismatchError says that the input is not that of the result that is resumed.
type MismatchError struct{ error }

func (e *MismatchError) Error() string {
	return e.error.Error() + "; go on with the same input, or name another result with -o"
}

// filter leaves out rows that have their result and those of other shards.
type filter struct {
	in    Source
	done  *marks
	shard Shard
	// found is told of each row whose block an earlier run measured, and where its result begins; nil if nobody is.
	found func(*input.Row, int64)
}

// all passes rows to put until it refuses one. The last has an error, io.EOF too.
func (f *filter) all(put func(fed) bool) {
	left := f.done.count
	for {
		row, err := f.in.Next()
		done := f.done.at(row.Number)
		switch {
		case errors.Is(err, io.EOF) && left > 0:
			err = &MismatchError{fmt.Errorf("the input ends before the rows that the result has: %d are missing", left)}
		case err != nil:
		case !f.shard.takes(&row):
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
		if !put(fed{row, err}) || err != nil {
			return
		}
	}
}

// aheadRows and aheadBytes are how many rows are read ahead, and how much text. The goroutine that
// reads is woken when half of them are taken, which is seldom enough not to be felt where every
// core measures.
const (
	aheadRows  = 256
	aheadBytes = 8 << 20
)

// ahead is the rows that were read and not taken yet. The input may block for long, as where
// someone types it; taking does not.
type ahead struct {
	mu      sync.Mutex
	room    sync.Cond
	rows    []fed
	bytes   int  // of rows
	filling bool // until it is full; then again when half is gone
	stopped bool
	fresh   func() // called when there are rows again, without a lock
}

func newAhead(fresh func()) *ahead {
	a := &ahead{fresh: fresh, filling: true}
	a.room.L = &a.mu
	return a
}

// feed reads until the end, or until stop.
func (a *ahead) feed(f *filter) { f.all(a.put) }

func (a *ahead) put(f fed) bool {
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
		a.fresh()
	}
	return !stopped
}

func (a *ahead) take() (f fed, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.rows) == 0 {
		return fed{}, false
	}
	f = a.rows[0]
	a.rows[0] = fed{}
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
