package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
)

// wideRows is a corpus of rows with a cell of 900 KB each, of which every other has the first's block.
type wideRows struct {
	left int
	row  bytes.Buffer
}

func (w *wideRows) Read(p []byte) (int, error) {
	if w.row.Len() == 0 {
		if w.left == 0 {
			return 0, io.EOF
		}
		w.left--
		code := block(w.left)
		if w.left%2 == 0 {
			code = block(0)
		}
		fmt.Fprintf(&w.row, "%s,%s\n", code, strings.Repeat("x", 900_000))
	}
	return w.row.Read(p)
}

// TestWideRows: rows that wait, for one that takes long, for their block, for a retry or for their
// place, are bounded by their text and not only by their number.
func TestWideRows(t *testing.T) {
	const n, most = 300, 200 << 20
	slow := func(hex string, _ int) time.Duration {
		if hex == block(0) || hex == block(n-1) {
			return 200 * time.Millisecond
		}
		return time.Millisecond
	}
	for _, name := range []string{"pipe", "file", "retries"} {
		t.Run(name, func(t *testing.T) {
			in := inputOf(t, io.MultiReader(strings.NewReader("hex,id\n"), &wideRows{left: n}))
			l := &lab{delay: slow, noisy: map[string]int{}}
			out, err := Pipe(io.Discard, resultfile.CSV, schema, nil, false)
			if name != "pipe" {
				out, _, err = Resume(file(t), resultfile.CSV, schema, here())
			}
			if name == "retries" {
				for i := range n {
					l.noisy[block(i)] = 1
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			var peak atomic.Uint64
			done := make(chan struct{})
			go func() {
				var m runtime.MemStats
				for {
					select {
					case <-done:
						return
					case <-time.After(5 * time.Millisecond):
						runtime.ReadMemStats(&m)
						peak.Store(max(peak.Load(), m.HeapAlloc))
					}
				}
			}()
			tally, err := Run(t.Context(), in, out, Options{Workers: l.workers(2), Run: here(), Retries: 2})
			if err == nil {
				err = errors.Join(out.Flush(), out.Sort(), out.Close())
			}
			close(done)
			if err != nil || tally.Rows != n {
				t.Fatalf("%+v, %v", tally, err)
			}
			if got := peak.Load(); got > most {
				t.Errorf("%d rows of 900 KB take %d MiB", n, got>>20)
			}
		})
	}
}
