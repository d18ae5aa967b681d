package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/corpus"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// batch measures every row of a file: bbprof batch.
func batch(args []string, std streams) int {
	var (
		opts   profiler.Options
		f      = newFlags("bbprof batch")
		output = f.String("o", "", "")
	)
	measuring(f, &opts)
	operands, code, done := parse(f, args, usageBatch, std)
	if done {
		return code
	}
	if err := opts.Check(); err != nil {
		return usageError(std, "%v", err)
	}
	if len(operands) != 1 {
		return usageError(std, "batch: %d files named; name one, or - for standard input", len(operands))
	}
	in, err := openInput(operands[0], std.in)
	if err != nil {
		return usageError(std, "batch: %v", err)
	}
	defer in.Close()

	// Before the output is opened: a host that cannot measure must not cost an old result.
	p, err := profiler.New(opts)
	if err != nil {
		return failure(std, err)
	}
	defer p.Close()

	// With SIGPIPE ignored a closed pipe is a write error like any other.
	signal.Ignore(syscall.SIGPIPE)
	out, closeOut, err := openOutput(*output, in, std.out)
	if err != nil {
		return usageError(std, "batch: %v", err)
	}
	// The first signal ends the run after the current block; then signals are the default's
	// again, so the second ends it at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	t := tally{reasons: map[verdict.Reason]int{}}
	t.selftestAtStart(ctx, p, std.err, opts.Unroll != nil)
	t.began = time.Now()
	err = t.measure(ctx, p, corpus.NewReader(in), out)
	t.took = time.Since(t.began)
	if closeErr := closeOut(); closeErr != nil && err == nil {
		err = &writeError{closeErr}
	}
	if err == nil {
		t.atEnd, _ = shortSelftest(ctx, p)
	}
	t.summary(std.err)
	return t.exit(std, err)
}

// openInput opens a file, or passes standard input on.
func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a directory; name a file", name)
	}
	return f, nil
}

// openOutput creates the file, unless that would empty the input; no name and - are stdout.
func openOutput(name string, in io.Reader, stdout io.Writer) (out io.Writer, done func() error, err error) {
	if name == "" || name == "-" {
		return stdout, func() error { return nil }, nil
	}
	if f, ok := in.(*os.File); ok {
		from, err1 := f.Stat()
		to, err2 := os.Stat(name)
		if err1 == nil && err2 == nil && os.SameFile(from, to) {
			return nil, nil, fmt.Errorf("-o %s is the input itself; name another file", name)
		}
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// tally counts what became of the rows.
type tally struct {
	atStart, atEnd       string // the selftests, if they were run
	began                time.Time
	took                 time.Duration
	ok, rejected, failed int
	reasons              map[verdict.Reason]int
	header               string
}

// The ends of a run that are neither the end of its input nor a failed measurement.
type (
	readError  struct{ error }
	writeError struct{ error }
)

var errInterrupted = errors.New("interrupted")

// measure is the run: a row in, a block measured, a row out.
func (t *tally) measure(ctx context.Context, p *profiler.Profiler, in *corpus.Reader, out io.Writer) error {
	w, err := corpus.NewWriter(out)
	if err != nil {
		return &writeError{err}
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	rows := readAhead(reading, in)
	for {
		if ctx.Err() != nil { // else select might prefer the next row
			return errInterrupted
		}
		var next inputRow
		select {
		case <-ctx.Done():
			return errInterrupted
		case next = <-rows:
		}
		t.header = next.header
		if errors.Is(next.err, io.EOF) {
			return nil
		}
		if next.err != nil {
			return &readError{next.err}
		}
		result, err := measureRow(p, next.Row)
		if err != nil {
			return err
		}
		if err := w.Write(result); err != nil {
			return &writeError{err}
		}
		t.count(result)
	}
}

// inputRow is what one call of the reader came to.
type inputRow struct {
	corpus.Row
	header string
	err    error
}

// readAhead reads in a goroutine of its own, one row ahead, so that a signal is obeyed
// while standard input is silent. An error is the last it sends.
func readAhead(ctx context.Context, in *corpus.Reader) <-chan inputRow {
	rows := make(chan inputRow)
	go func() {
		for {
			row, err := in.Next()
			select {
			case rows <- inputRow{row, in.Header(), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return rows
}

// measureRow takes no context: the current block is always finished.
func measureRow(p *profiler.Profiler, row corpus.Row) (profiler.Result, error) {
	if row.Rejection != nil {
		return row.Rejected(), nil
	}
	return p.Profile(context.Background(), profiler.Block{Code: row.Code})
}

func (t *tally) count(r profiler.Result) {
	switch r.Status {
	case profiler.OK:
		t.ok++
	case profiler.Rejected:
		t.rejected++
		t.reasons[r.Reason]++
	default:
		t.failed++
	}
}

func (t *tally) blocks() int { return t.ok + t.rejected + t.failed }

// summary tells on stderr how the run went, the most frequent reason first.
func (t *tally) summary(w io.Writer) {
	fmt.Fprintf(w, "bbprof: %s in %v, %.1f blocks/s: %d ok, %d rejected, %d error\n",
		plural(t.blocks(), "block"), t.took.Round(10*time.Millisecond), float64(t.blocks())/t.took.Seconds(), t.ok, t.rejected, t.failed)
	if t.header != "" {
		fmt.Fprintf(w, "bbprof: line 1 was taken as a header, for its first column is the name %q\n", t.header)
	}
	reasons := slices.SortedFunc(maps.Keys(t.reasons), func(a, b verdict.Reason) int {
		return cmp.Or(cmp.Compare(t.reasons[b], t.reasons[a]), cmp.Compare(a, b))
	})
	for _, r := range reasons {
		fmt.Fprintf(w, "  %6d  %s\n", t.reasons[r], r)
	}
	if t.atStart != "" {
		fmt.Fprintf(w, "bbprof: selftest at start: %s\n", t.atStart)
	}
	if t.atEnd != "" {
		fmt.Fprintf(w, "bbprof: selftest at end: %s\n", t.atEnd)
	}
}

// exit tells how the run ended, if not at the end of its input, and gives the exit code.
func (t *tally) exit(std streams, err error) int {
	if err == nil {
		return exitOK
	}
	var (
		reading *readError
		writing *writeError
		code    int
	)
	switch {
	case errors.Is(err, errInterrupted):
		code = exitInterrupted
	case errors.As(err, &reading):
		err, code = fmt.Errorf("reading the input: %w", reading.error), exitUsage
	case errors.As(err, &writing):
		err, code = fmt.Errorf("writing the results: %w", writing.error), exitInternal
	default:
		code = exitOf(err)
	}
	fmt.Fprintf(std.err, "bbprof: %v, with %s done and written in full\n", err, plural(t.blocks(), "row"))
	return code
}
