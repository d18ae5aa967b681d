package corpus

import (
	"io"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/internal/require"
)

// TestWatch: progress has counts, rate and remaining time, as far as these are known.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		size, bytes int64
		aside       int
		ended       bool
		want        string
	}{
		{1000, 550, 0, false, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error, 55 %, 9s left"},
		{1000, 550, 3, false, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error, 3 to be tried again, 55 %, 9s left"},
		{1000, 1000, 3, true, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error, retry: 3 to go"},
		{0, 5, 0, false, "100 rows, 10 blocks/s, 90 ok, 9 rejected, 1 error"}, // standard input
	} {
		w := newWatch(io.Discard, c.size)
		w.from = 50
		p := batch.Progress{Tally: &batch.Tally{Rows: 100, OK: 90, Rejected: 9, Failed: 1, Measured: 100}, Bytes: c.bytes, Aside: c.aside, Ended: c.ended}
		require.Equal(t, "text", c.want, w.text(p, w.began.Add(10*time.Second)))
	}
}
