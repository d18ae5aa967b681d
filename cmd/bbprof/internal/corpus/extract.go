package corpus

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
)

func extractCommand() *cli.Command {
	return &cli.Command{
		Name:    "extract",
		Summary: "take the blocks out of programs, libraries and assembly, with how often they run",
		Synopsis: []string{
			"extract [flags] FILE...",
			"extract -run [flags] [FILE...] -- PROGRAM [ARGUMENT...]  (what it runs, with counts)",
		},
		About: `It writes a corpus for bbprof batch: CSV with a header, one row for each block, in the order of the
addresses. A FILE is an ELF file for x86-64 (program, shared library, .o), an archive of them (.a),
or assembly (.s), which GNU as or llvm-mc assembles. If a file has regions between markers of
LLVM-MCA, OSACA or IACA, blocks come only from there. A block starts at a function's entry, at the
target of a branch, after every control transfer, calls included, and at endbr64. The transfer that
ends it stands in the column terminator; -terminators keeps it in the code too. If bytes do not
decode, the rest of the function is left out, and a note says so.

Programs run with your rights and unconfined: bbprof does not protect your files from them. All
processes that they start are ended with them.
`,
		Notes: `docs/extract.md explains the columns, what counts as a block and where counts come from.
`,
		Examples: `bbprof extract ./prog | bbprof batch -                         measure all blocks of a program
bbprof extract -run -o blocks.csv -- gzip -c FILE >/dev/null   what ran, with counts
`,
		Exits: map[int]string{cli.ExitOK: "done", cli.ExitUsage: "", cli.ExitHost: "the tool that counts or assembles " +
			"is not installed", cli.ExitInternal: "", cli.ExitInterrupted: "interrupted"},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			e := extractCmd{}
			e.add(f)
			return e.run
		},
	}
}

// runTitle is the title of the flag group for -run.
const runTitle = "How the program of -run runs"

type extractCmd struct {
	flags     *cli.Flags
	options   extract.Options
	files     []string
	program   []string
	runs      bool
	anyStatus bool
	stdin     string
	timeout   time.Duration
	callgrind []string
	perf      string
	out       cli.Output
}

func (e *extractCmd) add(f *cli.Flags) {
	e.flags, f.Operands, f.Program = f, &e.files, &e.program
	e.out.AddFile(f)
	e.options.Cut, e.options.Min = extract.CutLeader, 1
	cli.Choice(f, &e.options.Cut, extract.Cuts(), "cut", "WHERE", "leader: a block ends before the next address that control may come to; "+
		"transfer: it goes on to the next control transfer, so blocks overlap").Fallback = string(extract.CutLeader)
	cli.Parsed(f, &e.options.Func, regexp.Compile, "func", "NAME", "functions whose demangled name matches NAME, a regular expression")
	f.Number(&e.options.Min, 1, "min", "blocks of at least so many instructions")
	f.Number(&e.options.Max, 0, "max", "blocks of at most so many instructions; 0 is any number")
	f.Toggle(&e.options.Branches, "terminators", "keep the conditional branch that ends a block in its code: bbprof batch measures it with that")
	f.Toggle(&e.options.Loops, "loops", "natural loops instead of blocks, with all their blocks, and columns blocks, "+
		"entry (the offset of the header), exits and loop_depth; a note counts those left out, by why")
	f.Toggle(&e.options.Unique, "unique", "each block once, with the counts added, where it is first")
	f.Toggle(&e.options.Text, "text", "add a column asm: the instructions, separated by semicolons")
	blockflags.SyntaxFlag(f, &e.options.Syntax, "that column")
	f.Toggle(&e.options.Lines, "lines", "add a column source_line: the file and the line that a block is from, as DWARF has them (gcc -g)")
	f.Section("How often each block runs")
	f.Toggle(&e.runs, "run", "run the program after -- under valgrind's callgrind; where that does not know its instructions, under perf")
	f.List(&e.callgrind, "callgrind", "FILE",
		"counts from what valgrind --tool=callgrind --dump-instr=yes wrote; several are added up")
	f.Text(&e.perf, "perf", "FILE", "samples from the text of perf script --show-mmap-events; -F +brstack adds branch "+
		"records, whose cycles, where the CPU has them, make a column cycles_in_place")
	f.Section(runTitle)
	programflags.RunFlags(f, &e.timeout, &e.stdin, "10m")
	programflags.AnyStatusFlag(f, &e.anyStatus)
}

func (e *extractCmd) check() error {
	sources := 0
	for _, given := range []bool{e.runs, len(e.callgrind) > 0, e.perf != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources > 1:
		return cli.BadUsage("-run, -callgrind and -perf each say what ran; choose one")
	case e.runs && len(e.program) == 0:
		return cli.BadUsage("-run: name the program after --, such as bbprof extract -run -- ./prog")
	case !e.runs && len(e.program) > 0:
		return cli.BadUsage("a program after -- is run with -run")
	case sources == 0 && len(e.files) == 0:
		return cli.BadUsage("name a program, a library, an object, an archive or assembly")
	case !e.runs && e.flags.Of(runTitle) != "":
		return cli.BadUsage("-%s requires -run", e.flags.Of(runTitle))
	case e.options.Max > 0 && e.options.Max < e.options.Min:
		return cli.BadUsage("-min %d is more than -max %d", e.options.Min, e.options.Max)
	}
	return nil
}

func (e *extractCmd) run(std cli.Streams) error {
	if err := e.check(); err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	if err := e.profile(ctx, std); err != nil {
		return programflags.BadInput(err)
	}
	signal.Ignore(syscall.SIGPIPE)
	var stats extract.Stats
	err := cli.WriteResults(e.out.File, std.Out, func(w io.Writer) (err error) {
		stats, err = extract.Write(ctx, w, e.files, e.options)
		return err
	})
	if err != nil {
		return programflags.BadInput(err)
	}
	if e.options.Func != nil && stats.Functions == 0 {
		fmt.Fprintf(e.out.Notes(std), "bbprof: -func %v: no function matches; nm lists a file's functions, and one "+
			"without a symbol is named by its address\n", e.options.Func)
	}
	notes := stats.Summary()
	if p := e.options.Profile; p != nil && p.Lost > 0 {
		what := "executed instructions"
		if p.Samples {
			what = "samples"
		}
		notes = append(notes, fmt.Sprintf("%.2g %% of all %s lie outside all files, such as in code generated at run "+
			"time, and cannot be extracted", 100*float64(p.Lost)/float64(p.Total), what))
	}
	for _, note := range notes {
		fmt.Fprintln(e.out.Notes(std), "bbprof: "+note)
	}
	return nil
}

func (e *extractCmd) profile(ctx context.Context, std cli.Streams) (err error) {
	switch p := &e.options.Profile; {
	case e.runs:
		*p, err = e.runProgram(ctx, std)
	case len(e.callgrind) > 0:
		*p, err = extract.ReadCallgrind(e.callgrind...)
	case e.perf != "":
		*p, err = extract.ReadPerf(e.perf)
	default:
		return nil
	}
	if err == nil && len(e.files) == 0 {
		e.files, e.options.Lenient = e.options.Profile.Files(), true
	}
	return err
}

func (e *extractCmd) runProgram(ctx context.Context, std cli.Streams) (*extract.Profile, error) {
	if err := extract.Readable(e.files); err != nil {
		return nil, err
	}
	out := std.Err
	if e.out.File != "" && e.out.File != "-" {
		out = std.Out
	}
	r := extract.Run{Program: e.program, Out: cli.Direct(out), Err: cli.Direct(std.Err), AnyStatus: e.anyStatus, Timeout: e.timeout}
	return programflags.Run(ctx, r, e.stdin, e.out.Notes(std), (*extract.Run).Profile)
}
