package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// batchCommand measures every row of some files.
func batchCommand() *command {
	return &command{
		name:     "batch",
		summary:  "measure every row of some files and write a row of results for each",
		synopsis: []string{"batch [flags] FILE...  (- is standard input)"},
		about: `Each line is a row of comma-separated columns, one of which is a block in hexadecimal; files
may be compressed with gzip or zstd. A first line with a name where the block should be is a
header. A row that is not a block is rejected as bad_hex, with its line number, and the run goes
on. A block that comes again is not measured again. All other columns are copied.

Workers measure side by side, one on each physical core that this process may use, and leave
a core's second hardware thread idle. A block that was rejected for noise (unstable,
clock_drift, context_switch) is measured again when the rest is done, by another worker.

With -o a row is in the file as soon as its block is done, and when all are, the file is put
in the order of the input. Whatever ends the run before that, bbprof batch -resume with the
same arguments continues it. Ctrl-C ends it after the blocks in progress and prints that
command; a second one ends it at once.
`,
		notes: `The columns are described in docs/results.md. The first are
  hex,status,reason,cycles,ci_low,ci_high,...
where status is ok, rejected or error, cycles are core cycles per iteration, and ci_low to
ci_high is their 95 % interval. What is not known is empty.

A summary goes to standard error, with the results of four blocks whose time is known, measured on
each worker before the first row and after the last (bbprof selftest). If they fail, that is said at
once, and the run goes on.
`,
		examples: `bbprof batch -o results.csv blocks.csv               continue after a power cut by adding -resume
bbprof batch -column asm_hex -o r.parquet a.csv.zst b.csv.gz
bbprof batch -shard 0/4 -o part0.csv blocks.csv      one of four machines
cut -d, -f1 blocks.csv | head -100 | bbprof batch -
`,
		exits: map[int]string{exitOK: "the end was reached, whatever the verdicts", exitUsage: "bad usage, or the input cannot be read",
			exitHost: "", exitInternal: "",
			exitInterrupted: "interrupted (SIGINT, SIGTERM): blocks in progress were finished; a second signal ends at once"},
		setup: func(f *flags) func(streams) error {
			b := batchFlags{flags: f, retries: 2}
			b.declare(f)
			return b.measure
		},
	}
}

// batchFlags are what the user may say of a batch.
type batchFlags struct {
	flags     *flags
	measuring profiler.Options
	files     []string
	column    string

	workers   int
	retries   int
	unordered bool
	shard     batch.Shard

	out       output
	format    resultfile.Format // "" goes by the output's name
	resume    bool
	overwrite bool
	disasm    bool
	syntax    assemble.Syntax
	summary   string
}

func (b *batchFlags) declare(f *flags) {
	f.operands = &b.files
	f.section("Input")
	f.text(&b.column, "column", "C", "the column of blocks: its name, or its number from 1 (default: the one called hex, else the first)")
	parsed(f, &b.shard, batch.ParseShard, "shard", "I/N", "only part I, from 0, of N parts of the corpus, by a hash of the block; the "+
		"parts' results are joined by bbprof merge")
	f.section("Output")
	f.text(&b.out.file, "o", "FILE", "write to FILE instead of standard output, which is also -")
	formatFlag(f, &b.format)
	f.toggle(&b.resume, "resume", "continue FILE, if it is there: CPU, settings, input and bbprof must be the same")
	f.toggle(&b.overwrite, "overwrite", "replace FILE, if it is there")
	f.toggle(&b.unordered, "unordered", "leave rows in the order in which their blocks were done")
	f.toggle(&b.disasm, "disasm", "add a column with the block's instructions")
	syntaxFlag(f, &b.syntax, "that column")
	f.text(&b.summary, "summary", "FILE", "write what the summary on standard error says as JSON too")
	f.toggle(&b.out.quiet, "q", "quiet: no progress and no summary on standard error, only warnings and errors")
	f.section("Workers")
	f.number(&b.workers, 0, "workers", "N", "measure N blocks at a time").fallback = "one a physical core, and no more than the cgroup leaves CPU time for"
	f.number(&b.retries, 0, "retries", "N", "measure a noisy block up to N times more")
	measuring(f, &b.measuring)
	f.lookup("cpus").help = "CPUs to measure on, such as 0-3,8: a worker on each of the first N cores; the others are moved to when one is " +
		"busy (default: all allowed, the last first)"
}

// check finds what does not go together.
func (b *batchFlags) check(std streams) error {
	if b.out.file == "-" {
		b.out.file = ""
	}
	toFile := b.out.file != ""
	switch {
	case len(b.files) == 0:
		return badUsage("no file named; name one or more, or - for standard input")
	case b.resume && !toFile:
		return badUsage("-resume continues a file; name it with -o")
	case b.resume && b.overwrite:
		return badUsage("-resume keeps what -overwrite would replace; choose one")
	case b.summary == "-" && !toFile:
		return badUsage("-summary - would mix with the results on standard output; name a file, or give the results one with -o")
	case strings.HasSuffix(b.out.file, ".gz"), strings.HasSuffix(b.out.file, ".zst"):
		return badUsage("-o %s: cannot resume into a compressed file; write another, and compress it with bbprof convert", b.out.file)
	}
	if err := b.measuring.Check(); err != nil {
		return &usageError{err}
	}
	if err := chooseFormat(&b.format, b.out.file, std); err != nil {
		return err
	}
	b.measuring.Detail = b.disasm
	return nil
}

// batchJob is a batch about to run: what it reads, where it writes, with what.
type batchJob struct {
	in     *input.Input
	schema resultfile.Schema
	cpus   host.Layout
	run    resultfile.Run
	dest   destination
	out    *batch.Output // nil until it is known that this host can measure
}

// prepare finds out all that can be known before measuring. An old result is read first, for it may
// be the wrong one, and changed last: a host that cannot measure must not cost it.
func (b *batchFlags) prepare(std streams) (j batchJob, err error) {
	if err := b.check(std); err != nil {
		return j, err
	}
	if j.in, err = input.Open(b.files, std.in, b.column, resultfile.Reserved()); err != nil {
		return j, &usageError{err}
	}
	// Files are closed as they end. One that an interrupted run leaves open may still be waited on by
	// the goroutine that reads ahead, and ends with the process.
	for _, choice := range j.in.Choices() {
		fmt.Fprintf(b.out.notes(std), "bbprof: %s\n", choice)
	}
	j.schema = resultfile.NewSchema(b.disasm, j.in.Carried())
	if j.cpus, err = workerCPUs(b.measuring.CPUs, b.workers); err != nil {
		return j, err
	}
	if j.run, err = b.describe(j.cpus); err != nil {
		return j, err
	}
	if err := b.resolve(std.err); err != nil {
		return j, badUsage("-o: %w", err)
	}
	if j.dest, err = b.destination(j.in); err != nil {
		return j, &usageError{err}
	}
	if j.dest.complete {
		fmt.Fprintf(b.out.notes(std), "bbprof: %s is already complete; nothing to resume\n", b.out.file)
		return j, exit(exitOK)
	}
	if err := b.summaryFits(j.in); err != nil {
		return j, badUsage("-summary: %w", err)
	}
	if b.resume {
		if j.out, err = j.dest.resume(j.schema, j.run, b.out.notes(std)); err != nil {
			return j, badUsage("-resume: %w", err)
		}
	}
	return j, nil
}

// measure is bbprof batch.
func (b *batchFlags) measure(std streams) error {
	garbage := newCollector()
	j, err := b.prepare(std)
	if err != nil {
		return err
	}
	workers, err := startWorkers(b.measuring, j.cpus)
	if err != nil {
		return err
	}
	defer workers.close()

	// With SIGPIPE ignored a closed pipe is a write error like any other.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := untilSignal() // blocks in progress are finished
	defer stop()

	end := batchEnd{flags: b, in: j.in, std: std}
	end.atStart = workers.selftestAtStart(ctx, std.err, b.measuring.Unroll != nil)
	j.run.Selftest, j.run.Clock = end.atStart, workers.clock()
	if j.out == nil {
		var writing *batch.WriteError
		if j.out, err = j.dest.create(j.schema, std.out); errors.As(err, &writing) {
			return end.exit(err)
		} else if err != nil {
			return &usageError{err}
		}
	}
	watch := newWatch(b.out.notes(std), j.in.Size())
	garbage.adjust()
	end.tally, err = batch.Run(ctx, j.in, j.out, batch.Options{
		Workers: listingIn(workers.measurers(), b.syntax), Retries: b.retries, Shard: b.shard, Run: j.run,
		Progress: func(p batch.Progress) { garbage.adjust(); watch.show(p) },
	})
	watch.end()
	garbage.rest()
	defer j.out.Close()
	var displaced *batch.DisplacedError
	if flushErr := j.out.Flush(); err == nil || errors.As(flushErr, &displaced) { // which says where the rows are
		err = flushErr
	}
	end.held = j.out.Held()
	if err == nil {
		err = j.dest.finish(j.out)
	}
	if err == nil {
		end.atEnd = workers.selftest(ctx)
	}
	end.run = j.run
	return end.exit(err)
}

// batchEnd is what is told at the end.
type batchEnd struct {
	flags *batchFlags
	in    *input.Input
	std   streams

	run            resultfile.Run
	tally          batch.Tally
	held           int64
	atStart, atEnd string // the selftests, if they were run
}

// exit tells how the run went, and, if it did not reach its end, why and how to continue.
func (e *batchEnd) exit(err error) error {
	pipe := errors.Is(err, syscall.EPIPE) // head has had enough
	if !pipe {
		e.report(e.flags.out.notes(e.std))
		err = e.why(err)
	}
	if summaryErr := e.writeSummary(); summaryErr != nil {
		fmt.Fprintf(e.std.err, "bbprof: writing the summary: %v\n", summaryErr)
		if err == nil {
			err = exit(exitInternal)
		}
	}
	return err
}

func (e *batchEnd) report(w io.Writer) {
	e.tally.Report(w)
	for file, name := range e.in.Headers() {
		of := ""
		if len(e.flags.files) > 1 {
			of = " of " + file
		}
		fmt.Fprintf(w, "bbprof: line 1%s was taken as a header, for its column of blocks holds the name %s\n", of, name)
	}
	if n := e.in.Surplus(); n > 0 {
		fmt.Fprintf(w, "bbprof: warning: %s had more columns than the first line, and these were dropped\n", plural(int(n), "row"))
	}
	if e.atStart != "" {
		fmt.Fprintf(w, "bbprof: selftest at start: %s\n", e.atStart)
	}
	if e.atEnd != "" {
		fmt.Fprintf(w, "bbprof: selftest at end: %s\n", e.atEnd)
	}
}

// why says what ended the run, if not the end of its input, and ends with its exit code.
func (e *batchEnd) why(err error) error {
	if n := e.tally.Rows; err == nil && n > 0 && e.tally.Reasons[string(verdict.BadHex)] == n && e.flags.shard.Count <= 1 {
		return badUsage("no row has a block in its column, so nothing was measured; -column names another column")
	}
	if err == nil {
		return nil
	}
	var (
		reading  *input.ReadError
		mismatch *batch.MismatchError
		writing  *batch.WriteError
		code     exit
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
		code = exit(exitOf(err))
	}
	if displaced := (*batch.DisplacedError)(nil); errors.As(err, &displaced) {
		fmt.Fprintf(e.std.err, "bbprof: %v\n", err)
		e.afterDisplaced(displaced)
		return code
	}
	fmt.Fprintf(e.std.err, "bbprof: %v, with %s done and written in full\n", err, plural(int(e.tally.Rows-e.held), "row"))
	if e.flags.out.file != "" && mismatch == nil {
		fmt.Fprintf(e.std.err, "bbprof: to continue where it stopped: %s\n", goOn(os.Args[0], e.flags.flags.args))
	}
	return code
}

// afterDisplaced says how to continue where rows can be continued by their own format.
func (e *batchEnd) afterDisplaced(d *batch.DisplacedError) {
	switch {
	case d.Rows == "":
	case d.Rows == e.flags.out.file:
		fmt.Fprintf(e.std.err, "bbprof: to continue with what is left: %s\n", goOn(os.Args[0], e.flags.flags.args))
	case e.flags.format.Appends():
		fmt.Fprintf(e.std.err, "bbprof: to continue with them: bbprof batch -resume -format %s -o %s and the other arguments as before\n", e.flags.format, quoted(d.Rows))
	}
}

// goOn is the command that continues a run.
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
	case b.summary == b.out.file || err == nil && sameFile(info, b.out.file):
		return fmt.Errorf("%s is the result itself; name another file", b.summary)
	}
	return writable(b.summary)
}

func sameFile(a os.FileInfo, name string) bool {
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}

// describe tells of the run, except its selftest.
func (b *batchFlags) describe(cpus host.Layout) (resultfile.Run, error) {
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
	if info, err := os.Stat(b.out.file); err == nil && !info.Mode().IsRegular() {
		return nil // such as /dev/stdout, which is a link
	}
	to, err := resultfile.ResolveLink(b.out.file)
	if err == nil && to != b.out.file {
		fmt.Fprintf(stderr, "bbprof: -o %s is a symbolic link; the results go to %s\n", b.out.file, to)
		b.out.file = to
	}
	return err
}

func (b *batchFlags) destination(in *input.Input) (d destination, err error) {
	d = destination{path: b.out.file, journal: b.out.file, format: b.format, unordered: b.unordered, overwrite: b.overwrite}
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
			return d, fmt.Errorf("-o %s is not a file that a run could continue", d.path)
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
		return d, fmt.Errorf("-o %s: it is there already, with %d bytes; -resume continues it, -overwrite replaces it", d.path, info.Size())
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
	fmt.Fprintf(stderr, "bbprof: continuing %s, which has %s\n", d.journal, plural(int(out.Earlier()), "row"))
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
