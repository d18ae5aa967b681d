package study

import (
	"cmp"
	"context"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/link"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/profiler"
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:    "compare",
		Summary: "tell which of several blocks or programs is faster, wherever they may stand",
		Synopsis: []string{"compare [flags] -a BLOCK -b BLOCK [-b BLOCK...]  (blocks)",
			"compare [flags] -a 'CMD' -b 'CMD' [-b 'CMD'...]  (programs with their arguments)",
			"compare -link [flags] -a 'LINK' -b 'LINK' [-- ARG...]  (linked in each layout)",
			"compare -suite FILE [-link] [flags]  (several programs)", "compare -against THERE.json HERE.json  (results of -json, such as of two machines)"},
		About: `Where code and data stand changes the speed of both, often by more than the change in question. So
all sides are measured in many random layouts, the same for all, and the means of their differences
from A are tested (paired t-test at 5 %, jointly; of a suite, adjusted by Holm). Of blocks, the
start of the code and the place of the data vary; of programs the environment, the stack and the
heap. With -link the code moves too: the sides are commands that link, once for each layout.

Programs run with your rights and unconfined: bbprof does not protect your files from them. All
processes that they start are ended with them.
`,
		Notes: "docs/compare.md explains the report, the test and -link.\n",
		Examples: `bbprof compare -a 4801c0 -b 480fafc0 -b 'lea rax, [rax+rax]'
bbprof compare -env 0:4096:64 -plot curve.svg -a ./prog-O2 -b ./prog-O3
bbprof compare -link -lld both -a 'gcc -o {out} O2.o' -b 'gcc -o {out} O3.o' -- in.txt
`,
		Exits: cli.Exits("compared, whatever the verdict", "a block is rejected; the report says why",
			map[int]string{cli.ExitUsage: "bad input or usage, or a program that cannot be run, crashes, fails or does not end"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := compareCmd{flags: f, layouts: 33, trials: 3, seed: 1, setups: 1, minEffect: 0.005}
			c.declare(f)
			return c.out.Resumable(f, c.run)
		},
	}
}

type compareCmd struct {
	flags     *cli.Flags
	measuring profiler.Options
	a         string
	b         []string
	suite     string
	against   string
	results   []string // result files for -against
	layouts   int
	trials    int
	seed      uint64
	minEffect float64
	env       []int
	apart     bool // move each pointer separately
	out       cli.Output
	plot      blockflags.PlotFile
	programs  programflags.Flags

	// for linked programs
	link    bool
	preset  link.Preset
	objects []string
	setups  int
	args    []string // of the programs
}

const linkTitle = "Of programs that are linked in each layout"

func (c *compareCmd) declare(f *cli.Flags) {
	f.Operands = &c.results
	f.Text(&c.a, "a", "A", "the side that others are compared with. Hexadecimal digits are a block, as -hex takes "+
		"it, and assembly is one, as -asm takes it; what begins with the "+
		"name of a program is a command, in which quotes work as in a shell (/bin/dd for one whose name is digits)")
	f.List(&c.b, "b", "B", "another side; given again, more sides: c, d and so on")
	f.Text(&c.suite, "suite", "FILE", "instead of A and B: CSV of several programs with the columns name, a and b, and if need be stdin and, of -link, args")
	f.Text(&c.against, "against", "FILE", "measure nothing: join a result of -json with FILE, of the same comparisons on another machine")
	f.Repeats(&c.layouts, 2, "layouts", "layouts to measure in")
	cli.Parsed(f, &c.env, func(s string) ([]int, error) { return parseValues("env", s) }, "env", "RANGE",
		"of programs: these sizes of the environment, FROM:TO:STEP "+
			"in bytes, instead of random layouts: the speed-up as a curve")
	f.Repeats(&c.trials, 1, "trials", "measurements of each side in each layout; their median counts")
	f.Seed(&c.seed, "makes other layouts; the same seed makes the same")
	cli.Parsed(f, &c.minEffect, cli.ParseShare, "min-effect", "P", "no difference below P, a fraction or a percentage, is called one: layouts enough tell what "+
		"matters to nobody").Fallback = "0.5%"
	f.Toggle(&c.apart, "apart", "of blocks: place what each register points to by itself, as an allocator may; rsp and rbp stay together. "+
		"Pointers may then alias in their low 12 bits")
	f.Toggle(&c.out.JSON, "json", "one JSON object on one line for each pair, with the values of each layout")
	c.out.AddFile(f)
	c.plot.Add(f)
	blockflags.CPUFlag(f, &c.measuring.CPUs, blockflags.CPUHelp)
	c.programs.Declare(f)
	f.Section(linkTitle)
	f.Toggle(&c.link, "link", "the sides are command lines that link a program: {out} stands for the file to write, {seed} for a number. "+
		"Words after -- are its arguments")
	cli.Choice(f, &c.preset, link.Presets(), "lld", "WHAT",
		"have lld place at random: padding between sections, the order of sections, or both. Adds its flags to the sides")
	cli.Parsed(f, &c.objects, launch.Words, "objects", "FILES",
		"object files, separated by spaces, in another order in each layout: given, alphabetical, then random. "+
			"A word with {objects}, such as O2/{objects}, is repeated for each")
	f.Repeats(&c.setups, 1, "setups", "cross each link with so many sizes of the environment and starts of stack and "+
		"heap, the same for all. 1: each link has one of its own")
	f.Program = &c.args
	blockflags.Flags(f, &c.measuring)
}

func (c *compareCmd) run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := cli.UntilSignal()
	defer stop()
	if c.against != "" {
		return c.join(std)
	}
	if c.suite != "" {
		suite, err := c.readSuite(std.In)
		if err != nil {
			return cli.Usage(err)
		}
		return c.runPrograms(ctx, suite, std)
	}
	sides, err := c.readSides()
	if err != nil {
		return err
	}
	if sides[0].kind == aCommand {
		var m member
		for _, s := range sides {
			m.sides = append(m.sides, s.words)
		}
		return c.runPrograms(ctx, []member{m}, std)
	}
	return blockflags.WithProfiler(std, c.measuring, func(ctx context.Context, p *pool.Patient) error {
		return c.runBlocks(ctx, p, sides, std)
	})
}

func (c *compareCmd) sides() []string { return append([]string{c.a}, c.b...) }

func (c *compareCmd) readSides() (sides []side, err error) {
	for i, text := range c.sides() {
		s, err := c.readSide(compare.FlagOf(compare.Name(i)), text)
		if err != nil {
			return nil, err
		}
		if sides = append(sides, s); s.kind != sides[0].kind {
			return nil, cli.BadUsage("one side is a %s and the other a %s; give sides of one kind", sides[0].kind, s.kind)
		}
	}
	ofBlocks, ofRuns := c.flags.Of(blockflags.Title), c.flags.Of(programflags.Title)
	var r cli.Rules
	kind := sides[0].kind
	r.Not(kind == aCommand && c.apart, "-apart is for blocks, and these are programs")
	r.Not(kind == aCommand && ofBlocks != "", "-%s is for blocks, and these are programs", ofBlocks)
	r.Not(kind != aCommand && ofRuns != "", "-%s is for programs, and these are blocks", ofRuns)
	r.Not(kind != aCommand && c.env != nil, "-env is for programs, and these are blocks")
	return sides, r.Err
}

const mostSides = 26

func (c *compareCmd) check() error {
	var r cli.Rules
	given, ofBlocks, ofLinks := c.flags.Has("a") || c.flags.Has("b"), c.flags.Of(blockflags.Title), c.flags.Of(linkTitle)
	if c.against != "" {
		r.Not(given || c.suite != "" || len(c.results) != 1,
			"-against joins two results of compare -json: name one more file, and leave out -a, -b and -suite")
		return r.Err
	}
	r.Not(len(c.results) > 0, "unexpected argument %q: the sides are named by -a and -b", cli.First(c.results))
	if c.suite != "" {
		r.Not(given, "-suite names both sides of each program: leave out -a and -b")
		r.Not(ofBlocks != "", "-%s is for blocks, and -suite is for programs", ofBlocks)
		r.Not(c.apart, "-apart is for blocks, and -suite is for programs")
	} else {
		r.Not(!c.flags.Has("a") || !c.flags.Has("b"), "two sides are needed: -a and -b, such as -a 4801c0 -b 480fafc0")
	}
	r.Not(len(c.b) >= mostSides, "too many sides: at most %d", mostSides)
	if c.env != nil {
		r.Not(c.flags.Has("layouts"), "-env gives the layouts: leave out -layouts")
		r.Not(len(c.env) < 2, "-env: a curve takes two sizes or more, such as 0:4096:64")
		r.Not(c.link, "-env varies only the environment, but -link varies all placement: leave out one of them")
		c.layouts = len(c.env)
	}
	if c.link {
		r.Not(c.apart, "-apart is for blocks, and -link is for programs")
		r.Not(c.flags.Has("program"),
			"-program is for a command that becomes another program by exec, and -link runs what it has linked: leave out -program")
		r.Not(ofBlocks != "", "-%s is for blocks, and -link is for programs", ofBlocks)
	} else {
		r.Not(ofLinks != "", "-%s is for programs that are linked: add -link", ofLinks)
		r.Not(c.args != nil, "words after --: without -link, a program's arguments are part of -a and -b")
	}
	const mostDraws = 10 * cli.MostRepeated
	r.Not(c.layouts > mostDraws/c.trials, "-layouts %d, each with -trials %d, are too many measurements: at most %d", c.layouts, c.trials, mostDraws)
	return cmp.Or(r.Err, blockflags.OneMode(&c.measuring, profiler.Loop))
}
