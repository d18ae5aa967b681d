package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// batchFlags are what the user may say of a batch.
type batchFlags struct {
	measuring profiler.Options
	files     []string
	column    string

	workers   int
	retries   int
	unordered bool
	shard     batch.Shard

	output    string
	format    resultfile.Format // "" goes by the output's name
	resume    bool
	overwrite bool
	disasm    bool
	summary   string
}

// parseBatch reads the flags of bbprof batch. If done is true the command ends with code.
func parseBatch(args []string, std streams) (b batchFlags, code int, done bool) {
	f := newFlags("bbprof batch")
	measuring(f, &b.measuring)
	f.Func("cpus", "", f.Lookup("cpu").Value.Set)
	f.StringVar(&b.column, "column", "", "")
	f.IntVar(&b.workers, "workers", 0, "")
	f.IntVar(&b.retries, "retries", 2, "")
	f.BoolVar(&b.unordered, "unordered", false, "")
	f.Func("shard", "", func(s string) (err error) {
		b.shard, err = batch.ParseShard(s)
		return err
	})
	f.StringVar(&b.output, "o", "", "")
	formatFlag(f, &b.format)
	f.BoolVar(&b.resume, "resume", false, "")
	f.BoolVar(&b.overwrite, "overwrite", false, "")
	f.BoolVar(&b.disasm, "disasm", false, "")
	f.StringVar(&b.summary, "summary", "", "")
	b.files, code, done = parse(f, args, usageBatch, std)
	if done {
		return b, code, true
	}
	if b.output == "-" {
		b.output = ""
	}
	if err := b.check(); err != nil {
		return b, usageError(std, "batch: %v", err), true
	}
	if err := chooseFormat(&b.format, b.output, std); err != nil {
		return b, usageError(std, "batch: %v", err), true
	}
	b.measuring.Detail = b.disasm
	return b, 0, false
}

// formatFlag adds -format.
func formatFlag(f *flag.FlagSet, format *resultfile.Format) {
	f.Func("format", "", func(s string) (err error) {
		*format, err = parseName(s, resultfile.Formats())
		return err
	})
}

// check finds what does not go together.
func (b *batchFlags) check() error {
	toFile := b.output != ""
	switch {
	case len(b.files) == 0:
		return errors.New("0 files named; name one or more, or - for standard input")
	case b.workers < 0:
		return fmt.Errorf("-workers %d: write how many blocks to measure at a time, or 0 for one a core", b.workers)
	case b.retries < 0:
		return fmt.Errorf("-retries %d: write how often to measure a noisy block again, or 0", b.retries)
	case b.resume && !toFile:
		return errors.New("-resume goes on with a file; name it with -o")
	case b.resume && b.overwrite:
		return errors.New("-resume keeps what -overwrite would replace; choose one")
	case b.summary == "-" && !toFile:
		return errors.New("-summary - would mix with the results on standard output; name a file, or give the results one with -o")
	case strings.HasSuffix(b.output, ".gz"), strings.HasSuffix(b.output, ".zst"):
		return fmt.Errorf("-o %s: a compressed file cannot be gone on with; write another, and compress it with bbprof convert", b.output)
	}
	return b.measuring.Check()
}

// measureBatch measures every row of some files: bbprof batch.
func measureBatch(args []string, std streams) int {
	b, code, done := parseBatch(args, std)
	if done {
		return code
	}
	in, err := input.Open(b.files, std.in, b.column, resultfile.Reserved())
	if err != nil {
		return usageError(std, "batch: %v", err)
	}
	// Files are closed as they end. One that an interrupted run leaves open may still be waited on by
	// the goroutine that reads ahead, and ends with the process.
	for _, choice := range in.Choices() {
		fmt.Fprintf(std.err, "bbprof: %s\n", choice)
	}
	schema := resultfile.NewSchema(b.disasm, in.Carried())
	cpus, err := workerCPUs(b.measuring.CPUs, b.workers)
	if err != nil {
		return layoutFailure(std, err)
	}
	run, err := b.run(cpus)
	if err != nil {
		return failure(std, err)
	}
	if err := b.resolve(std.err); err != nil {
		return usageError(std, "batch: -o: %v", err)
	}
	dest, err := b.destination(in)
	if err != nil {
		return usageError(std, "batch: %v", err)
	}
	if dest.complete {
		fmt.Fprintf(std.err, "bbprof: %s is complete, for it is there and %s is not\n", b.output, dest.journal)
		return exitOK
	}
	if err := b.summaryFits(in); err != nil {
		return usageError(std, "batch: -summary: %v", err)
	}
	garbage := newCollector()
	// What there is of a result is looked at first, for it may be the wrong one. It is changed
	// last: a host that cannot measure must not cost an old result.
	var out *batch.Output
	if b.resume {
		if out, err = dest.resume(schema, run, std.err); err != nil {
			return usageError(std, "batch: -resume: %v", err)
		}
	}
	workers, err := startWorkers(b.measuring, cpus)
	if err != nil {
		return failure(std, err)
	}
	defer workers.close()

	// With SIGPIPE ignored a closed pipe is a write error like any other.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := untilSignal() // blocks in flight are finished
	defer stop()

	end := batchEnd{flags: b, args: args, in: in, std: std}
	end.atStart = workers.selftestAtStart(ctx, std.err, b.measuring.Unroll != nil)
	run.Selftest, run.Clock = end.atStart, workers.clock()
	if out == nil {
		var writing *batch.WriteError
		if out, err = dest.create(schema, std.out); errors.As(err, &writing) {
			return end.exit(err)
		} else if err != nil {
			return usageError(std, "batch: %v", err)
		}
	}
	watch := newWatch(std.err, in.Size())
	garbage.adjust()
	end.tally, err = batch.Run(ctx, in, out, batch.Options{
		Workers: workers.measurers(), Retries: b.retries, Shard: b.shard, Run: run,
		Progress: func(p batch.Progress) { garbage.adjust(); watch.show(p) },
	})
	watch.end()
	garbage.rest()
	defer out.Close()
	var displaced *batch.DisplacedError
	if flushErr := out.Flush(); err == nil || errors.As(flushErr, &displaced) { // which says where the rows are
		err = flushErr
	}
	end.held = out.Held()
	if err == nil {
		err = dest.finish(out)
	}
	if err == nil {
		end.atEnd = workers.selftest(ctx)
	}
	end.run = run
	return end.exit(err)
}

// batchEnd is what is told at the end.
type batchEnd struct {
	flags batchFlags
	args  []string
	in    *input.Input
	std   streams

	run            resultfile.Run
	tally          batch.Tally
	held           int64
	atStart, atEnd string // the selftests, if they were run
}

// exit tells how the run went, and, if it did not reach its end, why and how to go on.
func (e *batchEnd) exit(err error) int {
	e.report()
	code := e.why(err)
	if summaryErr := e.writeSummary(); summaryErr != nil {
		fmt.Fprintf(e.std.err, "bbprof: writing the summary: %v\n", summaryErr)
		if code == exitOK {
			code = exitInternal
		}
	}
	return code
}

func (e *batchEnd) report() {
	e.tally.Report(e.std.err)
	for file, name := range e.in.Headers() {
		of := ""
		if len(e.flags.files) > 1 {
			of = " of " + file
		}
		fmt.Fprintf(e.std.err, "bbprof: line 1%s was taken as a header, for its column of blocks has the name %q\n", of, name)
	}
	if n := e.in.Surplus(); n > 0 {
		fmt.Fprintf(e.std.err, "bbprof: warning: %s had more columns than the first line, and these were dropped\n", plural(int(n), "row"))
	}
	if e.atStart != "" {
		fmt.Fprintf(e.std.err, "bbprof: selftest at start: %s\n", e.atStart)
	}
	if e.atEnd != "" {
		fmt.Fprintf(e.std.err, "bbprof: selftest at end: %s\n", e.atEnd)
	}
}

// why says what ended the run, if not the end of its input, and gives the exit code.
func (e *batchEnd) why(err error) int {
	if n := e.tally.Rows; err == nil && n > 0 && e.tally.Reasons[string(verdict.BadHex)] == n && e.flags.shard.Count <= 1 {
		return usageError(e.std, "batch: no row has a block in its column, so nothing was measured; -column names another column")
	}
	if err == nil {
		return exitOK
	}
	var (
		reading  *input.ReadError
		mismatch *batch.MismatchError
		writing  *batch.WriteError
		code     int
	)
	switch {
	case errors.Is(err, batch.ErrInterrupted):
		code = exitInterrupted
	case errors.As(err, &mismatch):
		code = exitUsage
	case errors.As(err, &reading):
		err, code = fmt.Errorf("reading the input: %w", err), exitUsage
	case errors.As(err, &writing):
		err, code = fmt.Errorf("writing the results: %w", err), exitInternal
	default:
		code = exitOf(err)
	}
	if displaced := (*batch.DisplacedError)(nil); errors.As(err, &displaced) {
		fmt.Fprintf(e.std.err, "bbprof: %v\n", err)
		e.afterDisplaced(displaced)
		return code
	}
	fmt.Fprintf(e.std.err, "bbprof: %v, with %s done and written in full\n", err, plural(int(e.tally.Rows-e.held), "row"))
	if e.flags.output != "" && mismatch == nil {
		fmt.Fprintf(e.std.err, "bbprof: to go on where it stopped: %s\n", goOn(os.Args[0], e.args))
	}
	return code
}

// afterDisplaced says how to go on where rows can be gone on with by their own format.
func (e *batchEnd) afterDisplaced(d *batch.DisplacedError) {
	switch {
	case d.Rows == "":
	case d.Rows == e.flags.output:
		fmt.Fprintf(e.std.err, "bbprof: to go on with what is left: %s\n", goOn(os.Args[0], e.args))
	case e.flags.format.Appends():
		fmt.Fprintf(e.std.err, "bbprof: to go on with them: bbprof batch -resume -format %s -o %s and the other arguments as before\n", e.flags.format, quoted(d.Rows))
	}
}

// goOn is the command that goes on with a run.
func goOn(program string, args []string) string {
	words := []string{quoted(program), "batch", "-resume"}
	for _, a := range args {
		switch strings.TrimLeft(a, "-") {
		case "resume", "resume=true", "overwrite", "overwrite=true":
			if strings.HasPrefix(a, "-") {
				continue
			}
		}
		words = append(words, quoted(a))
	}
	return strings.Join(words, " ")
}

// quoted is a word for a POSIX shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=,:+%@", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// summaryJSON is what -summary writes.
type summaryJSON struct {
	Run             resultfile.Run `json:"run"`
	Tally           batch.Tally    `json:"result"`
	BlocksPerSecond float64        `json:"blocks_per_second"`
	SelftestAtStart string         `json:"selftest_at_start"`
	SelftestAtEnd   string         `json:"selftest_at_end,omitempty"`
}

func (e *batchEnd) writeSummary() error {
	if e.flags.summary == "" {
		return nil
	}
	text, err := json.MarshalIndent(summaryJSON{e.run, e.tally, e.tally.Rate(), e.atStart, e.atEnd}, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if e.flags.summary == "-" {
		_, err = e.std.out.Write(text)
		return err
	}
	return os.WriteFile(e.flags.summary, text, 0o666)
}

// summaryFits finds out now whether the summary can be written, which is hours later.
func (b *batchFlags) summaryFits(in *input.Input) error {
	if b.summary == "" || b.summary == "-" {
		return nil
	}
	info, err := os.Stat(b.summary)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory; name a file", b.summary)
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe is opened once
	case err == nil && in.Holds(info):
		return fmt.Errorf("%s is the input itself; name another file", b.summary)
	case b.summary == b.output || err == nil && sameFile(info, b.output):
		return fmt.Errorf("%s is the result itself; name another file", b.summary)
	}
	return writable(b.summary)
}

func sameFile(a os.FileInfo, name string) bool {
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// run describes the run, but for its selftest.
func (b *batchFlags) run(cpus host.Layout) (resultfile.Run, error) {
	settings, err := resultfile.SettingsOf(b.measuring)
	return resultfile.Run{
		Version: versionText(), Host: resultfile.HostOf(host.Detect()), Settings: settings, Shard: b.shard.String(),
		Kernel: host.Kernel(), Workers: cpus.Workers, Inputs: b.files, Started: now(),
	}, err
}

// destination is where the results go.
type destination struct {
	path      string // the result
	journal   string // where rows are gathered, which is the result itself if that can be appended to
	format    resultfile.Format
	special   bool // the result is a pipe or a device
	unordered bool
	overwrite bool
	complete  bool // it is there already, and nothing is left to do
}

// resolve makes of a symbolic link that -o names the file that it leads to, and says so.
func (b *batchFlags) resolve(stderr io.Writer) error {
	if info, err := os.Stat(b.output); err == nil && !info.Mode().IsRegular() {
		return nil // such as /dev/stdout, which is a link
	}
	to, err := resultfile.ResolveLink(b.output)
	if err == nil && to != b.output {
		fmt.Fprintf(stderr, "bbprof: -o %s is a symbolic link; the results go to %s\n", b.output, to)
		b.output = to
	}
	return err
}

func (b *batchFlags) destination(in *input.Input) (d destination, err error) {
	d = destination{path: b.output, journal: b.output, format: b.format, unordered: b.unordered, overwrite: b.overwrite}
	if d.path == "" {
		return d, nil
	}
	info, statErr := os.Stat(d.path)
	switch {
	case statErr == nil && in.Holds(info):
		return d, fmt.Errorf("-o %s is the input itself; name another file", d.path)
	case statErr == nil && info.IsDir():
		return d, fmt.Errorf("-o %s is a directory; name a file", d.path)
	case statErr == nil && !info.Mode().IsRegular():
		d.special = true
		if b.resume {
			return d, fmt.Errorf("-o %s is no file that could be gone on with", d.path)
		}
		return d, nil
	}
	there := statErr == nil && info.Size() > 0
	if !d.format.Appends() {
		d.journal += ".journal"
		_, err := os.Lstat(d.journal)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // such as a name that is too long
			return d, fmt.Errorf("-o %s: rows are gathered in a file beside it: %w", d.path, err)
		}
		d.complete = b.resume && there && err != nil
	}
	if there && !b.resume && !b.overwrite {
		return d, fmt.Errorf("-o %s: it is there already, with %d bytes; -resume goes on with it, -overwrite replaces it", d.path, info.Size())
	}
	return d, nil
}

// gathered is the format of the journal.
func (d destination) gathered() resultfile.Format {
	if d.format.Appends() {
		return d.format
	}
	return resultfile.CSV
}

// resume goes on with what is there.
func (d destination) resume(schema resultfile.Schema, run resultfile.Run, stderr io.Writer) (*batch.Output, error) {
	out, torn, err := batch.Resume(d.journal, d.gathered(), schema, run)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "bbprof: going on with %s, which has %s\n", d.journal, plural(int(out.Earlier()), "row"))
	if torn > 0 {
		fmt.Fprintf(stderr, "bbprof: dropped %d bytes of a row that was not written in full\n", torn)
	}
	return out, nil
}

// create begins anew.
func (d destination) create(schema resultfile.Schema, stdout io.Writer) (*batch.Output, error) {
	switch {
	case d.path == "":
		return batch.Pipe(stdout, d.format, schema, d.unordered)
	case d.special:
		f, err := os.OpenFile(d.path, os.O_WRONLY, 0) // closed when the process ends
		if err != nil {
			return nil, err
		}
		return batch.Pipe(f, d.format, schema, d.unordered)
	}
	return batch.Create(d.journal, d.gathered(), schema, d.overwrite)
}

// finish puts the rows in order, and into a format that cannot be appended to.
func (d destination) finish(out *batch.Output) error {
	if !d.unordered {
		if err := out.Sort(); err != nil {
			return err
		}
	}
	if d.journal == d.path || d.path == "" || d.special {
		return nil
	}
	if err := out.InPlace(); err != nil {
		return err
	}
	if err := convertFile([]string{d.journal}, d.path, d.format); err != nil {
		return &convertError{err}
	}
	if err := out.InPlace(); err != nil {
		return nil // it is another run's journal by now
	}
	return os.Remove(d.journal)
}

// convertError says that the results are there, and that their last step failed.
type convertError struct{ error }
