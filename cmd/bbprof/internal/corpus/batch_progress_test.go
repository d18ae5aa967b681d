package corpus

import (
	"strings"
	"testing"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
)

// TestWatch: without a terminal, a line reports counts, rate and remaining time now and then.
func TestWatch(t *testing.T) {
	var w strings.Builder
	watch := newWatch(&w, 1000)
	p := batch.Progress{Tally: &batch.Tally{Rows: 10, OK: 9, Rejected: 1, Measured: 10}, Bytes: 100}
	watch.show(p)
	if w.Len() > 0 {
		t.Errorf("at once: %q", w.String())
	}
	ago := func(d time.Duration) {
		watch.began, watch.LastLine, watch.lastTime = time.Now().Add(-d), time.Now().Add(-d), time.Now().Add(-d)
		watch.lastCount = 0
	}
	for _, c := range []struct {
		bytes int64
		aside int
		ended bool
		want  string
	}{
		{550, 0, false, "bbprof: 100 rows, 10 blocks/s, 90 ok, 10 rejected, 55 %, 10s left\n"},
		{550, 3, false, "bbprof: 100 rows, 10 blocks/s, 90 ok, 10 rejected, 3 to be tried again, 55 %, 10s left\n"},
		{1000, 3, true, "bbprof: 100 rows, 10 blocks/s, 90 ok, 10 rejected, retry: 3 to go\n"},
	} {
		w.Reset()
		ago(cli.LineEvery)
		watch.show(batch.Progress{Tally: &batch.Tally{Rows: 100, OK: 90, Rejected: 10, Measured: 100}, Bytes: c.bytes, Aside: c.aside, Ended: c.ended})
		if w.String() != c.want {
			t.Errorf("%q, want %q", w.String(), c.want)
		}
	}
	watch.size = 0 // standard input
	w.Reset()
	ago(cli.LineEvery)
	watch.show(batch.Progress{Tally: &batch.Tally{Rows: 100, Failed: 2, Measured: 100}, Bytes: 5})
	if want := "bbprof: 100 rows, 10 blocks/s, 0 ok, 0 rejected, 2 error\n"; w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}
