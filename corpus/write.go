package corpus

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/profiler"
)

// Columns are those of a result file. The first six stay first and keep their names, which
// are also those in JSON.
var columns = [...]string{
	"hex", "status", "reason", "cycles", "ci_low", "ci_high",
	"mode", "frontend", "loop_cycles", "loop_ci_low", "loop_ci_high",
	"instructions", "bytes", "unroll_short", "unroll_long",
	"samples_kept", "samples_dropped", "pages", "frames",
	"init", "paper_verdict", "self_forwarding_loads", "detail",
}

// Writer puts results out as comma-separated rows, each handed on as soon as it is written.
type Writer struct {
	csv *csv.Writer
}

// NewWriter writes the header to w.
func NewWriter(w io.Writer) (*Writer, error) {
	out := &Writer{csv.NewWriter(w)}
	return out, out.flush(columns[:])
}

// Write writes one result. What is not known of it is an empty field, never a zero. Cycles
// have four decimals, which is finer than any interval.
func (w *Writer) Write(r profiler.Result) error {
	cycles := func(c float64) string {
		if r.Status != profiler.OK {
			return ""
		}
		return strconv.FormatFloat(c, 'f', 4, 64)
	}
	ofLoop := func(c float64) string {
		if r.LoopCycles == 0 { // not asked for, or not measured
			return ""
		}
		return cycles(c)
	}
	count := func(n int, known bool) string {
		if !known {
			return ""
		}
		return strconv.Itoa(n)
	}
	ran := r.UnrollLong > 0 // there were images to run
	return w.flush([]string{
		r.Hex, string(r.Status), string(r.Reason), cycles(r.Cycles), cycles(r.CILow), cycles(r.CIHigh),
		string(r.Mode), string(r.FrontEnd), ofLoop(r.LoopCycles), ofLoop(r.LoopCILow), ofLoop(r.LoopCIHigh),
		count(r.Instructions, r.Instructions > 0), count(r.Bytes, r.Bytes > 0),
		count(r.UnrollShort, ran), count(r.UnrollLong, ran),
		count(r.SamplesKept, ran), count(r.SamplesDropped, ran),
		count(r.Pages, ran), count(r.Frames, ran),
		r.Init.Name, r.PaperVerdict, count(r.SelfForwarding, r.Status == profiler.OK),
		detail(r),
	})
}

func (w *Writer) flush(record []string) error {
	if err := w.csv.Write(record); err != nil {
		return err
	}
	w.csv.Flush()
	return w.csv.Error()
}

// detail is the one text of a row: why there is no number, or what to keep in mind with it.
func detail(r profiler.Result) string {
	switch {
	case r.Failure != "":
		return r.Failure
	case r.Rejection == nil:
		notes := r.Warnings
		if r.Disagreement != "" {
			notes = append([]string{r.Disagreement}, notes...)
		}
		return strings.Join(notes, "; ")
	case r.Rejection.Inst == nil:
		return r.Rejection.Detail
	}
	in := r.Rejection.Inst
	return fmt.Sprintf("%s (instruction %d at byte %d: %s)", r.Rejection.Detail, in.Index+1, in.Offset, in.Text)
}
