package study

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/explain"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/sweep"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/profiler"
)

func sweepCommand() *cli.Command {
	return &cli.Command{
		Name:     "sweep",
		Summary:  "vary one factor of a set-up and hold all others",
		Synopsis: []string{"sweep FACTOR [flags] -hex HEX", "sweep -values [flags] -hex HEX", "sweep -env RANGE [flags] -- PROGRAM [ARG...]  (or -heap, -arg)"},
		About: `A RANGE is FROM:TO or FROM:TO:STEP, with both ends. The table has the cycles at each value (the
median run) and, beside them, what the trace predicts: aliasing and forwarded loads, splits, misses.
Standard error has the correlation of each with the cycles, and the values that stand out.

Of a program, -env pads the environment, -heap moves the heap and -arg replaces {} in the arguments;
address randomisation is off, and intervals take 6 runs. With -repeat K cycles are
(t_K - t_1)/(K - 1), those of one repetition. Programs run with your rights and unconfined: bbprof
does not protect your files from them. All processes that they start are ended.
`,
		Notes: "docs/explain.md has worked examples of blocks and programs, docs/values.md of operands.\n",
		Examples: `bbprof sweep -distance 0:8192:16 -regs rsi,rdi -plot d.svg -hex '48 89 0b 48 8b 17' > d.csv
bbprof sweep -env 0:4096:16 -runs 25 -clean-env -- ./prog     the same in every shell
bbprof sweep -values -hex '48 0f af c3'    does the time of imul depend on its operands?
bbprof sweep -arg 0:256:16 -repeat 20 -- ./convolution {k} {}
`,
		Exits: cli.Exits("all was measured", "no value could be measured; the table says why",
			map[int]string{cli.ExitUsage: "bad usage, or a program that cannot be run, crashes, fails or does not end"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			s := sweepCmd{flags: f, seed: 1}
			s.declare(f)
			return s.Out.Resumable(f, s.run)
		},
	}
}

type sweepCmd struct {
	blockflags.Study
	flags            *cli.Flags
	factor           string // the varied flag
	values           []int
	subject, aliases string // for the result: a block's name in a plot; a program's aliasing accesses
	runs             int
	seed             uint64

	// for blocks
	operands bool   // vary the values of operands
	state    string // captured, for those
	regs     []asm.Reg
	events   []string

	// for programs
	words    []string
	programs programflags.Flags
	traced   string // where the traced window begins
	repeat   int    // 1: cycles are per run
	window   int
}

const (
	factorTitle = "FACTOR, of which one is varied"
	blockTitle  = "Of a block"
)

func (s *sweepCmd) declare(f *cli.Flags) {
	f.Section(factorTitle)
	for _, d := range sweep.Factors {
		s.declareFactor(f, d.Flag, d.Help)
	}
	f.Toggle(&s.operands, "values", "the values of each operand that a block reads, and of all together")
	s.declareFactor(f, "env", "the size of a program's environment, in bytes")
	s.declareFactor(f, "heap", "by how many bytes a program's heap starts higher")
	s.declareFactor(f, "arg", "a number among a program's arguments, in the place of {}, or after them")
	f.Section("Flags")
	f.Repeats(&s.runs, 1, "runs", "runs with each value, in random order").Fallback = "3, of a program 10"
	f.Seed(&s.seed, "seed of the random order")
	s.Out.Add(f, "the table")
	s.Plot.Add(f)
	blockflags.CPUFlag(f, &s.Opts.CPUs, blockflags.CPUHelp)
	s.programs.Declare(f)
	s.repeat = 1
	f.Repeats(&s.repeat, 2, "repeat", "run the program with K and with 1 for {k} among its arguments").Arg = "K"
	f.Lookup("repeat").Fallback = ""
	f.Text(&s.traced, "trace", "FUNC", "count what the addresses say, by single steps from FUNC's first instruction on")
	s.window = 3000
	f.Number(&s.window, 1, "window", "so many instructions with each value")
	f.Section(blockTitle)
	s.Block.Add(f)
	f.Text(&s.state, "state", "FILE", "FILE#N: vary the values of -values in this captured state")
	cli.Parsed(f, &s.regs, blockflags.ParseRegisters, "regs", "A[,B...]", "the registers of -data and -distance")
	blockflags.Flags(f, &s.Opts)
	f.Program = &s.words
	f.Stray = "quote a block that has spaces in it, and write a program and its arguments after --"
}

func (s *sweepCmd) declareFactor(f *cli.Flags, name, help string) {
	f.Declare(cli.Flag{Name: name, Arg: "RANGE", Help: help, Set: func(text string) (err error) {
		if s.factor != "" && s.factor != name {
			return fmt.Errorf("-%s varies too: vary one factor at a time", s.factor)
		}
		s.factor = name
		s.values, err = parseValues(name, text)
		return err
	}})
}

func (s *sweepCmd) run(std cli.Streams) error {
	ofBlock := cmp.Or(s.flags.Of(blockTitle), s.flags.Of(blockflags.Title, "events")) // which programs have too
	ofProgram, words := s.flags.Of(programflags.Title), strings.Join(s.words, " ")
	_, varied := programFactors[s.factor]
	var r cli.Rules
	r.Not(s.operands && s.factor != "", "-values varies too: vary one factor at a time, not -%s", s.factor)
	r.Not(s.operands && words != "", "-values varies a block's operands: leave out the program %s", cli.First(s.words))
	r.Not(s.state != "" && !s.operands, "-state is for -values")
	r.Not(s.operands && ofProgram != "", "-%s is for a program, and -values varies a block's operands", ofProgram)
	r.Not(s.operands && len(s.regs) > 0, "-regs is for -data and -distance")
	r.Not(s.operands && len(s.Plot) > 0, "-plot is for factors that are numbers")
	if r.Err == nil && s.operands {
		return s.sweepValues(std)
	}
	same := map[string]string{"copies": "unroll", "framecount": "frames"}[s.factor]
	r.Not(same != "" && s.flags.Has(same), "-%s varies what -%s sets: leave that out", s.factor, same)
	r.Not(s.flags.Has("window") && s.traced == "", "-window is for -trace")
	r.Not(s.factor == "", "no factor to vary: give one of -%s", strings.Join(s.flags.In(factorTitle), ", -"))
	r.Not(varied && ofBlock != "", "-%s is for a block, and -%s varies a program's set-up", ofBlock, s.factor)
	r.Not(varied && words == "", "no program: write it and its arguments after --")
	r.Not(!varied && ofProgram != "", "-%s is for a program, and -%s varies a block's set-up", ofProgram, s.factor)
	r.Not(!varied && words != "", "-%s varies a block's set-up: leave out the program %s", s.factor, cli.First(s.words))
	r.Not(s.repeat > 1 && !strings.Contains(words, repetitions),
		"-repeat puts %d and 1 in the place of %s: write that among the program's arguments", s.repeat, repetitions)
	if r.Err != nil {
		return r.Err
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	var got sweep.Sweep
	var err error
	if varied {
		got, err = s.sweepProgram(ctx, std)
	} else {
		got, err = s.sweepBlock(ctx, std)
	}
	return s.finish(std, got, err)
}

func (s *sweepCmd) finish(std cli.Streams, got sweep.Sweep, err error) error {
	return cli.Ended(err, got.Points != nil, func() error {
		got.Incomplete = err != nil
		if writeErr := s.write(std, got); writeErr != nil || err != nil {
			return writeErr
		}
		io.WriteString(s.Out.Notes(std), got.Summary()+s.aliases)
		if !slices.ContainsFunc(got.Points, func(p sweep.Point) bool { return !math.IsNaN(p.Cycles) }) {
			return cli.ErrRejected
		}
		return s.Plot.Draw(cmp.Or(strings.Join(s.words, " "), s.subject), s.Opts.CPUs, got.Figure())
	})
}

// maxValues limits a block's sweep: both pages in single bytes.
const maxValues = 2*layout.PageSize + 1

func parseValues(factor, s string) ([]int, error) {
	r, err := launch.ParseRange(s)
	if err != nil {
		return nil, err
	}
	if f, found := programFactors[factor]; found && factor != "arg" {
		if err := f.setup(r.To).Check(); err != nil {
			return nil, err
		}
	} else if (r.To-r.From)/r.Step >= maxValues {
		return nil, fmt.Errorf("%s has more than %d values: take a larger step", s, maxValues)
	}
	return r.Values(), nil
}

// write writes the table, or with -json one object with the factor and its points: keys are the table's columns, except
// the first, value; unknown values have no key. An incomplete table says so in a column, since its rows may look like a
// complete one's.
func (s *sweepCmd) write(std cli.Streams, got sweep.Sweep) error {
	rows := got.Table()
	if !s.Out.JSON {
		if got.Incomplete {
			rows[0] = append(rows[0], "incomplete")
			for i := range rows[1:] {
				rows[i+1] = append(rows[i+1], "true")
			}
		}
		return s.Out.Stream(std, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) })
	}
	rows[0][0] = "value"
	points := []map[string]any{}
	for _, row := range rows[1:] {
		point := map[string]any{}
		for i, cell := range row {
			if number := json.Number(cell); cell != "" && strings.Trim(cell, "+-.0123456789") == "" && json.Valid([]byte(cell)) {
				point[rows[0][i]] = number
			} else if cell != "" {
				point[rows[0][i]] = cell
			}
		}
		points = append(points, point)
	}
	return s.Out.Write(std, struct {
		Factor     string           `json:"factor"`
		Points     []map[string]any `json:"points"`
		Incomplete bool             `json:"incomplete,omitempty"`
	}{got.Factor, points, got.Incomplete}, "")
}

const blockRuns = 3

func (s *sweepCmd) sweepBlock(ctx context.Context, std cli.Streams) (got sweep.Sweep, err error) {
	block, err := s.Block.Read(std)
	if err != nil {
		return got, err
	}
	if err := blockflags.OneMode(&s.Opts, profiler.Unroll); err != nil {
		return got, err
	}
	base := blockflags.OneSetup(&s.Opts, block)
	base.Tolerate = blockflags.TolerateAll()
	if s.Opts.Frames == profiler.AutoFrames {
		base.Frames = explain.FramesEach
	}
	factor, err := sweep.Of(s.factor, base, s.regs, s.values)
	if err != nil {
		return got, cli.BadUsage("-%s: %w", s.factor, err)
	}
	s.Opts.Detail = true // includes the predictions
	s.events, s.Opts.Events = s.Opts.Events, nil
	s.subject = blockflags.BlockSubject(fmt.Sprintf("%x", block.Code))
	results, events, err := s.measure(ctx, block.Code, factor, std)
	if results == nil {
		return got, err
	}
	return sweep.OfBlock(block.Code, factor, results, events), err
}

func (s *sweepCmd) measure(ctx context.Context, code []byte, f sweep.Factor, std cli.Streams) ([]profiler.Result, []sweep.Column, error) {
	p, err := profiler.New(ctx, s.Opts)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	events, err := s.selected(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	plan := experiment.Plan{Rounds: cmp.Or(s.runs, blockRuns), Seed: s.seed}
	done := cli.Progress(s.Out.Notes(std), len(f.Values)*plan.Rounds, "measurements")
	plan.Done = done.Step
	kept := pool.Kept{Journal: std.Kept, Options: s.Opts}.ProfileCloser(p)
	results, err := sweep.Run(ctx, pool.NewPatient(kept), code, f, plan)
	done.End()
	if err != nil || len(events) == 0 {
		return results, nil, err
	}
	done = cli.Progress(s.Out.Notes(std), len(events), "events")
	defer done.End()
	plan.Done = done.Step
	columns, err := sweep.Screen(ctx, s.counting(ctx, std), code, f, events, plan)
	return results, columns, err
}

// selected returns the events to screen. An event named by the user that cannot be counted is an error.
func (s *sweepCmd) selected(ctx context.Context, p *profiler.Profiler) (events []string, err error) {
	if slices.Contains(s.events, "all") {
		if events, err = p.AllEvents(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range s.events {
		if name == "all" {
			continue
		}
		if err := p.CanCount(ctx, name); err != nil {
			return nil, err
		}
		events = append(events, name)
	}
	return events, nil
}

func (s *sweepCmd) counting(ctx context.Context, std cli.Streams) sweep.Open {
	return func(events []string) (pool.ProfileCloser, error) {
		opts := s.Opts
		opts.Events = slices.Concat(opts.Events, events)
		return blockflags.Open(ctx, std, opts)
	}
}
