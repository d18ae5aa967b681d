package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

const usageOne = `bbprof measures how many core cycles a basic block of x86-64 code takes per iteration at
steady state, with all its data and code in the first-level caches, or says why it cannot.

  bbprof [flags] -hex HEX     measure one block
  bbprof batch [flags] FILE   measure every row of a file (bbprof batch -h)
  bbprof version              what this binary was built from
  bbprof help [batch]         this text, or batch's

Flags:
  -hex HEX        the block's machine code: digits of either case; spaces between bytes and
                  0x are welcome; - reads it from standard input
  -json           one JSON object on one line instead of the report
  -v              add the disassembly, which instruction asked for which page, and the host
  -cpu N[,N...]   CPU to measure on, and others to move to when that is busy
                  (default: all allowed, the last first)
  -unroll U,V     time U and V copies of the block, U < V (default: what the front end holds)
  -frames N       put the pages on N physical pages; 1 is the BHive paper's way (default: 1, and
                  one for each page where sharing it would be felt)
  -init NAME      the one initial state to use: paper, distinct, stack, divisible, low, aligned
                  (default: paper, and the others where it makes the block fail)
  -rescue=false   keep to the paper's state, whatever it makes of the block
  -ftz=false      compute subnormal numbers instead of flushing them to zero, for comparison
  -budget TIME    longest time to spend on timing, such as 500ms (default 3s)

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
  hex,status,reason,cycles,ci_low,ci_high,instructions,bytes,unroll_short,unroll_long,
  samples_kept,samples_dropped,pages,frames,init,paper_verdict,self_forwarding_loads,detail
where status is ok, rejected or error. Cycles are core cycles per iteration, with four
decimals, and ci_low to ci_high is their 95 % interval. What is not known is empty. A row is
written as soon as its block is done. init names the initial state that the block ran with;
paper_verdict is what the paper's, on one frame, gives; self_forwarding_loads counts loads that
a store fed only because registers start equal. A summary goes to standard error.

Flags:
  -o FILE         write to FILE instead of standard output, which is also -
  -cpu N[,N...]   CPU to measure on, and others to move to when that is busy
                  (default: all allowed, the last first)
  -unroll U,V     time U and V copies of each block, U < V (default: what the front end holds)
  -frames N       put the pages on N physical pages; 1 is the BHive paper's way (default: 1, and
                  one for each page where sharing it would be felt)
  -init NAME      the one initial state to use: paper, distinct, stack, divisible, low, aligned
                  (default: paper, and the others where it makes the block fail)
  -rescue=false   keep to the paper's state, whatever it makes of the block
  -ftz=false      compute subnormal numbers instead of flushing them to zero, for comparison
  -budget TIME    longest time to spend on timing one block, such as 500ms (default 3s)

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

// help is bbprof help.
func help(args []string, std streams) int {
	switch {
	case len(args) == 0:
		fmt.Fprint(std.out, usageOne)
	case len(args) == 1 && args[0] == "batch":
		fmt.Fprint(std.out, usageBatch)
	default:
		return usageError(std, "no help on %q: there is bbprof help and bbprof help batch", args)
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
