package batch

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/require"
)

// wideRows is a corpus of rows with a cell of 900 KB each. If repeat is n, every nth row has the block of the
// last.
type wideRows struct {
	left   int
	repeat int
	row    []byte // the unread rest
	buffer []byte
}

var wideCell = strings.Repeat("x", 900_000)

func (w *wideRows) Read(p []byte) (int, error) {
	if len(w.row) == 0 {
		if w.left == 0 {
			return 0, io.EOF
		}
		w.left--
		code := block(w.left)
		if w.repeat > 0 && w.left%w.repeat == 0 {
			code = block(0)
		}
		w.buffer = append(append(append(w.buffer[:0], code...), ','), wideCell...)
		w.buffer = append(w.buffer, '\n')
		w.row = w.buffer
	}
	n := copy(p, w.row)
	w.row = w.row[n:]
	return n, nil
}

// TestWideRows: rows that wait (for a slow block, their block, a retry or their turn) are bounded by text size,
// not only by number.
func TestWideRows(t *testing.T) {
	require.Slow(t)
	pipe := func(*testing.T) (*Output, error) { return Pipe(io.Discard, resultfile.CSV, schema, nil, false) }
	csv := func(t *testing.T) (*Output, error) {
		out, _, err := Resume(file(t), resultfile.CSV, schema, here())
		return out, err
	}
	for _, c := range []struct {
		name string
		most int // bytes that may wait
		open func(*testing.T) (*Output, error)
		rows wideRows
		slow string // the block that others wait for
		lab  *lab
	}{
		{"for their place", aheadBytes + windowBytes, pipe, wideRows{left: 70}, block(69), &lab{}},
		{"for a block, in a pipe", aheadBytes + windowBytes + maxHeld, pipe, wideRows{left: 110, repeat: 2}, block(0), &lab{}},
		{"for a block, in a file", aheadBytes + maxHeld, csv, wideRows{left: 70, repeat: 1}, block(0), &lab{}},
		{"for a retry", aheadBytes + maxHeld, csv, wideRows{left: 70, repeat: 2}, block(0), &lab{noisy: noisyBlocks(70)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.lab.delay = func(hex string, _ int) time.Duration {
					if hex == c.slow {
						return 62 * time.Second // until all others are done, and between two samples of peakOf
					}
					return time.Millisecond
				}
				n := c.rows.left
				out := require.Get(c.open(t))(t)
				in := inputOf(t, io.MultiReader(strings.NewReader("hex,id\n"), &c.rows))
				peak := peakOf(func() {
					tally, err := Run(t.Context(), in, out, Options{Workers: c.lab.workers(2), Run: here(), Retries: 2})
					if err == nil {
						err = errors.Join(out.Flush(), out.Sort(), out.Close())
					}
					if err != nil || tally.Rows != int64(n) {
						t.Errorf("%+v, %v", tally, err)
					}
				})
				if most := c.most + 12<<20; peak > int64(most) { // plus buffers for copying
					t.Errorf("%d rows of 900 KB take %d MiB, and %d may wait", n, peak>>20, c.most>>20)
				}
			})
		})
	}
}

func noisyBlocks(n int) map[string]int {
	noisy := map[string]int{}
	for i := range n {
		noisy[block(i)] = 1
	}
	return noisy
}

// peakOf returns the peak additional memory in use while f waits.
func peakOf(f func()) (peak int64) {
	inUse := func() int64 {
		runtime.GC() // ignore garbage
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return peak
		case <-time.After(5 * time.Second):
			peak = max(peak, inUse()-before)
		}
	}
}
