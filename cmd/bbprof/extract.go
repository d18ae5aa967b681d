package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/extract"
)

func extractCommand() *command {
	return &command{
		name:    "extract",
		summary: "take the blocks out of programs, libraries and assembly, with how often they run",
		synopsis: []string{
			"extract [flags] FILE...",
			"extract -run [flags] [FILE...] -- PROGRAM [ARGUMENT...]  (what it runs, with counts)",
		},
		about: `It writes a corpus for bbprof batch: CSV with a header, one row for each block, in the order of the
addresses. A FILE is an ELF file for x86-64 (program, shared library, .o), an archive of them (.a),
or assembly (.s), which GNU as or llvm-mc assembles. If a file has regions between markers of
LLVM-MCA, OSACA or IACA, blocks come only from there. A block starts at a function's entry, at the
target of a branch, after every control transfer, calls included, and at endbr64. The transfer that
ends it is cut off and stands in the column terminator. If bytes do not decode, the rest of the
function is left out, and a note says so.

Programs run with your rights and unconfined: bbprof does not protect your files from them. All
processes that they start are ended with them.
`,
		notes: `docs/extract.md explains the columns, what counts as a block and where counts come from.
`,
		examples: `bbprof extract ./prog | bbprof batch -                         measure all blocks of a program
bbprof extract -run -o blocks.csv -- gzip -c FILE >/dev/null   what ran, with counts
`,
		exits: map[int]string{exitOK: "done", exitUsage: "", exitHost: "what counts or assembles is not installed", exitInternal: "", exitInterrupted: "interrupted"},
		setup: func(f *flags) func(streams) error {
			e := extracting{}
			e.add(f)
			return e.run
		},
	}
}

// runTitle is the group of the flags of -run.
const runTitle = "How the program of -run runs"

type extracting struct {
	flags     *flags
	options   extract.Options
	rows      extract.Rows
	files     []string
	program   []string
	runs      bool
	anyStatus bool
	stdin     string
	timeout   time.Duration
	callgrind []string
	perf      string
	out       output
}

func (e *extracting) add(f *flags) {
	e.flags, f.operands, f.program = f, &e.files, &e.program
	e.out.addFile(f)
	e.options.Cut, e.options.Min = extract.CutLeader, 1
	choice(f, &e.options.Cut, extract.Cuts(), "cut", "WHERE", "leader: a block ends before the next address that control may come to; "+
		"transfer: it goes on to the next control transfer, so blocks overlap").fallback = string(extract.CutLeader)
	parsed(f, &e.options.Func, regexp.Compile, "func", "NAME", "functions whose demangled name matches NAME, a regular expression")
	parsed(f, &e.options.Section, regexp.Compile, "section", "NAME", "sections whose name matches NAME, a regular expression")
	f.number(&e.options.Min, 1, "min", "blocks of at least so many instructions")
	f.number(&e.options.Max, 0, "max", "blocks of at most so many instructions; 0 is any number")
	f.toggle(&e.rows.Unique, "unique", "each block once, with the counts added, where it is first")
	f.toggle(&e.rows.Text, "asm", "add a column asm: the instructions, separated by semicolons")
	syntaxFlag(f, &e.rows.Syntax, "that column")
	f.section("How often each block runs")
	f.toggle(&e.runs, "run", "run the program after -- under valgrind's callgrind; where that does not know its instructions, under perf")
	f.list(&e.callgrind, "callgrind", "FILE",
		"counts from what valgrind --tool=callgrind --dump-instr=yes wrote; several are added up")
	f.text(&e.perf, "perf", "FILE", "samples from the text of perf script --show-mmap-events; -F +brstack adds branch records")
	f.section(runTitle)
	runFlags(f, &e.timeout, &e.stdin, "10m")
	anyStatusFlag(f, &e.anyStatus)
}

func (e *extracting) check() error {
	sources := 0
	for _, given := range []bool{e.runs, len(e.callgrind) > 0, e.perf != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources > 1:
		return badUsage("-run, -callgrind and -perf each say what ran; choose one")
	case e.runs && len(e.program) == 0:
		return badUsage("-run: name the program after --, such as bbprof extract -run -- ./prog")
	case !e.runs && len(e.program) > 0:
		return badUsage("a program after -- is run with -run")
	case sources == 0 && len(e.files) == 0:
		return badUsage("name a program, a library, an object, an archive or assembly")
	case !e.runs && e.flags.of(runTitle) != "":
		return badUsage("-%s is of a program that is run: it needs -run", e.flags.of(runTitle))
	case e.options.Max > 0 && e.options.Max < e.options.Min:
		return badUsage("-min %d is more than -max %d", e.options.Min, e.options.Max)
	}
	return nil
}

func (e *extracting) run(std streams) error {
	if err := e.check(); err != nil {
		return err
	}
	ctx, stop := untilSignal()
	defer stop()
	if err := e.profile(ctx, std); err != nil {
		return badInput(err)
	}
	signal.Ignore(syscall.SIGPIPE)
	var stats extract.Stats
	err := writeResults(e.out.file, e.files, std.out, func(w io.Writer) (err error) {
		stats, err = extract.Write(ctx, w, e.files, e.options, e.rows)
		return err
	})
	if err != nil {
		return badInput(err)
	}
	if e.options.Func != nil && stats.Functions == 0 {
		fmt.Fprintf(e.out.notes(std), "bbprof: -func %v: no function of that name; nm lists those of a file, and one without a symbol is called by its address\n", e.options.Func)
	}
	for _, note := range e.notes(stats) {
		fmt.Fprintln(e.out.notes(std), "bbprof: "+note)
	}
	return nil
}

func (e *extracting) profile(ctx context.Context, std streams) (err error) {
	p := e.options.Profile
	switch {
	case e.runs:
		p, err = e.runProgram(ctx, std)
	case len(e.callgrind) > 0:
		p, err = extract.ReadCallgrind(e.callgrind...)
	case e.perf != "":
		p, err = extract.ReadPerfFile(e.perf)
	}
	if err != nil || p == nil {
		return err
	}
	e.options.Profile = p
	if len(e.files) == 0 {
		e.files = p.Files()
		e.options.Lenient = true
	}
	return nil
}

func (e *extracting) runProgram(ctx context.Context, std streams) (*extract.Profile, error) {
	out := std.err
	if e.out.file != "" && e.out.file != "-" {
		out = std.out
	}
	r := extract.Run{Program: e.program, Out: direct(out), Err: direct(std.err), AnyStatus: e.anyStatus, Timeout: e.timeout}
	return ran(ctx, r, e.stdin, e.out.notes(std), (*extract.Run).Profile)
}

// notes are what a user should know of what was found, and of what was not.
func (e *extracting) notes(stats extract.Stats) []string {
	notes := strings.Split(strings.TrimSpace(stats.Summary()), "\n")
	p := e.options.Profile
	if p == nil {
		return notes
	}
	what := "executed instructions"
	if p.Samples {
		what = "samples"
	}
	if p.Lost > 0 {
		notes = append(notes, fmt.Sprintf("%.2g %% of all %s are of code that no file holds, such as code made at run time, and is not extracted", 100*float64(p.Lost)/float64(p.Total), what))
	}
	return slices.DeleteFunc(notes, func(s string) bool { return s == "" })
}
