package main

const usageCompare = `bbprof compare tells whether b is slower or faster than a, wherever both may stand.

  bbprof compare [flags] -a BLOCK -b BLOCK   two blocks
  bbprof compare [flags] -a FILE -b FILE     row by row: two files with a block in the first column
  bbprof compare [flags] -a 'CMD' -b 'CMD'   two programs with their arguments

Where code and data stand moves the speed of both, by more than many a change does. So both
sides are measured in many layouts drawn at random, the same for both; in each the difference is
taken, and the mean of all differences is tested (paired t-test). It is called a difference if
chance would make one as large in less than 5 % of such comparisons. Of two files, that is the
chance of even one false difference among all pairs (Holm).

A layout of blocks is: a start of the code in its page, a place of the data in their page, and
which side goes first. Both sides get the same initial state. A layout of programs is a size of the environment (up to 4096 bytes more) and a start of the stack (up to
8 KiB lower), with address randomisation off; a program is measured from its entry to its end.
Programs run with your rights and unconfined: bbprof does not protect your files from them. All
processes that they start are ended with them.

Flags:
  -a A, -b B      the two sides. Hexadecimal digits are a block, as -hex takes it; what begins with
                  the name of a program is a command, in which quotes work as in a shell (/bin/dd for
                  one whose name is digits); anything else is a file of blocks, - is standard input
  -layouts N      layouts to measure in (default 33)
  -trials N       measurements of each side in each layout (default 3); their median counts
  -seed N         makes other layouts (default 1); the same seed makes the same
  -unpaired       b in other layouts than a, and Welch's t-test: what is lost without pairs
  -plot FILE      draw the distributions; FILE ends in .svg, .png or .pdf
  -json           one JSON object on one line for each pair, with all values
  -v              list the layouts, with what was measured and what one alone would have said
Of programs:
  -timeout TIME   longest that one run may take, such as 30s (default 1m)
  -stdin FILE     what both read as standard input (default /dev/null); what they write is dropped,
                  except the first 1 MiB to standard error of a run that does not count
  -any-status     take a program that ends with an exit status other than 0
  -clean-env      give both no environment but the padding
Of blocks, and -cpu of both:
` + usageMeasuring + `
How to read the report:
  the first line  the verdict, b against a: the mean of the differences with its 95 % interval
  a, b            cycles per iteration, or a run, over the layouts: mean, least and most
  won             in how many layouts a, or b, took less
  alone           what a comparison in one layout alone would have said, by its trials
  detects         the true difference that so many layouts find in 4 of 5 runs; "no difference"
                  says nothing of a smaller one. More layouts find smaller ones

Examples:
  bbprof compare -a 4801c0 -b 480fafc0
  bbprof compare -a 488b03480fafc1 -b 480faf0b -layouts 99 -plot lea.svg
  bbprof compare -a './old in.txt' -b './new in.txt' -trials 5
  bbprof compare -a before.csv -b after.csv -json | jq 'select(.verdict == "slower")'

Exit codes:
  0    compared, whatever the verdict
  1    a block is rejected (of files: in every pair); the report says why
  2    bad input or usage, or a program that cannot be run, crashes, fails or does not end
  3    this host cannot measure; the message says what would help
  4    bbprof itself failed
  130  interrupted

docs/compare.md tells the method, its sources and an example in full.
`
