package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
)

// now is the time as a run_header has it.
func now() string { return time.Now().UTC().Format(time.RFC3339) }

// lineEvery is how often a line tells of the progress where there is no terminal.
const lineEvery = 10 * time.Second

// watch shows how far a batch is: a bar on a terminal, elsewhere a line now and then.
type watch struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil where there is no terminal
	width func() int               // of the text beside a bar
	size  int64                    // of the input in bytes, 0 if unknown

	began     time.Time
	from      int64 // where in the input this run found its first row
	lastLine  time.Time
	lastCount int64
	lastTime  time.Time
	rate      float64
}

func newWatch(w io.Writer, size int64) *watch {
	t := &watch{w: w, size: size, began: time.Now(), from: -1}
	t.lastLine, t.lastTime = t.began, t.began
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		most := size
		if most == 0 {
			most = -1 // a spinner
		}
		t.bar = progressbar.NewOptions64(most,
			progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionUseANSICodes(true)) // to clear a line that what is typed made longer
		t.width = func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return columns - len(" 100% ||") - 1
		}
	}
	return t
}

// show is called a few times a second.
func (t *watch) show(p batch.Progress) {
	at := time.Now()
	if t.from < 0 {
		t.from = p.Bytes
	}
	if seconds := at.Sub(t.lastTime).Seconds(); seconds >= 1 || t.rate == 0 {
		t.rate = float64(p.Tally.Measured-t.lastCount) / seconds
		t.lastCount, t.lastTime = p.Tally.Measured, at
	}
	if t.bar != nil {
		t.bar.Describe(fit(t.text(p, at), t.width()))
		if t.size > 0 {
			t.bar.Set64(min(p.Bytes, t.size))
		} else {
			t.bar.Add(1)
		}
		return
	}
	if at.Sub(t.lastLine) >= lineEvery {
		t.lastLine = at
		fmt.Fprintf(t.w, "bbprof: %s\n", t.text(p, at))
	}
}

// text is the counts, the rate and the time left.
func (t *watch) text(p batch.Progress, at time.Time) string {
	s := fmt.Sprintf("%d rows, %.0f blocks/s, %d ok, %d rejected", p.Tally.Rows, t.rate, p.Tally.OK, p.Tally.Rejected)
	if p.Tally.Failed > 0 {
		s += fmt.Sprintf(", %d error", p.Tally.Failed)
	}
	switch {
	case p.Ended && p.Aside > 0:
		s += fmt.Sprintf(", second look: %d to go", p.Aside)
	case t.size > 0 && p.Bytes > t.from:
		if t.bar == nil { // which shows it
			s += fmt.Sprintf(", %d %%", 100*p.Bytes/t.size)
		}
		left := time.Duration(float64(at.Sub(t.began)) * float64(t.size-p.Bytes) / float64(p.Bytes-t.from))
		s += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return s
}

// fit leaves out the last items of a list that is wider than a terminal: a line that is broken
// cannot be drawn over.
func fit(text string, width int) string {
	for len(text) > width {
		end := strings.LastIndex(text, ", ")
		if end < 0 {
			return ""
		}
		text = text[:end]
	}
	return text
}

// end removes the bar.
func (t *watch) end() {
	if t.bar != nil {
		t.bar.Clear()
	}
}

// progress writes lines like "12 of 40 runs", now and then; of is 0 where nobody knows.
func progress(w io.Writer, of int, what string) func(done int) {
	began := time.Now()
	last := began
	return func(done int) {
		now := time.Now()
		if now.Sub(last) < lineEvery {
			return
		}
		last = now
		if of == 0 {
			fmt.Fprintf(w, "bbprof: %d %s done\n", done, what)
			return
		}
		left := now.Sub(began) * time.Duration(of-done) / time.Duration(done)
		fmt.Fprintf(w, "bbprof: %d of %d %s, about %v left\n", done, of, what, left.Round(time.Second))
	}
}
