package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// now is the time as a run_header has it.
func now() string { return time.Now().UTC().Format(time.RFC3339) }

// lineEvery is how often a line of progress is written where there is no terminal.
const lineEvery = 10 * time.Second

// A meter shows how far something is: a bar on a terminal, elsewhere a line now and then.
type meter struct {
	w        io.Writer
	columns  func() int // of the terminal; nil where there is none
	lastLine time.Time
}

func newMeter(w io.Writer) meter {
	m := meter{w: w, lastLine: time.Now()}
	if fd, ok := terminal(w); ok {
		m.columns = func() int {
			columns, _, err := term.GetSize(fd)
			if err != nil {
				return 80
			}
			return columns
		}
	}
	return m
}

// barWidth is how many columns the bar has between its ends.
const barWidth = 20

// show draws a bar for a share, if it is known, with a text; elsewhere it writes the text. at is now.
func (m *meter) show(at time.Time, share float64, text string) {
	switch {
	case m.columns != nil:
		bar := ""
		if share >= 0 {
			full := int(min(share, 1) * barWidth)
			bar = fmt.Sprintf("%3.0f %% |%s%s| ", 100*min(share, 1), strings.Repeat("█", full), strings.Repeat(" ", barWidth-full))
		}
		fmt.Fprintf(m.w, "\r\x1b[K%s%s", bar, fit(text, m.columns()-utf8.RuneCountInString(bar)-1))
	case at.Sub(m.lastLine) >= lineEvery:
		m.lastLine = at
		fmt.Fprintf(m.w, "bbprof: %s\n", text)
	}
}

func (m *meter) end() {
	if m.columns != nil {
		fmt.Fprint(m.w, "\r\x1b[K")
	}
}

// A counter shows how many of some things are done; of is 0 where their number is unknown.
type counter struct {
	meter
	of       int
	what     string
	began    time.Time
	lastDraw time.Time
}

func progress(w io.Writer, of int, what string) *counter {
	return &counter{meter: newMeter(w), of: of, what: what, began: time.Now()}
}

func (c *counter) step(done int) {
	at := time.Now()
	if at.Sub(c.lastDraw) < drawEvery {
		return
	}
	c.lastDraw = at
	if c.of == 0 {
		c.show(at, -1, fmt.Sprintf("%d %s done", done, c.what))
		return
	}
	left := at.Sub(c.began) * time.Duration(c.of-done) / time.Duration(done)
	c.show(at, float64(done)/float64(c.of), fmt.Sprintf("%d of %d %s, %v left", done, c.of, c.what, left.Round(time.Second)))
}

// drawEvery keeps what draws from disturbing what is measured.
const drawEvery = 200 * time.Millisecond

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
