// Command bbprof measures how many core cycles a basic block takes at steady state. See
// bbprof -h.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	_ "github.com/bbprof/bbprof/internal/fewfiles" // before others crash for it
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func main() {
	// A thread that waits for its child is in a system call. As long as there is an idle
	// processor besides, Go's monitor lets it be; if there is none, it wakes every 20 µs to look
	// whether it can take that one (runtime/proc.go, sysmon and retake), each time at the expense
	// of whoever measures on the CPU. So there are two more than threads can run at a time.
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	ignoreFileLimit()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes, as the help texts promise them.
const (
	exitOK          = 0
	exitRejected    = 1
	exitUsage       = 2
	exitHost        = 3
	exitInternal    = 4
	exitInterrupted = 130 // 128 + SIGINT, the shells' convention
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// A subcommand gets the arguments behind its name and returns the exit code.
type subcommand struct {
	name  string
	run   func(args []string, std streams) int
	usage string // what its -h prints; empty of what has no help
}

func subcommands() []subcommand {
	return []subcommand{
		{"batch", measureBatch, usageBatch},
		{"merge", mergeResults, usageMerge},
		{"convert", convert, usageConvert},
		{"check", checking, usageCheck},
		{"compare", comparing, usageCompare},
		{"selftest", selftesting, usageSelftest},
		{"count", counting, usageCount},
		{"sweep", sweep, usageSweep},
		{"explain", explaining, usageExplain},
		{"ablate", ablating, usageAblate},
		{"doctor", examine, usageDoctor},
		{"version", version, ""},
		{"help", help, ""},
	}
}

// names lists subcommands in a sentence.
func names(list []subcommand) string {
	var s []string
	for _, c := range list {
		s = append(s, c.name)
	}
	last := len(s) - 1
	return strings.Join(s[:last], ", ") + " and " + s[last]
}

// run is the whole program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	std := streams{stdin, stdout, stderr}
	if len(args) == 0 {
		fmt.Fprint(stderr, usageOne)
		return exitUsage
	}
	name := args[0]
	if strings.HasPrefix(name, "-") {
		return one(args, std)
	}
	all := subcommands()
	if i := slices.IndexFunc(all, func(c subcommand) bool { return c.name == name }); i >= 0 {
		return all[i].run(args[1:], std)
	}
	hint := "the subcommands are " + names(all)
	if _, err := asm.ParseHex(name, profiler.MaxBlock); err == nil {
		hint = "to measure a block, write bbprof -hex " + name
	}
	return usageError(std, "unknown subcommand %q: %s", name, hint)
}

// usageError reports what is wrong with the command line or the input.
func usageError(std streams, format string, args ...any) int {
	fmt.Fprintf(std.err, "bbprof: "+format+"\n", args...)
	return exitUsage
}

// failure reports an error of a measurement by what kind it is.
func failure(std streams, err error) int {
	if event := (*profiler.EventError)(nil); errors.As(err, &event) {
		return usageError(std, "-events: %v", event)
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(std.err, "bbprof: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(std.err, "bbprof: %v\n", err)
	return exitOf(err)
}

// exitOf tells a host that cannot measure from a failure of bbprof's own.
func exitOf(err error) int {
	if host := (*verdict.HostError)(nil); errors.As(err, &host) {
		return exitHost
	}
	return exitInternal
}

// newFlags is an empty flag set that leaves all reporting to parse. name is the command.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

// parse reads flags, also those behind an operand, and returns the operands. If done is
// true the command ends with code: help was asked for, or something is wrong.
func parse(f *flag.FlagSet, args []string, usage string, std streams) (operands []string, code int, done bool) {
	for {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(std.out, usage)
			return nil, exitOK, true
		}
		if err != nil {
			return nil, usageError(std, "%v (%s -h lists the flags)", err, f.Name()), true
		}
		if f.NArg() == 0 {
			return operands, 0, false
		}
		operands = append(operands, f.Arg(0))
		args = f.Args()[1:]
	}
}
