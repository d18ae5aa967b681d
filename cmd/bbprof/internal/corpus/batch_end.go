package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/verdict"
)

// batchEnd holds what the final messages report.
type batchEnd struct {
	flags *batchFlags
	in    *input.Input
	std   cli.Streams

	resumable bool // a file holds the rows
	run       resultfile.Run
	tally     batch.Tally
	held      int64
	atStart   string // selftest results
}

// exit reports how the run went and, if it stopped early, why and how to continue.
func (e *batchEnd) exit(err error) error {
	pipe := errors.Is(err, syscall.EPIPE) // the reader closed the pipe, like head
	if !pipe {
		notes := e.flags.out.Notes(e.std)
		e.tally.Report(notes)
		if e.atStart != "" {
			fmt.Fprintf(notes, "bbprof: selftest at start: %s\n", e.atStart)
		}
		e.in.Ignored().Warn(e.std.Err)
		err = e.why(err)
	}
	if summaryErr := e.writeSummary(); summaryErr != nil {
		fmt.Fprintf(e.std.Err, "bbprof: writing the summary: %v\n", summaryErr)
		if err == nil {
			err = cli.Exit(cli.ExitInternal)
		}
	}
	return err
}

// why reports what stopped the run before the end of its input, and returns its exit code.
func (e *batchEnd) why(err error) error {
	if n := e.tally.Rows; err == nil && n > 0 && e.tally.Reasons[string(verdict.BadHex)] == n && e.flags.shard.Count <= 1 {
		return cli.BadUsage("no row has a block in its column, so nothing was measured; -column names another column")
	}
	if err == nil {
		return nil
	}
	var (
		reading  *input.ReadError
		mismatch *batch.MismatchError
		writing  *batch.WriteError
		code     cli.Exit
	)
	switch {
	case errors.Is(err, batch.ErrInterrupted):
		code = cli.ExitInterrupted
	case errors.As(err, &mismatch):
		code = cli.ExitUsage
	case errors.As(err, &reading):
		err, code = fmt.Errorf("reading the input: %w", err), cli.ExitUsage
	case errors.As(err, &writing):
		err, code = fmt.Errorf("writing the results: %w", err), cli.ExitInternal
	default:
		code = cli.Exit(blockflags.ExitOf(err))
	}
	if displaced := (*batch.DisplacedError)(nil); errors.As(err, &displaced) {
		fmt.Fprintf(e.std.Err, "bbprof: %v\n", err)
		e.afterDisplaced(displaced)
		return code
	}
	fmt.Fprintf(e.std.Err, "bbprof: %v, with %s done and written in full\n", err, words.Plural(int(e.tally.Rows-e.held), "row"))
	if e.resumable && mismatch == nil {
		fmt.Fprintf(e.std.Err, "bbprof: to continue where it stopped: %s\n", cli.ResumeCommand(os.Args[0], e.flags.flags))
	}
	return code
}

// afterDisplaced says how to continue if the format can be resumed into.
func (e *batchEnd) afterDisplaced(d *batch.DisplacedError) {
	switch {
	case d.Rows == "":
	case d.Rows == e.flags.out.File:
		fmt.Fprintf(e.std.Err, "bbprof: to continue with what is left: %s\n", cli.ResumeCommand(os.Args[0], e.flags.flags))
	case e.flags.format.Appends():
		fmt.Fprintf(e.std.Err, "bbprof: to continue with them: bbprof batch -resume -format %s -o %s and the other "+
			"arguments as before\n", e.flags.format, cli.Quoted(d.Rows))
	}
}

type summaryJSON struct {
	Run             resultfile.Run `json:"run"`
	Tally           batch.Tally    `json:"result"`
	BlocksPerSecond float64        `json:"blocks_per_second"`
	SelftestAtStart string         `json:"selftest_at_start"`
}

func (e *batchEnd) writeSummary() error {
	if e.flags.summary == "" {
		return nil
	}
	text, err := json.MarshalIndent(summaryJSON{e.run, e.tally, e.tally.Rate(), e.atStart}, "", "  ")
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	}
	return cli.WriteResults(e.flags.summary, e.std.Out, write)
}
