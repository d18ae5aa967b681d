package corpus

import (
	"fmt"
	"io"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
)

type watch struct {
	cli.Meter
	size  int64 // of the input in bytes, 0 if unknown
	began time.Time
	from  int64 // input offset of this run's first row
}

func newWatch(w io.Writer, size int64) *watch {
	return &watch{Meter: cli.NewMeter(w), size: size, began: time.Now(), from: -1}
}

func (t *watch) show(p batch.Progress) {
	at := time.Now()
	share := -1.0
	if t.size > 0 {
		share = float64(p.Bytes) / float64(t.size)
	}
	t.Meter.Show(at, share, t.text(p, at))
}

func (t *watch) text(p batch.Progress, at time.Time) string {
	if t.from < 0 {
		t.from = p.Bytes
	}
	s := fmt.Sprintf("%d rows, %.0f blocks/s, %d ok, %d rejected",
		p.Tally.Rows, float64(p.Tally.Measured)/at.Sub(t.began).Seconds(), p.Tally.OK, p.Tally.Rejected)
	if p.Tally.Failed > 0 {
		s += fmt.Sprintf(", %d error", p.Tally.Failed)
	}
	if p.Aside > 0 && !p.Ended { // explains the few rows of a busy host
		s += fmt.Sprintf(", %d to be tried again", p.Aside)
	}
	switch {
	case p.Ended && p.Aside > 0:
		s += fmt.Sprintf(", retry: %d to go", p.Aside)
	case t.size > 0 && p.Bytes > t.from:
		if t.Columns == nil { // a bar shows the rest
			s += fmt.Sprintf(", %d %%", 100*p.Bytes/t.size)
		}
		left := time.Duration(float64(at.Sub(t.began)) * float64(t.size-p.Bytes) / float64(p.Bytes-t.from))
		s += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return s
}
