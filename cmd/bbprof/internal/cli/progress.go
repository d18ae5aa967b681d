package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// lineEvery is the interval between lines of progress where there is no terminal.
const lineEvery = 10 * time.Second

// A Meter shows progress: a bar on a terminal, elsewhere an occasional line.
type Meter struct {
	w        io.Writer
	Columns  func() int // of the terminal; nil without one
	LastLine time.Time
}

func NewMeter(w io.Writer) Meter {
	m := Meter{w: w, LastLine: time.Now()}
	if fd, ok := Terminal(w); ok {
		m.Columns = func() int {
			columns, _, err := term.GetSize(fd)
			if err != nil {
				return 80
			}
			return columns
		}
	}
	return m
}

const barWidth = 20

// Show draws a bar with a text if the share is known; without a terminal it writes the text. at is the current time.
func (m *Meter) Show(at time.Time, share float64, text string) {
	switch {
	case m.Columns != nil:
		bar := ""
		if share >= 0 {
			full := int(min(share, 1) * barWidth)
			bar = fmt.Sprintf("%3.0f %% |%s%s| ", 100*min(share, 1), strings.Repeat("█", full), strings.Repeat(" ", barWidth-full))
		}
		fmt.Fprintf(m.w, "\r\x1b[K%s%s", bar, fit(text, m.Columns()-utf8.RuneCountInString(bar)-1))
	case at.Sub(m.LastLine) >= lineEvery:
		m.LastLine = at
		fmt.Fprintf(m.w, "bbprof: %s\n", text)
	}
}

func (m *Meter) End() {
	if m.Columns != nil {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

// A Counter shows how many items are done; Of is 0 if their number is unknown.
type Counter struct {
	Meter
	Of       int
	most     bool // Of is a limit that need not be reached
	what     string
	began    time.Time
	lastDraw time.Time
}

func Progress(w io.Writer, of int, what string) *Counter {
	return &Counter{Meter: NewMeter(w), Of: of, what: what, began: time.Now()}
}

// ProgressTo is Progress for work that may end before the limit.
func ProgressTo(w io.Writer, limit int, what string) *Counter {
	c := Progress(w, limit, what)
	c.most = true
	return c
}

func (c *Counter) Step(done int) {
	at := time.Now()
	if at.Sub(c.lastDraw) < drawEvery {
		return
	}
	c.lastDraw = at
	share, text := -1.0, fmt.Sprintf("%d of %d %s", done, c.Of, c.what)
	left := (at.Sub(c.began) * time.Duration(c.Of-done) / time.Duration(max(done, 1))).Round(time.Second)
	switch {
	case c.Of == 0:
		text = fmt.Sprintf("%d %s done", done, c.what)
	case done == 0:
		share = 0
	case c.most:
		text = fmt.Sprintf("%d of at most %d %s, at most %v left", done, c.Of, c.what, left)
	default:
		share, text = float64(done)/float64(c.Of), fmt.Sprintf("%s, %v left", text, left)
	}
	c.Show(at, share, text)
}

// drawEvery limits drawing, which would disturb the measurements.
const drawEvery = 200 * time.Millisecond

// fit drops the last items of a list that is wider than the terminal: a wrapped line cannot be overwritten.
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
