package study

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measure"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/running"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

func compareCommand() *cli.Command {
	return &cli.Command{
		Name:    "compare",
		Summary: "tell which of two blocks or programs is faster, wherever they may stand",
		Synopsis: []string{"compare [flags] -a BLOCK -b BLOCK  (two blocks)",
			"compare [flags] -a FILE -b FILE    (row by row: two files with a block in the first column)",
			"compare [flags] -a 'CMD' -b 'CMD'  (two programs with their arguments)",
			"compare -link [flags] -a 'LINK' -b 'LINK' [-- ARG...]  (linked in each layout)",
			"compare -suite FILE [-link] [flags]  (several programs)"},
		About: `Where code and data stand changes the speed of both, often by more than the change in question. So
both sides are measured in many random layouts, the same for both, and the mean of the differences
is tested (paired t-test at 5 %; of two files or a suite, adjusted by Holm). Of blocks, the start of
the code and the place of the data vary; of programs the environment, the stack and the heap. With
-link the code moves too: A and B are commands that link, such as 'gcc -O2 -o {out} a.o b.o'. Each
runs once for each layout, with -lld, -objects or {seed} to put code and data elsewhere.

Programs run with your rights and unconfined: bbprof does not protect your files from them. All
processes that they start are ended with them.
`,
		Notes: `docs/compare.md explains the report, the test and -link.
`,
		Examples: `bbprof compare -a 4801c0 -b 480fafc0
bbprof compare -a 'lea rax, [rax+rax]' -b 'add rax, rax'
bbprof compare -link -lld both -a 'gcc -o {out} O2.o' -b 'gcc -o {out} O3.o' -- in.txt
`,
		Exits: map[int]string{cli.ExitOK: "compared, whatever the verdict", cli.ExitRejected: "a block is rejected (of files: in every pair); the report says why",
			cli.ExitUsage: "bad input or usage, or a program that cannot be run, crashes, fails or does not end",
			cli.ExitHost:  "", cli.ExitInternal: "", cli.ExitInterrupted: ""},
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			c := comparing{flags: f, layouts: 33, repetitions: 3, seed: 1, linking: linking{setups: 1}}
			c.declare(f)
			return c.run
		},
	}
}

type comparing struct {
	flags       *cli.Flags
	measuring   profiler.Options
	a, b        string
	suite       string
	layouts     int
	repetitions int
	seed        uint64
	unpaired    bool
	apart       bool // pointers
	out         cli.Output
	plot        measuring.PlotFile
	verbose     bool
	programs    running.Flags
	linking     linking
}

func (c *comparing) declare(f *cli.Flags) {
	f.Stray = "the sides are named by -a and -b"
	f.Text(&c.a, "a", "A", "the one side. Hexadecimal digits are a block, as -hex takes it, and assembly is one, as -asm takes it; what begins with the name of a program is a "+
		"command, in which quotes work as in a shell (/bin/dd for one whose name is digits); anything else is a file of blocks, - is standard input")
	f.Text(&c.b, "b", "B", "the other side")
	f.Text(&c.suite, "suite", "FILE", "instead of A and B: CSV of several programs with the columns name, a and b, and if need be stdin and, of -link, args")
	f.Repeats(&c.layouts, 2, "layouts", "layouts to measure in")
	f.Repeats(&c.repetitions, 1, "trials", "measurements of each side in each layout; their median counts")
	f.Seed(&c.seed, "makes other layouts; the same seed makes the same")
	f.Toggle(&c.unpaired, "unpaired", "b in other layouts than a, and Welch's t-test: shows what pairing gains")
	f.Toggle(&c.apart, "apart", "of blocks: place what each register points to by itself, as an allocator may, and not all data together. rsp and rbp stay together, and "+
		"pointers may then alias in their low 12 bits")
	f.Toggle(&c.out.JSON, "json", "one JSON object on one line for each pair, with all values")
	c.out.AddFile(f)
	c.plot.Add(f)
	f.Toggle(&c.verbose, "v", "of one comparison: list the layouts, with what was measured and what one alone would have said")
	measuring.CPUFlag(f, &c.measuring.CPUs, measuring.CPUHelp)
	c.programs.Declare(f)
	c.linking.declare(f)
	measuring.Flags(f, &c.measuring)
}

func (c *comparing) run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.linking.on || c.suite != "" {
		ctx, stop := cli.UntilSignal()
		defer stop()
		if c.suite != "" {
			return c.runSuite(ctx, std)
		}
		return c.linkCommands(ctx, std)
	}
	a, err := readSide("-a", c.a, std)
	if err != nil {
		return err
	}
	b, err := readSide("-b", c.b, std)
	if err != nil {
		return err
	}
	ofBlocks, ofRuns := c.flags.Of(measuring.Title), c.flags.Of(running.Title)
	switch {
	case a.kind != b.kind:
		return cli.BadUsage("one side is a %s and the other a %s; give two of a kind", a.kind, b.kind)
	case a.kind == aCommand && c.apart:
		return cli.BadUsage("-apart is for blocks, and these are programs")
	case a.kind == aCommand && ofBlocks != "":
		return cli.BadUsage("-%s is for blocks, and these are programs", ofBlocks)
	case a.kind != aCommand && ofRuns != "":
		return cli.BadUsage("-%s is for programs, and these are blocks", ofRuns)
	case a.kind == aFile && c.verbose:
		return cli.BadUsage("-v lists the layouts of one comparison, and files make several; -json has them")
	case len(a.rows) != len(b.rows):
		return cli.BadUsage("%s in %s and %d in %s: rows are compared in pairs, so there must be as many in both", words.Plural(len(a.rows), "block"), c.a, len(b.rows), c.b)
	}
	if a.kind == aCommand {
		ctx, stop := cli.UntilSignal()
		defer stop()
		return c.runs(ctx, a.words, b.words, std)
	}
	return measuring.WithProfiler(c.measuring, func(ctx context.Context, p *profiler.Profiler) error {
		if a.kind == aFile {
			return c.files(ctx, p, a.rows, b.rows, std)
		}
		done := cli.Progress(c.out.Notes(std), 2*c.layouts*c.repetitions, "measurements")
		out, err := c.compare(ctx, p, a.rows[0], b.rows[0], done.Step)
		done.End()
		if err != nil && !out.Incomplete {
			return err
		}
		return cmp.Or(c.show(out, std), err)
	})
}

func (c *comparing) check() error {
	switch {
	case c.suite != "" && (c.flags.Has("a") || c.flags.Has("b")):
		return cli.BadUsage("-suite names both sides of each program: leave out -a and -b")
	case c.suite != "" && c.flags.Of(measuring.Title) != "":
		return cli.BadUsage("-%s is for blocks, and -suite is for programs", c.flags.Of(measuring.Title))
	case c.suite != "" && c.apart:
		return cli.BadUsage("-apart is for blocks, and -suite is for programs")
	case c.suite != "" && c.verbose:
		return cli.BadUsage("-v lists the layouts of one comparison, and -suite makes several; -json has them")
	case c.suite != "": // nothing else to check of the sides
	case !c.flags.Has("a") || !c.flags.Has("b"):
		return cli.BadUsage("two sides are needed: -a and -b, such as -a 4801c0 -b 480fafc0")
	case c.a == "-" && c.b == "-":
		return cli.BadUsage("standard input can be one side only")
	}
	const mostDraws = 10 * cli.MostRepeated
	if c.layouts > mostDraws/c.repetitions {
		return cli.BadUsage("-layouts %d, each with -trials %d, are too many measurements; %d are the most", c.layouts, c.repetitions, mostDraws)
	}
	if err := c.checkLink(); err != nil {
		return err
	}
	return measuring.OneMode(c.measuring)
}

type Comparison struct {
	Name               string   `json:"name,omitempty"` // in a suite
	A                  compared `json:"a"`
	B                  compared `json:"b"`
	Seed               uint64   `json:"seed"`
	Cycles             string   `json:"cycles_are,omitempty"` // of programs: how they were found
	Repetitions        int      `json:"trials"`
	compare.Conclusion          // nothing where Rejection is
	Adjusted           float64  `json:"p_adjusted,omitzero"` // among the pairs of two files
	LayoutsForPercent  int      `json:"layouts_for_1_percent,omitzero"`

	Rejection  *verdict.Rejection `json:"rejection,omitempty"`
	Side       string             `json:"rejected_side,omitempty"`
	Incomplete bool               `json:"incomplete,omitempty"` // interrupted before the last layout
	Failure    string             `json:"failure,omitempty"`    // of bbprof itself, in one pair of two files

	Pairs   []compare.Pair    `json:"pairs,omitempty"`
	Dropped []compare.Dropped `json:"dropped,omitempty"`

	unit string // of the values
}

type compared struct {
	Command      string `json:"command,omitempty"`
	Hex          string `json:"hex,omitempty"`
	Instructions int    `json:"instructions,omitzero"`
	Bytes        int    `json:"bytes,omitzero"`
	Init         string `json:"init,omitempty"`
	Line         int    `json:"line,omitzero"` // of its file

	Cycles *compare.Summary `json:"cycles,omitempty"` // over the layouts
}

// ofRow describes the block of a row before it is measured.
func ofRow(row input.Row) compared {
	if row.Rejection != nil {
		return compared{Hex: row.Rejected().Hex, Line: row.Line}
	}
	insts, _ := asm.Decode(row.Code) // up to what is no instruction
	return compared{Hex: hex.EncodeToString(row.Code), Instructions: len(insts), Bytes: len(row.Code), Line: row.Line}
}

// compare measures one pair and tells step of each measurement. What is wrong with a block is in the
// comparison. If ctx ends, its error comes with what the layouts until then say, if that is anything.
func (c *comparing) compare(ctx context.Context, p measure.Profiler, a, b input.Row, step func(n int)) (*Comparison, error) {
	out := &Comparison{Seed: c.seed, Repetitions: c.repetitions, A: ofRow(a), B: ofRow(b), unit: "cycles per iteration"}
	for i, row := range []input.Row{a, b} {
		if row.Rejection != nil {
			out.Rejection, out.Side = row.Rejection, "ab"[i:i+1]
			return out, nil
		}
	}
	sides, first, err := compare.Blocks(ctx, p, a.Block(), b.Block())
	out.A.Init, out.B.Init = first[0].Init.Name, first[1].Init.Name
	if err == nil {
		n := 0
		told := func(m compare.Measure) compare.Measure {
			return func(ctx context.Context, l compare.Layout) (float64, error) {
				n++
				defer step(n)
				return m(ctx, l)
			}
		}
		layouts := c.draw(c.seed)
		if c.unpaired {
			out.Pairs, out.Dropped, err = compare.RunUnpaired(ctx, layouts, c.draw(^c.seed), told(sides[0]), told(sides[1]))
		} else {
			out.Pairs, out.Dropped, err = compare.Run(ctx, layouts, told(sides[0]), told(sides[1]))
		}
		if out.Incomplete = cli.Stopped(err) && len(out.Pairs) > 1; err == nil || out.Incomplete {
			err = cmp.Or(err, out.conclude(c))
		}
	}
	var (
		side      *compare.SideError
		rejection *verdict.Rejection
	)
	if errors.As(err, &side) && errors.As(err, &rejection) {
		out.Rejection, out.Side = rejection, side.Side
		return out, nil
	}
	return out, err
}

func (c *comparing) draw(seed uint64) []compare.Layout {
	layouts := compare.Draw(seed, c.layouts, c.repetitions)
	if c.apart {
		for i, l := range layouts {
			layouts[i] = l.Spread(seed)
		}
	}
	return layouts
}

func (out *Comparison) conclude(c *comparing) (err error) {
	switch {
	case c.linking.on:
		out.Conclusion, err = compare.Linked(out.Pairs, c.linking.setups)
		out.Pairs = out.Pairs[:out.Layouts]
	case c.unpaired:
		out.Conclusion, err = compare.Unpaired(out.Pairs)
	default:
		out.Conclusion, err = compare.Paired(out.Pairs)
	}
	if err == nil { // else nothing says how fast the sides are: Conclusion's own keys a and b are these structures'
		out.A.Cycles, out.B.Cycles = &out.Conclusion.A, &out.Conclusion.B
	}
	if c.linking.setups == 1 { // else it depends on the set-ups too
		out.LayoutsForPercent = out.LayoutsFor(1)
	}
	return err
}

func (c *comparing) show(out *Comparison, std cli.Streams) error {
	if err := c.out.Write(std, out, out.report(c)); err != nil {
		return err
	}
	if out.Rejection != nil {
		return cli.ErrRejected
	}
	return c.plot.Draw("a: "+out.A.subject()+"\nb: "+out.B.subject(), c.measuring.CPUs, compare.Figure(out.unit, out.Conclusion, out.Pairs))
}
