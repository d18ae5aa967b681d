package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
)

// usageMeasuring are the flags that say how to measure, those of every command that measures
// the user's blocks.
const usageMeasuring = `  -unroll U,V     time U and V copies of the block, U < V (default: what the front end holds)
  -mode MODE      unroll: copies in a row; loop: copies in a counted loop; both: one after the
                  other, with the likely cause where they differ by more than 5 % (default: unroll)
  -frontend NAME  what serves unrolled copies: opcache, as in a program that is hot; decode: the
                  legacy decoders, as in measurements without the op cache (default: opcache)
  -frames N       put the pages on N physical pages; 1 is the BHive paper's way (default: auto,
                  which is 1, and one for each page where sharing it would be felt)
  -init NAME      the one initial state to use: paper, distinct, stack, divisible, low, aligned
                  (default: paper, and the others where it makes the block fail)
  -clock NAME     perf: core cycles from hardware counters; tsc: the time-stamp counter, calibrated
                  against chains of adds (default: auto, which is perf where the kernel offers it)
  -identical N    accept an image's time on the perf clock if at least N of 16 timings are clean
                  (no L1 miss, split access or context switch) and identical (default 8, the BHive
                  paper's rule; fewer relax it)
  -events A,B     count these too, per iteration: names as perf list has them, rNNNN for a raw
                  code, or cpu/event=0x..,umask=0x../ (docs/counters.md)
  -rescue=false   keep to the paper's state, whatever it makes of the block
  -ftz=false      compute subnormal numbers instead of flushing them to zero, for comparison
  -precision P    take windows until the interval is at most ± P of the cycles, or ± P cycles where
                  that is more, or no window helps any more (default 0.005)
  -budget TIME    longest time to spend on timing one block, such as 500ms (default 3s);
                  -mode both spends it on each of the two
`

const usageOne = `bbprof measures how many core cycles a basic block of x86-64 code takes per iteration at
steady state, with all its data and code in the first-level caches, or says why it cannot.

  bbprof [flags] -hex HEX     measure one block
  bbprof batch [flags] FILE…  measure every row of some files (bbprof batch -h)
  bbprof merge [flags] FILE…  join the results of a corpus's shards (bbprof merge -h)
  bbprof convert FILE…        results as CSV, JSON, Parquet, BHive's (bbprof convert -h)
  bbprof check BASELINE       find blocks that have become slower (bbprof check -h)
  bbprof compare -a A -b B    tell which is faster, wherever both may stand (bbprof compare -h)
  bbprof selftest             measure blocks whose time is known (bbprof selftest -h)
  bbprof count                count instructions of a block or a program's function (bbprof count -h)
  bbprof sweep                vary one factor of a set-up and measure: code, data, copies, frames, or a
                              program's environment (bbprof sweep -h)
  bbprof explain              ask which part of a set-up makes a block's time (bbprof explain -h)
  bbprof ablate               switch the techniques on one by one (bbprof ablate -h)
  bbprof doctor               what this host can do, and what would mend the rest (bbprof doctor -h)
  bbprof version              what this binary was built from
  bbprof help [SUBCOMMAND]    this text, or that of a subcommand

Flags:
  -hex HEX        the block's machine code: digits of either case; spaces between bytes and
                  0x are welcome; - reads it from standard input
  -json           one JSON object on one line instead of the report
  -v              add the disassembly, which instruction asked for which page, and the host
  -cpu N[,N...]   CPU to measure on, and others to move to when that is busy
                  (default: all allowed, the last first)
` + usageMeasuring + `
Examples:
  bbprof -hex 4801c0                         add rax, rax
  bbprof -v -hex '48 8b 03 48 01 d8'         spaces and all, with the listing
  echo 4801c0 | bbprof -json -hex - | jq .cycles

Exit codes:
  0  measured
  1  the block is rejected; the report says why
  2  bad input or usage
  3  this host cannot measure; the message says what would help
  4  bbprof itself failed

Results go to standard output, everything else to standard error.
README.md shows how to read a report, ARCHITECTURE.md how it comes about.
`

const usageSelftest = `bbprof selftest measures blocks whose time is known, and says whether bbprof finds it.

  bbprof selftest [flags]

Most are dependent chains: each copy waits for the one before, so a copy takes as many cycles
as its instructions' documented latencies, whatever else the core can do at a time. Some are
of independent instructions, which the number of ports bounds. Together they go wrong where the
clock is calibrated wrongly, the core is shared, or bbprof does not know the CPU.

What is expected is a number, met within 1.5 % or 0.02 cycles, or a band: where cores of one
kind differ or nothing confirmed a number. It comes from a table by microarchitecture, with its
sources, selftest/answers.txt; a CPU that is not in it gets bands that any core should pass.

Where hardware counters can be had too, all blocks are timed by either clock, and the report says
whether they agree, within the same tolerance or both intervals.

The outcome is one of
  pass
  FAIL       a number, but not the expected one, or a rejection that is not owed to other work
  disturbed  other work on the core let none of three tries finish (of one, after three such
             blocks): neither pass nor fail
  skipped    this CPU does not execute the block, or no answer is known

Flags:
  -short          only four blocks: a multiply, a load, a floating-point add, and adds side by side
  -json           one JSON object on one line instead of the table
  -cpu N[,N...]   CPU to measure on, and others to move to when that is busy
                  (default: all allowed, the last first)
  -budget TIME    longest time to spend on timing one block, such as 500ms (default 3s)

Examples:
  bbprof selftest
  bbprof selftest -cpu 1 -budget 10s
  bbprof selftest -json | jq '.blocks[] | select(.status != "pass")'

Exit codes:
  0  every block passed that was neither disturbed nor skipped
  1  a block failed, or the clocks differ
  2  bad usage
  3  this host cannot measure, or every block was disturbed; the message says what would help
  4  bbprof itself failed
`

const usageDoctor = `bbprof doctor examines this host: what it is, how bbprof measures on it and how well, and
the command that mends whatever is missing. It takes about a second.

  bbprof doctor [flags]

It measures with bbprof itself. Where it says that bbprof can measure here, it has just done so,
and the clock and the evidence that it names are those of the results; they are what bbprof -hex
uses. The precision is that of a few built-in blocks, measured twice.

It also tests what the method asks of a CPU (Chen et al., BHive, IISWC 2019):
  aliased pages at no cost   what two virtual pages on one physical page cost: loads that wait
                             for each other, loads that do not, a store with a load after it
  counters for misses        whether misses of L1 are counted here, or inferred
  subnormals controllable    whether flushing them to zero makes them as fast as other numbers

Flags:
  -json           one JSON object on one line instead of the report
  -cpu N[,N...]   CPU to measure on, and others to move to when that is busy
                  (default: all allowed, the last first)
  -precision P    how narrow intervals are to be, as for other commands (default 0.005)
  -budget TIME    longest time to spend on timing one block (default 500ms)

Examples:
  bbprof doctor
  bbprof doctor -json | jq -r '.shortcomings[].remedy'

Exit codes:
  0  this host can measure, whatever is to mend
  2  bad usage
  3  this host cannot measure, or every block was disturbed; the report says what is missing
  4  bbprof itself failed
`

// help is bbprof help.
func help(args []string, std streams) int {
	if len(args) == 0 {
		fmt.Fprint(std.out, usageOne)
		return exitOK
	}
	told := slices.DeleteFunc(subcommands(), func(c subcommand) bool { return c.usage == "" })
	i := slices.IndexFunc(told, func(c subcommand) bool { return len(args) == 1 && c.name == args[0] })
	if i < 0 {
		return usageError(std, "no help on %q: there is bbprof help, and bbprof help followed by one of %s", args, names(told))
	}
	fmt.Fprint(std.out, told[i].usage)
	return exitOK
}

// version is bbprof version.
func version(args []string, std streams) int {
	if len(args) > 0 {
		return usageError(std, "version takes no argument, not %q", args)
	}
	fmt.Fprintf(std.out, "bbprof %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

// versionText is the module's version, and the commit where that is known.
func versionText() string {
	module, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	return module + revision
}
