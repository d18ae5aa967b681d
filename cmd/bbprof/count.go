package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/count"
	"github.com/bbprof/bbprof/profiler"
)

const usageCount = `bbprof count counts instructions, exactly: of a block, or of a function of a program. No layout
changes them, so they show what a compiler did.

  bbprof count -hex HEX
  bbprof count -func NAME [flags] -- PROGRAM [ARG...]
  bbprof count -grow -func NAME -a ARGS -b ARGS [flags] -- PROGRAM [ARG...]

A function is counted from its first instruction to its return, with all that it calls, the
first time it is called. NAME is as nm shows it (of Go main.sum, of C++ the mangled name), or an
address there such as 0x401136. The program runs to its end; the first 1 MiB that it writes goes to
standard error. The program runs with your rights and unconfined: bbprof does not protect your files from it. All
processes that it starts are ended with it.

What counts are the instructions of the calling thread in user mode. A string instruction with a
rep prefix is one, and so is a system call. A signal handler on that thread counts in. Other
threads and processes that the function starts do not. While it is counted by steps, all other
threads stand still, except while it waits in a system call.

-grow counts with two sets of arguments and demands that the count of -b is at most -max-ratio
times that of -a: that a loop over n was turned into a formula, say. A set takes the place of {}
among the program's arguments: all its words where {} is a word of its own, its text within a
longer one such as --n={}; without any {} its words are appended.

Flags:
  -hex HEX        the block's machine code, as in bbprof -hex; - reads it from standard input
  -func NAME      the function to count
  -calls N        count the first N calls; all: every one until the program ends (default 1)
  -method NAME    counter: by the CPU's counter of retired instructions; step: an instruction at
                  a time; auto: counter where there is one, else step (default auto)
  -limit N        longest call to step through, in instructions (default 10000000)
  -timeout TIME   longest that the program may run, such as 30s (default 5m)
  -stdin FILE     what the program reads as standard input (default /dev/null)
  -grow           compare the counts of two sets of arguments
  -a ARGS         the one set, such as '10'; quotes and spaces as in a shell
  -b ARGS         the other, such as '1000'
  -max-ratio R    the most that -b may take of -a (default 1.1)
  -json           one JSON object on one line instead of the report

Examples:
  bbprof count -hex 'b910000000 f3a4'
  bbprof count -func triangle -- ./sums 1000
  bbprof count -func fibonacci -calls all -- ./sums 20
  bbprof count -grow -func product -a 10 -b 1000 -- ./sums {}

Exit codes:
  0  counted; with -grow: it does not grow by more than -max-ratio
  1  -grow: it grows by more; -hex: the block is rejected
  2  bad usage, or a program or function that cannot be counted; the message says why
  3  this host cannot count; the message says what would help
  4  bbprof itself failed
  130  interrupted
`

// countOptions are the flags of count.
type countOptions struct {
	hex, function string
	grow, asJSON  bool
	sets          [2]string
	maxRatio      float64
	count.Options
}

// defaultMaxRatio allows for the instruction or two by which a formula's branches differ.
const defaultMaxRatio = 1.1

func counting(args []string, std streams) int {
	o := countOptions{maxRatio: defaultMaxRatio, Options: count.Options{Output: std.err}}
	own, words := behindDashes(args)
	f := newFlags("bbprof count")
	o.flags(f)
	operands, code, done := parse(f, own, usageCount, std)
	if done {
		return code
	}
	if len(operands) > 0 {
		return usageError(std, "count: unexpected argument %q: write the program and its arguments behind --", operands[0])
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	if err := o.check(given, words); err != nil {
		return usageError(std, "count: %v", err)
	}
	switch {
	case given["hex"]:
		return countBlock(o, std)
	case o.grow:
		return countGrowth(o, words, std)
	}
	return countFunction(o, words, std)
}

func (o *countOptions) flags(f *flag.FlagSet) {
	f.StringVar(&o.hex, "hex", "", "")
	f.StringVar(&o.function, "func", "", "")
	f.BoolVar(&o.grow, "grow", false, "")
	f.BoolVar(&o.asJSON, "json", false, "")
	f.StringVar(&o.sets[0], "a", "", "")
	f.StringVar(&o.sets[1], "b", "", "")
	f.StringVar(&o.Stdin, "stdin", "", "")
	f.Func("calls", "", func(s string) (err error) {
		o.Calls, err = parseCalls(s)
		return err
	})
	f.Func("method", "", func(s string) (err error) {
		o.Method, err = parseName(s, count.Methods())
		return err
	})
	f.Func("limit", "", func(s string) (err error) {
		if o.Limit, err = strconv.Atoi(s); err != nil || o.Limit < 1 {
			return errors.New("write a number of instructions, 1 or more")
		}
		return nil
	})
	f.Func("timeout", "", func(s string) (err error) {
		o.Timeout, err = parseTimeout(s)
		return err
	})
	f.Func("max-ratio", "", func(s string) (err error) {
		if o.maxRatio, err = strconv.ParseFloat(s, 64); err != nil || !(o.maxRatio > 0) || math.IsInf(o.maxRatio, 0) {
			return errors.New("write a number above 0, such as 1.1 for 10 % more")
		}
		return nil
	})
}

func parseCalls(s string) (int, error) {
	if s == "all" {
		return count.All, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errors.New("write all, or a number from 1 on")
	}
	return n, nil
}

// check says which flags do not go together.
func (o *countOptions) check(given map[string]bool, words []string) error {
	if given["hex"] {
		for name := range given {
			if name != "hex" && name != "json" {
				return fmt.Errorf("-%s is for a function of a program, not for a block: leave it or -hex away", name)
			}
		}
		if len(words) > 0 {
			return fmt.Errorf("-hex counts a block: no program %q behind --", words[0])
		}
		return nil
	}
	switch {
	case o.function == "" && len(words) > 0:
		return fmt.Errorf("no function to count of %s: name one with -func, such as -func main", words[0])
	case o.function == "":
		return errors.New("nothing to count: give a block with -hex, or a function and a program with -func NAME -- PROGRAM [ARG...]")
	case len(words) == 0:
		return errors.New("no program: write it and its arguments behind --")
	case o.grow && !(given["a"] && given["b"]):
		return errors.New("-grow compares two sets of arguments: give them with -a and -b, such as -a 10 -b 1000")
	}
	for _, name := range []string{"a", "b", "max-ratio"} {
		if given[name] && !o.grow {
			return fmt.Errorf("-%s is for -grow: add that", name)
		}
	}
	return nil
}

func countBlock(o countOptions, std streams) int {
	block, err := readBlock(o.hex, std.in)
	if err != nil {
		return usageError(std, "%v", err)
	}
	ctx, stop := untilSignal()
	defer stop()
	c, err := profiler.CountInstructions(ctx, block)
	if err != nil {
		return programFailure(std, err)
	}
	text := fmt.Sprintf("%s an iteration, counted by steps over %s\n", plural(c.Instructions, "instruction"), copies(c.Copies))
	if r := c.Rejection; r != nil {
		text = fmt.Sprintf("rejected: %v\n", r)
	}
	if code := write(std, o.asJSON, c, text); code != exitOK {
		return code
	}
	if c.Rejection != nil {
		return exitRejected
	}
	return exitOK
}

func countFunction(o countOptions, words []string, std streams) int {
	ctx, stop := untilSignal()
	defer stop()
	r, err := countCommand(ctx, o, words)
	if err != nil {
		return programFailure(std, err)
	}
	notes(std, r)
	return write(std, o.asJSON, r, countReport(r))
}

func countCommand(ctx context.Context, o countOptions, words []string) (count.Result, error) {
	c, err := program.NewCommand(words)
	if err != nil {
		return count.Result{}, err
	}
	return count.Function(ctx, c, o.function, o.Options)
}

func notes(std streams, r count.Result) {
	for _, n := range r.Notes {
		fmt.Fprintf(std.err, "bbprof: %s: %s\n", strings.Join(r.Program, " "), n)
	}
}

func countReport(r count.Result) string {
	var w strings.Builder
	if len(r.Calls) == 1 {
		fmt.Fprintf(&w, "%s: %s\n", r.Function, callReport(r.Calls[0]))
	} else {
		for i, c := range r.Calls {
			fmt.Fprintf(&w, "%s, call %d: %s\n", r.Function, i+1, callReport(c))
		}
		fmt.Fprintf(&w, "%s, %s: %s\n", r.Function, plural(len(r.Calls), "call"), plural(int(r.Instructions), "instruction"))
	}
	fmt.Fprintf(&w, "%-10s%s\n", "counted", counted(r.Method))
	return w.String()
}

func callReport(c count.Call) string {
	s := plural(int(c.Instructions), "instruction")
	switch {
	case c.Left:
		s += ", until it was left by a jump to one of its callers"
	case !c.Returned:
		s += ", in which the program ended"
	}
	return s
}

func counted(m count.Method) string {
	if m == count.Hard {
		return "by the CPU's counter of retired instructions, in user mode"
	}
	return "by single steps"
}

// growth is what -grow finds.
type growth struct {
	A        count.Result `json:"a"`
	B        count.Result `json:"b"`
	Ratio    float64      `json:"ratio"`
	MaxRatio float64      `json:"max_ratio"`
	Grows    bool         `json:"grows"`
}

func countGrowth(o countOptions, words []string, std streams) int {
	ctx, stop := untilSignal()
	defer stop()
	var filled [2][]string
	for i, set := range o.sets {
		var err error
		if filled[i], err = program.Fill(words, set); err != nil {
			return usageError(std, "count: -%c: %v", 'a'+i, err)
		}
	}
	var results [2]count.Result
	for i := range results {
		var err error
		if results[i], err = countCommand(ctx, o, filled[i]); err != nil {
			return programFailure(std, err)
		}
		notes(std, results[i])
	}
	g := growth{A: results[0], B: results[1], MaxRatio: o.maxRatio}
	g.Ratio = float64(g.B.Instructions) / float64(g.A.Instructions)
	g.Grows = g.Ratio > g.MaxRatio
	if code := write(std, o.asJSON, g, growthReport(g, o.sets)); code != exitOK {
		return code
	}
	if g.Grows {
		return exitRejected
	}
	return exitOK
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
	return fmt.Sprintf("%s: %s with %s, %s with %s\n%s "+verdict+"\n%-10s%s\n",
		g.A.Function, setReport(g.A), inQuotes(sets[0]), setReport(g.B), inQuotes(sets[1]),
		g.A.Function, g.Ratio, g.MaxRatio, "counted", how)
}

// setReport is the count with one set of arguments.
func setReport(r count.Result) string {
	if len(r.Calls) == 1 {
		return callReport(r.Calls[0])
	}
	return fmt.Sprintf("%s in %s", plural(int(r.Instructions), "instruction"), plural(len(r.Calls), "call"))
}

func inQuotes(set string) string { return "'" + set + "'" }

// write puts a result out as JSON or text.
func write(std streams, asJSON bool, result any, text string) int {
	var err error
	if asJSON {
		err = json.NewEncoder(std.out).Encode(result)
	} else {
		_, err = fmt.Fprint(std.out, text)
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the result: %w", err))
	}
	return exitOK
}
