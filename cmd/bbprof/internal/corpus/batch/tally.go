package batch

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
)

// Tally counts the rows of a result file by outcome, including earlier runs.
type Tally struct {
	Rows       int64 `json:"rows"`
	OK         int64 `json:"ok"`
	Rejected   int64 `json:"rejected"`
	Failed     int64 `json:"error"`
	Duplicates int64 `json:"duplicates"` // rows whose block was measured for an earlier row
	Retried    int64 `json:"retried"`    // rows whose block was measured more than once
	Recovered  int64 `json:"recovered"`  // of these, finally accepted
	Earlier    int64 `json:"earlier"`    // rows that existed when the run started

	Reasons map[string]int64 `json:"reasons"`

	Late int64 `json:"late,omitempty"` // rows of a busy core that were written before that was known and cannot be replaced
	Void int64 `json:"-"`              // rows that were replaced by a rejection at the end, and are to be measured again

	// This run only.
	Controls     *resultfile.Controls `json:"controls,omitempty"`
	Seconds      float64              `json:"seconds"`
	TimedSeconds float64              `json:"timed_seconds"` // inside timed code, over all workers
	Measured     int64                `json:"measured"`      // blocks, without retries
}

func (t *Tally) add(at resultfile.Positions, cells []string) { t.count(at, cells, 1) }

// remove is for a row that another takes the place of.
func (t *Tally) remove(at resultfile.Positions, cells []string) { t.count(at, cells, -1) }

func (t *Tally) count(at resultfile.Positions, cells []string, n int64) {
	cell := func(name string) string { return at.Cell(cells, name) }
	t.Rows += n
	retried := cell("tries") != "" && cell("tries") != "1"
	if retried {
		t.Retried += n
	}
	if cell("duplicate_of") != "" {
		t.Duplicates += n
	}
	switch cell("status") {
	case "ok":
		t.OK += n
		if retried {
			t.Recovered += n
		}
	case "rejected":
		t.Rejected += n
		if t.Reasons == nil {
			t.Reasons = map[string]int64{}
		}
		if t.Reasons[cell("reason")] += n; t.Reasons[cell("reason")] == 0 {
			delete(t.Reasons, cell("reason"))
		}
	default:
		t.Failed += n
	}
}

// Continue adds what an earlier part of the same run took.
func (t *Tally) Continue(before *Tally) {
	t.Earlier, t.Late = before.Earlier, t.Late+before.Late
	t.Seconds, t.TimedSeconds, t.Measured = t.Seconds+before.Seconds, t.TimedSeconds+before.TimedSeconds, t.Measured+before.Measured
	t.Controls.Add(before.Controls)
}

func (t *Tally) Rate() float64 {
	if t.Seconds <= 0 {
		return 0
	}
	return float64(t.Measured) / t.Seconds
}

const barWidth = 40

func (t *Tally) Report(w io.Writer) {
	fmt.Fprintf(w, "bbprof: %s: %d ok, %d rejected, %d error\n", words.Plural(t.Rows, "row"), t.OK, t.Rejected, t.Failed)
	if t.Failed > 0 {
		fmt.Fprintln(w, "bbprof: the column detail says what failed in each row that is error")
	}
	if t.Earlier > 0 {
		fmt.Fprintf(w, "bbprof: %d of them were there before\n", t.Earlier)
	}
	fmt.Fprintf(w, "bbprof: %s measured in %v, %.1f blocks/s\n", words.Plural(t.Measured, "block"),
		time.Duration(t.Seconds*float64(time.Second)).Round(time.Millisecond), t.Rate())
	if t.Duplicates > 0 {
		fmt.Fprintf(w, "bbprof: %s repeated an earlier row's block\n", words.Plural(t.Duplicates, "row"))
	}
	if t.Retried > 0 {
		fmt.Fprintf(w, "bbprof: retries: %s tried again, %d accepted in the end\n", words.Plural(t.Retried, "row"), t.Recovered)
	}
	if t.Late > 0 {
		fmt.Fprintf(w, "bbprof: WARNING: %s had been written before it was known that the core was busy, and are not to be trusted; "+
			"with -o FILE they would have been measured again\n", words.Plural(t.Late, "row"))
	}
	if c := t.Controls; c != nil {
		fmt.Fprintf(w, "bbprof: controls: %v\n", c)
	}
	reasons := words.ByCount(t.Reasons)
	for _, r := range reasons {
		n, most := t.Reasons[r], t.Reasons[reasons[0]]
		fmt.Fprintf(w, "  %6d  %-18s %s\n", n, r, strings.Repeat("#", int((n*barWidth+most-1)/most)))
	}
}
