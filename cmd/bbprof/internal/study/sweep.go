package study

import (
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/running"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
)

func sweepCommand() *cli.Command {
	return &cli.Command{
		Name:     "sweep",
		Summary:  "vary one factor of a set-up and hold all others",
		Synopsis: []string{"sweep FACTOR [flags] -hex HEX", "sweep -env RANGE [flags] -- PROGRAM [ARG...]", "sweep -heap RANGE [flags] -- PROGRAM [ARG...]"},
		About: `A RANGE is FROM:TO or FROM:TO:STEP, with both ends. Nothing is rejected for its addresses. The table
has the cycles at each value (the median run) and, beside them, what the trace predicts: aliasing
and forwarded loads, splits, misses. Standard error has the correlation of each with the cycles, and
the values that stand out.

-env pads a program's environment, and -heap moves its heap; address randomisation is off. Cycles
are the median over the runs, with a 95 % interval from 6 runs on. -trace FUNC counts what addresses
do in -window instructions from the first call of FUNC on. The program runs with your rights and
unconfined: bbprof does not protect your files from it. All processes that it starts are ended.
`,
		Notes: `docs/explain.md has worked examples of blocks and programs.
`,
		Examples: `bbprof sweep -distance 0:8192:16 -regs rsi,rdi -plot d.svg -hex '48 89 0b 48 8b 17' > d.csv
bbprof sweep -env 0:4096:16 -runs 25 -clean-env -- ./prog     the same in every shell
`,
		Exits: map[int]string{cli.ExitOK: "all was measured", cli.ExitRejected: "no value could be measured; the table says why",
			cli.ExitUsage: "bad usage, or a program that cannot be run, crashes, fails or does not end", cli.ExitHost: "", cli.ExitInternal: "", cli.ExitInterrupted: ""},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			s := sweeping{flags: f, seed: 1}
			s.declare(f)
			return s.run
		},
	}
}

type sweeping struct {
	measuring.Study
	flags  *cli.Flags
	factor string // its flag
	values []int
	runs   int
	seed   uint64

	// of a block
	setup  measuring.SetupFlags
	regs   []asm.Reg
	events []string
	listed []profiler.Event // of -eventlist

	// of a program
	words    []string
	programs running.Flags
	traced   string // the function from which on a window is traced
	window   int
	stores   int // that a load is held against; 0 is the store buffer
}

// Groups of flags that do not go together.
const (
	factorTitle = "FACTOR, of which one is varied"
	blockTitle  = "Of a block"
)

func (s *sweeping) declare(f *cli.Flags) {
	f.Section(factorTitle)
	for _, d := range []struct{ name, help string }{
		{"code", "where the first copy stands, in bytes from the start of a page"},
		{"data", "bytes added to the registers of -regs: what the environment's size does to a stack (default of -regs: rsp,rbp)"},
		{"distance", "how many bytes the second of the two registers of -regs is above the first"},
		{"copies", "copies in the longer image, four times those of the shorter"},
		{"framecount", "on how many physical pages, called frames, the block's pages stand"},
		{programFactors[0].flag, programFactors[0].help},
		{programFactors[1].flag, programFactors[1].help},
	} {
		f.Declare(cli.Flag{Name: d.name, Arg: "RANGE", Help: d.help, Set: func(text string) (err error) {
			if s.factor != "" && s.factor != d.name {
				return fmt.Errorf("-%s varies too: vary one factor at a time", s.factor)
			}
			s.factor = d.name
			s.values, err = parseValues(d.name, text)
			return err
		}})
	}
	f.Section("Flags")
	f.Repeats(&s.runs, 1, "runs", "runs with each value, in random order").Fallback = "3, of a program 10"
	f.Seed(&s.seed, "seed of the random order")
	s.Out.Add(f, "the table")
	s.Plot.Add(f)
	measuring.CPUFlag(f, &s.Opts.CPUs, measuring.CPUHelp)
	s.programs.Declare(f)
	f.Text(&s.traced, "trace", "FUNC", "count what the addresses say, by single steps from FUNC's first instruction on")
	s.window = 3000
	f.Number(&s.window, 1, "window", "so many instructions with each value")
	f.Number(&s.stores, 0, "stores", "hold each load against the last N stores only (default: as many as the store buffer holds)").Fallback = ""
	f.Section(blockTitle)
	s.Block.Add(f)
	cli.Parsed(f, &s.regs, measuring.ParseRegisters, "regs", "A[,B...]", "the registers of -data and -distance")
	cli.Parsed(f, &s.listed, readEventList, "eventlist", "FILE", "the events of a vendor's list in JSON, as well as those of -events, from "+
		"github.com/intel/perfmon or from tools/perf/pmu-events/arch/x86 of Linux")
	s.setup.Add(f)
	measuring.Flags(f, &s.Opts)
	f.Program = &s.words
	f.Stray = "quote a block that has spaces in it, and write a program and its arguments after --"
}

func (s *sweeping) run(std cli.Streams) error {
	ofBlock := s.flags.Of(blockTitle)
	if ofBlock == "" {
		ofBlock = s.flags.Of(measuring.Title, "events") // which programs have too
	}
	ofProgram := s.flags.Of(running.Title)
	f := ofPrograms(s.factor)
	switch {
	case s.factor == "":
		return cli.BadUsage("no factor to vary: give one of -%s", strings.Join(s.flags.In(factorTitle), ", -"))
	case f != nil && ofBlock != "":
		return cli.BadUsage("-%s is for a block, and -%s varies a program's set-up", ofBlock, s.factor)
	case f != nil && len(s.words) == 0:
		return cli.BadUsage("no program: write it and its arguments after --")
	case f == nil && ofProgram != "":
		return cli.BadUsage("-%s is for a program, and -%s varies a block's set-up", ofProgram, s.factor)
	case f == nil && len(s.words) > 0:
		return cli.BadUsage("-%s varies a block's set-up: leave out the program %s", s.factor, s.words[0])
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	if f != nil {
		return s.sweepProgram(ctx, f, std)
	}
	return s.sweepBlock(ctx, std)
}

func (s *sweeping) orDefault(runs int) int {
	if s.runs > 0 {
		return s.runs
	}
	return runs
}

// maxValues is how many values a sweep of a block may have: both pages in single bytes.
const maxValues = 2*layout.PageSize + 1

func parseValues(factor, s string) ([]int, error) {
	r, err := program.ParseRange(s)
	switch {
	case err != nil:
		return nil, err
	case ofPrograms(factor) != nil:
		if err := ofPrograms(factor).setup(r.To).Check(); err != nil {
			return nil, err
		}
	case (r.To-r.From)/r.Step >= maxValues:
		return nil, fmt.Errorf("%s has more than %d values: take a larger step", s, maxValues)
	}
	return r.Values(), nil
}
