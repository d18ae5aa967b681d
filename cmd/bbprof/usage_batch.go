package main

const usageBatch = `bbprof batch measures every row of some files and writes a row of results for each.

  bbprof batch [flags] FILE...   FILE may be - for standard input

Each line is a row of comma-separated columns, one of which is a block in hexadecimal; files
may be compressed with gzip or zstd. A first line with a name where the block should be is a
header. A row that is no block is rejected as bad_hex, with its line number, and the run goes
on. A block that comes again is not measured again. All other columns are carried through.

Workers measure side by side, one on each physical core that this process may use, and leave
a core's second hardware thread idle. A block that was rejected for noise (unstable,
clock_drift, context_switch) is measured again when the rest is done, by another worker.

With -o a row is in the file as soon as its block is done, and when all are, the file is put
in the order of the input. Whatever ends the run before that, bbprof batch -resume with the
same arguments goes on with it. Ctrl-C ends it after the blocks in flight and prints that
command; a second one ends it at once.

Input:
  -column C       the column of blocks: its name, or its number from 1 (default: the one called
                  hex, else the first)
  -shard I/N      only part I, from 0, of N parts of the corpus, by a hash of the block; the
                  parts' results are joined by bbprof merge

Output:
  -o FILE         write to FILE, not to standard output, which is also -
  -format F       csv, with a header; jsonl, an object a line; parquet; bhive, which is hex and
                  cycles per 100 iterations of accepted blocks (default: as FILE is called, or
                  csv)
  -resume         go on with FILE, if it is there: CPU, settings, input and bbprof must be the same
  -overwrite      replace FILE, if it is there
  -unordered      leave rows in the order in which their blocks were done
  -disasm         add a column with the block's instructions
  -summary FILE   write what the summary on standard error says as JSON too

Measuring:
  -workers N      measure N blocks at a time (default: one a physical core, and no more than the
                  cgroup leaves CPU time for)
  -cpus LIST      CPUs to measure on, such as 0-3,8: a worker on each of the first N cores; the
                  others are moved to when one is busy (default: all allowed, the last first);
                  -cpu is the same
  -retries N      measure a noisy block up to N times more (default 2)
` + usageMeasuring + `
The columns are described in docs/results.md. The first are
  hex,status,reason,cycles,ci_low,ci_high,...
where status is ok, rejected or error, cycles are core cycles per iteration, and ci_low to
ci_high is their 95 % interval. What is not known is empty.

A summary goes to standard error, and with it how four blocks whose time is known fared on
each worker before the first row and behind the last (bbprof selftest); that they failed is
said at once, and ends nothing.

Examples:
  bbprof batch -o results.csv blocks.csv               go on after a power cut by adding -resume
  bbprof batch -column asm_hex -o r.parquet a.csv.zst b.csv.gz
  bbprof batch -shard 0/4 -o part0.csv blocks.csv      one of four machines
  cut -d, -f1 blocks.csv | head -100 | bbprof batch -

Exit codes:
  0    the end was reached, whatever the verdicts
  2    bad usage, or the input cannot be read
  3    this host cannot measure; the message says what would help
  4    bbprof itself failed, or the results cannot be written
  130  interrupted (SIGINT, SIGTERM): blocks in flight were finished; a second signal ends
       at once

README.md shows how to read the results, ARCHITECTURE.md how they come about.
`

const usageMerge = `bbprof merge joins the results of one corpus: those of its shards, or of runs that took
parts of it.

  bbprof merge [flags] FILE...   FILE is a result of bbprof batch, CSV or JSON lines

Rows go by their number in the corpus, column row, and come out in that order. What is not
there is reported: shards that no file is of, and numbers that no file has.

Flags:
  -o FILE         write to FILE, not to standard output; to one called .gz or .zst, compressed
  -format F       csv, jsonl, parquet or bhive (default: as FILE is called, or csv)
  -of CORPUS      the corpus, to find out also whether rows are missing behind the last; once
                  for each of its files
  -column C       its column of blocks, if bbprof batch was told
  -mixed          join parts of different microarchitectures or settings; column run tells them
                  apart

Examples:
  bbprof merge -o all.csv part0.csv part1.csv part2.csv part3.csv
  bbprof merge -of blocks.csv -o all.parquet part*.csv

Exit codes:
  0  everything is there
  1  rows or shards are missing; those that are there were joined
  2  bad usage, or files that do not belong together
  4  bbprof itself failed, or the result cannot be written
`

const usageConvert = `bbprof convert puts results of bbprof batch into another format.

  bbprof convert [flags] FILE...   FILE may be - for standard input

It reads CSV, JSON lines and Parquet, compressed with gzip or zstd or not, and goes by what is
in a file, not by its name. Rows keep their order and files follow each other. Nothing is lost
between CSV, JSON lines and Parquet; bhive keeps hex and cycles of accepted blocks alone.

Flags:
  -o FILE         write to FILE, not to standard output; to one called .gz or .zst, compressed
  -format F       csv, with a header; jsonl, an object a line; parquet; bhive, which is hex and
                  cycles per 100 iterations of accepted blocks, without a header (default: as
                  FILE is called, or csv)

Examples:
  bbprof convert -o results.parquet results.csv
  bbprof convert -format bhive results.csv > throughputs.csv

Exit codes:
  0  done
  2  bad usage, or a file that is no result
  4  the result cannot be written
`
