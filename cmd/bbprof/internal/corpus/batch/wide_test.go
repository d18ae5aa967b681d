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

// TestWideRows: rows that wait (for a slow block, their block, a retry or their turn) are bounded by text size,
// not only by number.
func TestWideRows(t *testing.T) {
	require.Slow(t)
	const rows = 70
	pipe := func(*testing.T) (*Output, error) { return Pipe(io.Discard, resultfile.CSV, schema, nil, false) }
	wideCell := strings.Repeat("x", 900_000) + "\n"
	_, noisy := noisyCorpus(rows, 1)
	csv := func(t *testing.T) (*Output, error) {
		out, _, err := Resume(file(t), resultfile.CSV, schema, here())
		return out, err
	}
	for _, c := range []struct {
		name string
		most int // bytes that may wait
		open func(*testing.T) (*Output, error)
		same int // each so manieth row has one block
		lab  *lab
	}{
		{"for their place", aheadBytes + windowBytes, pipe, rows, &lab{}},
		{"for a block", aheadBytes + maxHeld, csv, 1, &lab{}},
		{"for a retry", aheadBytes + maxHeld, csv, rows, &lab{noisy: noisy}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.lab.delay = slow(block(0), 62*time.Second) // until all others are done, and between two samples of peakOf
				out := require.Get(c.open(t))(t)
				in := stream(t, func(i int) string {
					switch {
					case i == rows:
						return ""
					case i%c.same == 0:
						return block(0) + "," + wideCell
					}
					return block(i) + "," + wideCell
				})
				peak := peakOf(func() {
					tally, err := Run(t.Context(), in, out, Options{Workers: c.lab.workers(2), Run: here(), Retries: 2})
					if err = errors.Join(err, end(out)); err != nil || tally.Rows != int64(rows) {
						t.Errorf("%+v, %v", tally, err)
					}
				})
				if most := c.most + 12<<20; peak > int64(most) { // plus buffers for copying
					t.Errorf("%d rows of 900 KB take %d MiB, and %d may wait", rows, peak>>20, c.most>>20)
				}
			})
		})
	}
}

// inUse returns the bytes of the heap that are in use.
func inUse() int64 {
	runtime.GC() // ignore garbage
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peakOf returns the peak additional memory in use while f waits.
func peakOf(f func()) (peak int64) {
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
