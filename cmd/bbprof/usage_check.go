package main

const usageCheck = `bbprof check measures the blocks of a baseline again and finds those that have become slower.

  bbprof check [flags] BASELINE.csv   a result of bbprof batch; - is standard input

It is for continuous integration: it exits with 1 if a block is slower by more than -threshold,
and lists such blocks. Of runs in which nothing has changed less than 5 % raise any alarm, however
many blocks there are. A block that looks slower is a suspect: when all others are done it is
measured again, once in each of eight new child processes. Only those values decide, by a test of
whether the slowdown exceeds the threshold, corrected for the number of blocks (Holm). What would be
an alarm is last measured with its code at four starts in a cache line: a block that is as fast as
its baseline at one of them has several speeds and is cleared.

A baseline of another microarchitecture, or measured with other flags, is refused.

Flags:
  -threshold P    slowdown to let pass: a share such as 0.05, or 5% (default 0.02)
  -blocks FILE    measure these blocks instead of the baseline's, row by row: what a new version
                  of a compiler made of the same sources
  -anyway         check against a baseline of another CPU, or measured with other flags
  -json           one JSON object on one line for each block
  -v              list all blocks
` + usageMeasuring + `
Examples:
  bbprof batch -o baseline.csv blocks.csv      once
  bbprof check baseline.csv                    from then on
  bbprof check -threshold 5% -blocks new.csv baseline.csv
  bbprof check -json baseline.csv | jq 'select(.status == "slower")'

Exit codes:
  0    no block is slower
  1    a block is slower
  2    bad usage, a baseline that cannot be read or is refused, or not one block that can be measured
  3    this host cannot measure, or left no block alone for long enough
  4    bbprof itself failed
  130  interrupted

docs/compare.md tells the method, its sources and an example in full.
`
