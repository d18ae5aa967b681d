package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/count"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/profiler"
)

func countCommand() *cli.Command {
	return &cli.Command{
		Name:    "count",
		Summary: "count instructions exactly, of a block or of a program's function",
		Synopsis: []string{"count -hex HEX", "count -func NAME [flags] -- PROGRAM [ARG...]",
			"count -grow -func NAME -a ARGS -b ARGS [flags] -- PROGRAM [ARG...]",
			"count -matrix COMPILERS -func NAME [flags] FILE.c [-- ARG...]"},
		About: `No layout changes these counts, so they show what a compiler did. A function is counted from its
first instruction to its return, with all that it calls, the first time it is called, in user mode
on the calling thread. NAME is as nm shows it, as C++ and Rust write it, an address, or
libz.so.1:crc32. The program runs with your rights and unconfined: bbprof does not protect your
files from it. All processes that it starts are ended with it.

-grow counts with two sets of arguments, which replace {} or are all arguments, and demands that the
count of -b is at most -max-ratio times that of -a. -matrix compiles FILE with each compiler at each
of -levels, counts with each of -sizes, and fits the order of growth; -expect compares with a file
that -update writes.
`,
		Notes: "docs/counting.md says exactly what is counted.\n",
		Examples: `bbprof count -grow -func product -a 10 -b 1000 -- ./sums {}
bbprof count -matrix gcc,clang -func product -expect sums.csv sums.c
`,
		Exits: cli.Exits("counted; with -grow: it does not grow by more than -max-ratio",
			"-grow: it grows by more; -expect: a build lost an optimisation; -hex: the block is rejected", map[int]string{
				cli.ExitUsage:       "bad usage, or a program or function that cannot be counted; the message says why",
				cli.ExitHost:        "this host cannot count; the message says what would help",
				cli.ExitInterrupted: "interrupted"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			// The ratio of 1.1 allows for an instruction or two by which a formula's branches differ.
			c := countCmd{flags: f, maxRatio: 1.1, Options: count.Options{Limit: 10_000_000}}
			c.declare(f)
			return c.out.Resumable(f, c.run)
		},
	}
}

type countCmd struct {
	flags    *cli.Flags
	block    blockflags.BlockFlags
	out      cli.Output
	words    []string // the program and its arguments
	function string
	image    string // the program that contains the function, if not the one started
	grow     bool
	sets     [2]string
	maxRatio float64
	matrix   matrixFlags
	count.Options
}

const (
	functionTitle = "Of a function"
	growthTitle   = "Of a function with two sets of arguments"
)

func (c *countCmd) declare(f *cli.Flags) {
	c.block.Add(f)
	c.out.Add(f, "the report")
	f.Program = &c.words
	f.Stray = "write the program and its arguments after --"
	f.Section(functionTitle)
	f.Text(&c.function, "func", "NAME", "the function to count")
	f.Toggle(&c.JIT, "jit", "a JIT compiler makes NAME as the program runs, and lists it in /tmp/perf-PID.map")
	programflags.ProgramFlag(f, &c.image, "count in NAME, which PROGRAM becomes by exec, as env and sh -c 'exec ./prog' do (default: PROGRAM itself)")
	cli.Parsed(f, &c.Calls, parseCalls, "calls", "N", "count the first N calls; all: every one until the program ends; last: the last one").Fallback = "1"
	cli.Choice(f, &c.Method, count.Methods(), "method", "NAME", "counter: by the CPU's counter of retired instructions; step: an instruction at "+
		"a time; copy: so, and in long calls by copies of the code that count themselves; auto: counter where there is one, else copy").Fallback = "auto"
	f.Number(&c.Limit, 1, "limit", "most single steps of a call, of which 30,000 take a second or less")
	programflags.RunFlags(f, &c.Timeout, &c.Stdin, "5m")
	f.Section(growthTitle)
	f.Toggle(&c.grow, "grow", "compare the counts of two sets of arguments")
	f.Text(&c.sets[0], "a", "ARGS", "the one set, such as '10'; quotes and spaces as in a shell")
	f.Text(&c.sets[1], "b", "ARGS", "the other, such as '1000'")
	cli.Parsed(f, &c.maxRatio, parseRatio, "max-ratio", "R",
		"largest ratio of -b to -a to accept, or of a count to that of -expect: 1.1, or 110%").Fallback = "1.1"
	c.matrix.declare(f)
}

func (c *countCmd) run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	switch {
	case c.block.Given():
		return c.countBlock(ctx, std)
	case len(c.matrix.compilers) > 0:
		return c.countMatrix(ctx, std)
	case c.grow:
		return c.countGrowth(ctx, std)
	}
	r, err := c.countCommand(ctx, c.words, std)
	if err != nil {
		return err
	}
	notes(c.out.Notes(std), r)
	return c.out.Write(std, r, countReport(r))
}

func parseRatio(s string) (float64, error) {
	r, err := cli.ParseShareOrMore(s)
	if err != nil || r == 0 {
		return 0, errors.New("write a number above 0, such as 1.1 for 10 % more, or 110%")
	}
	return r, nil
}

func parseCalls(s string) (int, error) {
	switch s {
	case "all":
		return count.All, nil
	case "last":
		return count.Last, nil
	}
	return cli.WholeNumber(s, 1, math.MaxInt, "write all, last, or a number from 1 on")
}

func (c *countCmd) check() error {
	var r cli.Rules
	program, given := cli.First(c.words), c.flags.Of(growthTitle)
	if c.block.Given() {
		of := cmp.Or(c.flags.Of(functionTitle), given, c.flags.Of(matrixTitle))
		r.Not(of != "", "-%s is for a function of a program, not for a block: leave out either it or -hex", of)
		r.Not(program != "", "-hex counts a block: leave out either it or the program %s", program)
		return r.Err
	}
	if err := c.matrix.check(c); err != nil || len(c.matrix.compilers) > 0 {
		return err
	}
	r.Not(c.function == "" && program != "", "no function to count of %s: name one with -func, such as -func main", program)
	r.Not(c.function == "", "nothing to count: give a block with -hex, or a function and a program with -func NAME -- PROGRAM [ARG...]")
	r.Not(program == "", "no program: write it and its arguments after --")
	r.Not(c.grow && !(c.flags.Has("a") && c.flags.Has("b")), "-grow compares two sets of arguments: give them with -a and -b, such as -a 10 -b 1000")
	r.Not(c.grow && len(c.words) > 1 && !launch.HasPlace(c.words),
		"-grow does not know where among the arguments of %s those of -a and -b go: write {} there", program)
	r.Not(!c.grow && given != "", "-%s is for -grow: add that", given)
	return r.Err
}

func (c *countCmd) countBlock(ctx context.Context, std cli.Streams) error {
	block, err := c.block.Read(std)
	if err != nil {
		return err
	}
	n, err := profiler.CountInstructions(ctx, block)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s an iteration, counted by steps over %s\n", words.Plural(n.Instructions, "instruction"), words.Plural(n.Copies, "copy"))
	if n.Rejection != nil {
		text, err = fmt.Sprintf("rejected: %v\n", n.Rejection), cli.ErrRejected
	}
	return cmp.Or(c.out.Write(std, n, text), err)
}

func (c *countCmd) countCommand(ctx context.Context, words []string, std cli.Streams) (count.Result, error) {
	command, err := programflags.Behind(ctx, words, c.image, c.Control, c.out.Notes(std))
	if err != nil {
		return count.Result{}, err
	}
	done := cli.ProgressTo(c.out.Notes(std), c.Limit, "instructions")
	if c.Calls > 1 || c.Calls == count.All {
		done.Of = 0 // the limit is per call
	}
	defer done.End()
	o := c.Options
	o.Stderr, o.Stepped = std.Err, done.Step
	return count.Function(ctx, command, c.function, o)
}

func notes(w io.Writer, r count.Result) {
	for _, n := range r.Notes {
		fmt.Fprintf(w, "bbprof: %s: %s\n", strings.Join(r.Program, " "), n)
	}
}

func countReport(r count.Result) string {
	var w strings.Builder
	if len(r.Calls) > 1 {
		for i, c := range r.Calls {
			fmt.Fprintf(&w, "%s, call %d: %s\n", r.Function, i+1, callReport(c))
		}
	}
	fmt.Fprintf(&w, "%s: %s\n%-10s%s\n", r.Function, setReport(r), "counted", counted(r.Method))
	if r.Again {
		w.WriteString(calledAgain)
	}
	return w.String()
}

// calledAgain qualifies a report: other calls may take more.
const calledAgain = "again     it is called again: -calls all counts every call, -calls last the last\n"

func callReport(c count.Call) string {
	s := words.Plural(int(c.Instructions), "instruction")
	switch {
	case c.Left:
		s += ", until it was left by a jump to one of its callers"
	case !c.Returned:
		s += ", in which the program ended"
	}
	return s
}

func counted(m count.Method) string {
	switch m {
	case count.Hard:
		return "by the CPU's counter of retired instructions, in user mode"
	case count.Copy:
		return "by single steps and copies of the code that count themselves"
	}
	return "by single steps"
}

type growth struct {
	A        count.Result `json:"a"`
	B        count.Result `json:"b"`
	Ratio    float64      `json:"ratio"`
	MaxRatio float64      `json:"max_ratio"`
	Grows    bool         `json:"grows"`
}

func (c *countCmd) countGrowth(ctx context.Context, std cli.Streams) error {
	var filled [2][]string
	for i, set := range c.sets {
		var err error
		if filled[i], err = launch.Fill(c.words, set); err != nil {
			return cli.BadUsage("-%c: %w", 'a'+i, err)
		}
	}
	var results [2]count.Result
	c.Whole = true
	for i := range results {
		var err error
		if results[i], err = c.countCommand(ctx, filled[i], std); err != nil {
			return err
		}
		notes(c.out.Notes(std), results[i])
	}
	g := growth{A: results[0], B: results[1], MaxRatio: c.maxRatio}
	g.Ratio = float64(g.B.Instructions) / float64(g.A.Instructions)
	g.Grows = g.Ratio > g.MaxRatio
	return c.out.Reject(std, g.Grows, g, growthReport(g, c.sets))
}

func growthReport(g growth, sets [2]string) string {
	verdict := "does not grow: the ratio is %.3f, allowed is %g"
	if g.Grows {
		verdict = "grows: the ratio is %.3f, allowed is %g"
	}
	how := counted(g.A.Method)
	if g.B.Method != g.A.Method {
		how += "; of -b " + counted(g.B.Method)
	}
	text := fmt.Sprintf("%s: %s with '%s', %s with '%s'\n%s "+verdict+"\n%-10s%s\n",
		g.A.Function, setReport(g.A), sets[0], setReport(g.B), sets[1],
		g.A.Function, g.Ratio, g.MaxRatio, "counted", how)
	if g.A.Again || g.B.Again {
		text += calledAgain
	}
	return text
}

func setReport(r count.Result) string {
	if len(r.Calls) == 1 {
		return callReport(r.Calls[0])
	}
	return fmt.Sprintf("%s in %s", words.Plural(int(r.Instructions), "instruction"), words.Plural(len(r.Calls), "call"))
}
