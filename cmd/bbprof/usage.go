package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// usageMeasuring are the flags of measuring, those of every command that measures blocks.
const usageMeasuring = `  -cpu N[,N...]   CPU to measure on, and others to move to when that is busy
                  (default: all allowed, the last first)
  -unroll U,V     time U and V copies of the block, U < V (default: what the front end holds)
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
  bbprof batch [flags] FILE   measure every row of a file (bbprof batch -h)
  bbprof selftest             measure blocks whose time is known (bbprof selftest -h)
  bbprof count                count instructions of a block or a program's function (bbprof count -h)
  bbprof sweep                vary a program's environment size and measure (bbprof sweep -h)
  bbprof doctor               what this host can do, and what would mend the rest (bbprof doctor -h)
  bbprof version              what this binary was built from
  bbprof help [SUBCOMMAND]    this text, or that of a subcommand

Flags:
  -hex HEX        the block's machine code: digits of either case; spaces between bytes and
                  0x are welcome; - reads it from standard input
  -json           one JSON object on one line instead of the report
  -v              add the disassembly, which instruction asked for which page, and the host
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

const usageBatch = `bbprof batch measures every row of a file and writes a row of CSV for each.

  bbprof batch [flags] FILE   FILE may be - for standard input

Each line of FILE is a row; its first comma-separated column is a block in hexadecimal, the
others are left alone. A first line that starts with a name, such as hex, is a header. A row
that is no block is rejected as bad_hex, with its line number, and the run goes on.

The columns written are
  hex,status,reason,cycles,ci_low,ci_high,mode,frontend,loop_cycles,loop_ci_low,loop_ci_high,
  instructions,bytes,unroll_short,unroll_long,samples_kept,samples_dropped,pages,frames,init,
  paper_verdict,self_forwarding_loads,detail
where status is ok, rejected or error. Cycles are core cycles per iteration, with four
decimals, and ci_low to ci_high is their 95 % interval. What is not known is empty. A row is
written as soon as its block is done. init names the initial state that the block ran with;
paper_verdict is what the paper's, on one frame, gives; self_forwarding_loads counts loads that
a store fed only because registers start equal. cycles are those of unrolled copies, from what
frontend names, unless mode is loop; loop_cycles are the loop's of -mode both. A summary goes to
standard error, and with it how four blocks whose time is known fared before the first row and
behind the last (bbprof selftest); that they failed is said at once, and ends nothing.

Flags:
  -o FILE         write to FILE instead of standard output, which is also -
` + usageMeasuring + `
Examples:
  bbprof batch blocks.csv > results.csv
  bbprof batch -cpu 1 -o results.csv blocks.csv
  cut -d, -f1 blocks.csv | head -100 | bbprof batch -

Exit codes:
  0    the end was reached, whatever the verdicts
  2    bad usage, or the input cannot be read
  3    this host cannot measure; the message says what would help
  4    bbprof itself failed, or the results cannot be written
  130  interrupted (SIGINT, SIGTERM): the current block was finished; a second signal ends
       at once

README.md shows how to read the results, ARCHITECTURE.md how they come about.
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
	usages := map[string]string{"batch": usageBatch, "count": usageCount, "selftest": usageSelftest, "sweep": usageSweep, "doctor": usageDoctor}
	switch {
	case len(args) == 0:
		fmt.Fprint(std.out, usageOne)
	case len(args) == 1 && usages[args[0]] != "":
		fmt.Fprint(std.out, usages[args[0]])
	default:
		return usageError(std, "no help on %q: there is bbprof help, and bbprof help followed by batch, count, selftest, sweep or doctor", args)
	}
	return exitOK
}

// version is bbprof version.
func version(args []string, std streams) int {
	if len(args) > 0 {
		return usageError(std, "version takes no argument, not %q", args)
	}
	module, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = " " + s.Value
			}
		}
	}
	fmt.Fprintf(std.out, "bbprof %s%s %s %s/%s\n", module, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
