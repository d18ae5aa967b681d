package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/assemble"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/batch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/host/selftest"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/rowflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/unroll"
)

func batchCommand() *cli.Command {
	return &cli.Command{
		Name:     "batch",
		Summary:  "measure every row of some files and write a row of results for each",
		Synopsis: []string{"batch [flags] FILE...  (- is standard input)"},
		About: `Each line is a row of comma-separated columns, one of which is a block in hexadecimal; files may be
compressed with gzip or zstd, or be Parquet. A row that is not a block is rejected as bad_hex, and
the run goes on. A repeated block is measured once. All other columns are copied.

One worker measures on each physical core that this process may use. A block that was rejected for
noise (busy_core, unstable, clock_drift, context_switch) is measured again at the end, by another
worker. Known blocks between the rows tell whether a core was busy. With -o a row is in the file as
soon as its block is done; at the end the rows are sorted. Whatever ends the run before that, the
same command with -resume continues it.
Ctrl-C ends it after the blocks in progress; a second one ends it at once.
`,
		Notes: `docs/corpus.md shows shards and Slurm; docs/reference.md explains the columns.
`,
		Examples: `bbprof batch -o results.csv blocks.csv               continue after a power cut by adding -resume
bbprof batch -column asm_hex -o r.parquet a.csv.zst b.csv.gz
`,
		Exits: map[int]string{cli.ExitOK: "the end was reached, whatever became of the blocks", cli.ExitUsage: "bad usage, or the input cannot be read",
			cli.ExitHost: "", cli.ExitInternal: "",
			cli.ExitInterrupted: "interrupted (SIGINT, SIGTERM): blocks in progress were finished; a second signal ends at once"},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			b := batchFlags{flags: f}
			b.declare(f)
			return b.measure
		},
	}
}

type batchFlags struct {
	blockflags.SideBySide
	flags  *cli.Flags
	files  []string
	column string
	state  string // file of captured states

	unordered bool
	shard     batch.Shard
	array     bool // the shard is a task's of a job array

	out       cli.Output
	format    resultfile.Format // "" follows from the output's name
	resume    bool
	overwrite bool
	columns   []string
	disasm    bool
	mapping   bool
	syntax    assemble.Syntax
	summary   string
}

func (b *batchFlags) declare(f *cli.Flags) {
	f.Operands = &b.files
	f.Section("Input")
	f.Text(&b.column, "column", "C", "the column of blocks: its name, or its number from 1 (default: hex, else another usual name such as code, else the first that holds blocks)")
	f.Text(&b.state, "state", "FILE", "start each row's block from the state of a program that bbprof capture wrote to FILE and that the column "+
		"state names; without another file, the rows are all states of FILE")
	cli.Parsed(f, &b.shard, b.parseShard, "shard", "I/N", "only part I, from 0, of N parts of the corpus, by a hash of the block; the "+
		"parts' results are joined by bbprof convert. auto: the part of this task of a Slurm job array that is numbered from 0, with no more "+
		"workers than the task has CPUs (docs/corpus.md)")
	f.Section("Output")
	f.Text(&b.out.File, "o", "FILE", "write to FILE instead of standard output, which is also -")
	rowflags.FormatFlag(f, &b.format)
	f.Toggle(&b.resume, "resume", "continue FILE, if it is there: CPU, settings, input and bbprof must be the same")
	f.Toggle(&b.overwrite, "overwrite", "replace FILE, if it is there")
	f.Toggle(&b.unordered, "unordered", "leave rows in the order in which their blocks were done")
	columnsFlag(f, &b.columns)
	f.Toggle(&b.disasm, "disasm", "add a column with the block's instructions")
	blockflags.SyntaxFlag(f, &b.syntax, "that column")
	f.Toggle(&b.mapping, "mapping", "add a column with the addresses of the pages that the block needs; format gematria-state does so itself")
	cli.OutputFile(f, &b.summary, "summary", "FILE", "write what the summary on standard error says as JSON too")
	f.Toggle(&b.out.Quiet, "q", "quiet: no progress and no summary on standard error, only warnings and errors")
	f.Section("Layouts")
	blockflags.LayoutFlags(f, &b.Measuring)
	b.SideBySide.Declare(f)
	f.Lookup("o").Writes = true
	f.Lookup("cpus").Help = "CPUs to measure on, such as 0-3,8: a worker on each of the first N cores; the others are moved to when one is " +
		"busy (default: all allowed of the fastest kind of core, the last first)"
}

func (b *batchFlags) parseShard(s string) (batch.Shard, error) {
	if b.array = s == "auto"; b.array {
		return batch.ArrayShard(os.Getenv)
	}
	return batch.ParseShard(s)
}

func (b *batchFlags) cpus() (host.Layout, error) {
	l, err := blockflags.WorkerCPUs(b.Measuring.CPUs, b.Workers)
	if err != nil || !b.array || b.Workers > 0 {
		return l, err
	}
	if n := batch.ArrayWorkers(os.Getenv); 0 < n && n < len(l.Workers) {
		return blockflags.WorkerCPUs(b.Measuring.CPUs, n)
	}
	return l, nil
}

func (b *batchFlags) check(std cli.Streams) error {
	if b.out.File == "-" {
		b.out.File = ""
	}
	toFile := b.out.File != ""
	switch {
	case len(b.files) == 0 && b.state == "":
		return cli.BadUsage("no file named; name one or more, or - for standard input")
	case b.state != "" && (b.Measuring.Init != "" || len(b.Measuring.Set) > 0):
		return cli.BadUsage("-state sets the whole initial state; leave -init and -set out")
	case b.resume && !toFile:
		return cli.BadUsage("-resume continues a file; name it with -o")
	case b.resume && b.overwrite:
		return cli.BadUsage("-resume keeps what -overwrite would replace; choose one")
	case b.summary == "-" && !toFile:
		return cli.BadUsage("-summary - would mix with the results on standard output; name a file, or give the results one with -o")
	case b.summary != "" && filepath.Clean(b.summary) == filepath.Clean(b.out.File):
		return cli.BadUsage("-summary: %s is the result itself; name another file", b.summary)
	case strings.HasSuffix(b.out.File, ".gz"), strings.HasSuffix(b.out.File, ".zst"):
		return cli.BadUsage("-o %s: batch appends each row to its file, which cannot be compressed; write another, and compress it with bbprof convert", b.out.File)
	}
	if err := b.Measuring.Check(); err != nil {
		return cli.Usage(err)
	}
	if err := rowflags.ChooseFormat(&b.format, b.out.File, std); err != nil {
		return err
	}
	if b.format == resultfile.Exegesis {
		return cli.BadUsage("-format exegesis is a file a block: measure with -mapping, then bbprof convert -format exegesis -o DIR/")
	}
	b.mapping = b.mapping || b.format.NeedsMapping()
	b.Measuring.Detail = b.disasm || b.mapping
	return nil
}

// batchJob is a batch about to run: its inputs, output and settings.
type batchJob struct {
	in     *input.Input
	states *states.Reader // nil if blocks start from bbprof's own states
	schema resultfile.Schema
	cpus   host.Layout
	run    resultfile.Run
	dest   destination
	out    *batch.Output // nil until this host is known to measure
}

// prepare checks all that it can before measuring. It reads an old result first, which may be the wrong one, and
// changes it last, after this host proved able to measure.
func (b *batchFlags) prepare(std cli.Streams) (j batchJob, err error) {
	if err := b.check(std); err != nil {
		return j, err
	}
	if j.states, j.in, err = b.openStates(std); err != nil {
		return j, cli.Usage(err)
	}
	// Files are closed at their end. One left open by an interrupt may still block the goroutine that reads ahead, and
	// closes with the process.
	for _, choice := range j.in.Choices() {
		fmt.Fprintf(b.out.Notes(std), "bbprof: %s\n", choice)
	}
	j.schema = resultfile.NewSchema(b.disasm, j.in.Carried())
	if b.mapping {
		j.schema = j.schema.WithMapping()
	}
	if _, _, err := j.schema.Select(b.columns); err != nil {
		return j, cli.BadUsage("-columns: %w", err)
	}
	if j.cpus, err = b.cpus(); err != nil {
		return j, err
	}
	j.run = b.describe(j.cpus)
	if err := b.resolve(std.Err); err != nil {
		return j, cli.BadUsage("-o: %w", err)
	}
	if j.dest, err = b.destination(); err != nil {
		return j, cli.Usage(err)
	}
	if j.dest.complete {
		busy, err := j.finished(b.shard, std.Err)
		switch {
		case err != nil:
			return j, cli.BadUsage("-resume: %w", err)
		case busy == 0 || len(b.columns) > 0:
			fmt.Fprintf(b.out.Notes(std), "bbprof: %s is already complete; nothing to resume\n", b.out.File)
			return j, cli.Exit(cli.ExitOK)
		}
		fmt.Fprintf(b.out.Notes(std), "bbprof: %s is complete but for %s of a busy core\n", b.out.File, words.Plural(busy, "row"))
		rows := convertCmd{files: []string{b.out.File}, format: resultfile.CSV}
		if err := cli.WriteWhole(j.dest.journal, func(w io.Writer) error { return rows.convert(w, nil) }); err != nil {
			return j, err
		}
		if j.states, j.in, err = b.openStates(std); err != nil {
			return j, cli.Usage(err)
		}
	}
	if b.resume {
		if j.out, err = j.dest.resumed(j.schema, j.run, b.out.Notes(std)); err != nil {
			return j, cli.BadUsage("-resume: %w", err)
		}
	}
	return j, nil
}

// finished checks that this run would have made the complete result.
func (j *batchJob) finished(shard batch.Shard, stderr io.Writer) (busy int, err error) {
	schema := j.schema
	if len(j.dest.columns) > 0 {
		schema, _, _ = j.schema.Select(j.dest.columns)
	}
	busy, unchecked, err := batch.Finished(j.dest.out.File, j.dest.format, schema, j.in, shard, j.run)
	for _, what := range unchecked {
		fmt.Fprintf(stderr, "bbprof: warning: %s: %s\n", j.dest.out.File, what)
	}
	return busy, err
}

func (b *batchFlags) measure(std cli.Streams) error {
	j, err := b.prepare(std)
	if err != nil {
		return err
	}
	// If SIGPIPE is ignored, a closed pipe is an ordinary write error.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := cli.UntilSignal() // blocks in progress are finished
	defer stop()
	workers, err := blockflags.StartWorkers(ctx, std, b.Measuring, j.cpus)
	if err != nil {
		return err
	}
	defer workers.Close()

	end := batchEnd{flags: b, in: j.in, std: std, resumable: j.dest.out.File != "" && !j.dest.special}
	end.atStart = workers.SelftestAtStart(ctx, host.Detect(j.cpus.CPUs()...), std.Err, b.Measuring.Unroll != nil)
	clock, _ := workers[0].Clock() // all cores are of one kind, so the clocks are the same
	j.run.Selftest, j.run.Clock = end.atStart, string(clock)
	if j.out == nil {
		var writing *batch.WriteError
		if j.out, err = j.dest.create(j.schema, std.Out); errors.As(err, &writing) {
			return end.exit(err)
		} else if err != nil {
			return cli.Usage(err)
		}
	}
	watch := newWatch(b.out.Notes(std), j.in.Size())
	options := batch.Options{
		Workers: workers.Measurers(), Retries: b.Retries, Set: b.Measuring.Set, Shard: b.shard, Run: j.run, Progress: watch.show,
		Finish: func(r *profiler.Result) { blockflags.InSyntax(r, b.syntax) },
	}
	if j.states != nil {
		defer j.states.Close()
		options.Visit = visitOf(j.in)
		options.Prepare = func(block *profiler.Block) error { return startFrom(j.states, block) }
	}
	if options.Controls, err = b.controls(host.Detect(j.cpus.CPUs()...)); err != nil {
		return err
	}
	end.tally, err = batch.Run(ctx, j.in, j.out, options)
	if n := end.tally.Void; err == nil && n > 0 {
		err = b.again(ctx, &j, options, &end)
	}
	watch.End()
	defer func() { j.out.Close() }()
	var displaced *batch.DisplacedError
	if flushErr := j.out.Flush(); err == nil || errors.As(flushErr, &displaced) { // reports where the rows are
		err = flushErr
	}
	end.held = j.out.Held()
	if err == nil {
		header := j.run.String()
		j.run.Controls = end.tally.Controls
		j.out.Ended(header, j.run.String())
		err = j.dest.finish(j.out)
	}
	end.run = j.run
	return end.exit(err)
}

// controls are measured in one way whatever the rows' is, so that what is known of them holds.
func (b *batchFlags) controls(c host.CPU) (list []batch.Control, err error) {
	known, err := selftest.Controls(c.Microarchitecture)
	paper := initial.Paper()
	setup := profiler.Setup{Init: &paper, Mode: profiler.Unroll, FrontEnd: profiler.OpCache}
	if b.Measuring.Unroll != nil || b.Measuring.Init == initial.BHive {
		setup.Unroll = &unroll.Factors{Short: 64, Long: 192}
	}
	for _, k := range known {
		list = append(list, batch.Control{Name: k.Text, Block: profiler.Block{Code: k.Code, Setup: setup}, Cycles: k.Cycles, Whole: k.Latency})
	}
	return list, err
}

// again measures rows once more that were found at the end to be of a busy core, as resuming does.
func (b *batchFlags) again(ctx context.Context, j *batchJob, options batch.Options, end *batchEnd) error {
	if slices.Contains(b.inputs(), "-") {
		fmt.Fprintf(end.std.Err, "bbprof: WARNING: %s had been measured on a busy core and are rejected: standard input cannot be read again; "+
			"-resume with the same input measures them\n", words.Plural(end.tally.Void, "row"))
		return nil
	}
	fmt.Fprintf(b.out.Notes(end.std), "bbprof: %s had been measured on a busy core, as later readings of an idle one show; they are measured again\n",
		words.Plural(end.tally.Void, "row"))
	before := end.tally
	if err := j.out.Flush(); err != nil {
		return err
	}
	if err := j.out.Close(); err != nil {
		return err
	}
	states, in, err := b.openStates(end.std)
	if err != nil {
		return err
	}
	out, _, err := batch.Resume(j.dest.journal, j.dest.gathered(), j.schema, j.run)
	if err != nil {
		return err
	}
	j.out = out
	if states != nil {
		defer states.Close()
		options.Visit, options.Prepare = visitOf(in), func(block *profiler.Block) error { return startFrom(states, block) }
	}
	end.tally, err = batch.Run(ctx, in, out, options)
	end.tally.Continue(&before)
	return err
}

func (b *batchFlags) inputs() []string {
	if b.state == "" {
		return b.files
	}
	return append([]string{b.state}, b.files...)
}

// describe returns the run's header without its selftest.
func (b *batchFlags) describe(cpus host.Layout) resultfile.Run {
	settings := resultfile.SettingsOf(b.Measuring)
	if b.state != "" {
		settings["init"] = initial.CapturedName
	}
	machine := host.ThisMachine()
	return resultfile.Run{
		Version: cli.Version(), Host: resultfile.HostOf(host.Detect(cpus.CPUs()...)), Settings: settings, Shard: b.shard.String(),
		Kernel: machine.Kernel, Machine: machine, Workers: cpus.Workers, Inputs: b.inputs(), Started: now(),
	}
}

// now returns the time in the format of run_header.
func now() string { return time.Now().UTC().Format(time.RFC3339) }
