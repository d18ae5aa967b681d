package study

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/cause"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/explain"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
	"github.com/bbprof/bbprof/profiler"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:     "explain",
		Summary:  "find which part of a set-up a block's or a program's time depends on",
		Synopsis: []string{"explain [flags] -hex HEX", "explain [flags] -- PROGRAM [ARG...]"},
		About: `It starts from a harness that takes no precautions (a frame for each page, as in a program;
subnormals computed; nothing rejected for its addresses) and the flags below. For each hypothesis it
changes the one thing that removes the cause, holds all else, and measures both set-ups in turn. An
outcome is
  confirmed  the effect is at least 2 % of the cycles, and its interval excludes 0
  no effect  the interval lies within 2 %
  unclear    the interval is too wide to tell
  absent     the hypothesis does not apply to this set-up
  untested   no change removes the cause and nothing else
It runs a program with 256 sizes of the environment, and tests what makes the slowest one slow.
`,
		Notes: "docs/explain.md explains the hypotheses, of blocks and of programs.\n",
		Examples: `bbprof explain -set rdi=0x12346600 -hex '48890b 488b17 4883e200 4801d7'
bbprof explain -clean-env -trace kernel -- ./prog args
`,
		Exits: cli.Exits("every hypothesis was tested, whatever the outcomes", "the block is rejected in this set-up; the report says why",
			map[int]string{cli.ExitInterrupted: "interrupted"}),
		Setup: func(f *cli.Flags) func(cli.Streams) error {
			e := explainCmd{flags: f,
				Study: blockflags.Study{Opts: profiler.Options{NoFTZ: true, NoRescue: true, Detail: true, Tolerate: blockflags.TolerateAll()}},
				plan:  experiment.Plan{Rounds: explain.DefaultRounds, Seed: 1},
			}
			e.Block.Add(f)
			f.Repeats(&e.plan.Rounds, 3, "rounds", "times that both set-ups are measured for each hypothesis")
			f.Seed(&e.plan.Seed, "seed of the random order")
			e.Out.Add(f, "the table")
			e.Plot.Add(f)
			blockflags.Flags(f, &e.Opts)
			e.programs.Declare(f)
			e.window = 3000 // as for sweep
			f.Text(&e.traced, "trace", "FUNC", "look for aliasing accesses from the first instruction of FUNC on (default: main)")
			f.Number(&e.window, 1, "window", "so many instructions")
			f.Program = &e.words
			f.Stray = "quote a block that has spaces in it, and write a program and its arguments after --"
			return e.Out.Resumable(f, e.run)
		},
	}
}

type explainCmd struct {
	blockflags.Study
	flags *cli.Flags
	plan  experiment.Plan

	// for programs
	words    []string
	programs programflags.Flags
	traced   string // where the traced window begins
	window   int
}

func (e *explainCmd) run(std cli.Streams) error {
	var r cli.Rules
	ofProgram, ofBlock, program := e.flags.Of(programflags.Title), e.ofBlock(), cli.First(e.words)
	r.Not(program != "" && e.Block.Given(), "a block and the program %s: give one of them", program)
	r.Not(program == "" && ofProgram != "", "-%s is for a program: write it and its arguments after --", ofProgram)
	r.Not(program != "" && ofBlock != "", "-%s is for a block, and %s is a program", ofBlock, program)
	if r.Err != nil {
		return r.Err
	}
	if program != "" {
		ctx, stop := cli.UntilSignal()
		defer stop()
		return e.explainProgram(ctx, std)
	}
	block, err := e.Block.Read(std)
	if err != nil {
		return err
	}
	if err := blockflags.OneMode(&e.Opts, profiler.Unroll); err != nil {
		return err
	}
	setup := blockflags.OneSetup(&e.Opts, block)
	if e.Opts.NoFTZ {
		setup.NoFTZ, e.Opts.NoFTZ = true, false // so that one arm can turn it off
	}
	if e.Opts.Frames == profiler.AutoFrames {
		setup.Frames = explain.FramesEach // as in the program
	}
	return blockflags.WithProfiler(std, e.Opts, func(ctx context.Context, p *pool.Patient) error {
		done := cli.Progress(e.Out.Notes(std), 0, "measurements")
		e.plan.Done = done.Step
		got, err := explain.Explain(ctx, p, block.Code, setup, e.plan)
		done.End()
		if err != nil {
			return err
		}
		return e.Show(std, got, explanation(got), got.Base, func() plot.Figure { return explain.Figure(got) })
	})
}

func (e *explainCmd) ofBlock() string {
	for _, name := range []string{"plot", "address"} {
		if e.flags.Has(name) {
			return name
		}
	}
	return e.flags.Of(blockflags.Title, "cpus", "cpu")
}

func explanation(e explain.Explanation) string {
	return fmt.Sprintf("%.3f cycles per iteration, 95 %% interval %.3f to %.3f, as set up\n", e.Base.Cycles, e.Base.CILow, e.Base.CIHigh) +
		findings(e.Findings, 3) + confirmed(e.Findings)
}

func findings(all []experiment.Finding, decimals int) string {
	t := cli.NewTable("llrrl", "hypothesis", "outcome", "with", "without", "effect and its interval")
	for _, f := range all {
		why := strings.Join(slices.DeleteFunc([]string{f.Here, f.Change}, func(s string) bool { return s == "" }), "; ")
		if f.Effect == nil {
			t.Row(f.Hypothesis, string(f.Outcome), "", "", why)
			continue
		}
		t.Row(f.Hypothesis, string(f.Outcome), fmt.Sprintf("%.*f", decimals, f.With), fmt.Sprintf("%.*f", decimals, f.Without),
			fmt.Sprintf("%+.*f, %+.*f to %+.*f", decimals, f.Effect.Size, decimals, f.Effect.Low, decimals, f.Effect.High))
		t.Note(why)
	}
	return t.String()
}

func confirmed(all []experiment.Finding) string {
	return "confirmed: " + cmp.Or(strings.Join(experiment.Confirmed(all), ", "), "none") + "\n"
}

func (e *explainCmd) explainProgram(ctx context.Context, std cli.Streams) error {
	notes := e.Out.Notes(std)
	c, err := e.programs.Command(ctx, e.words, e.Opts.CPUs, notes)
	if err != nil {
		return err
	}
	r, err := e.programs.Runner(e.Opts.CPUs, std)
	if err != nil {
		return err
	}
	p := cause.Plan{Runs: 3, Rounds: max(e.plan.Rounds, cause.LeastRounds), Seed: e.plan.Seed}
	for size := 0; size < 4096; size += 16 { // a page: the low 12 address bits repeat beyond it
		p.Sizes = append(p.Sizes, size)
	}
	p.Movable = c.Exe.Movable
	p.Trace, p.NoTrace = e.tracer(c)
	if p.Trace == nil && e.traced != "" {
		_, err := c.Exe.Function(e.traced)
		return err
	}
	fmt.Fprintf(notes, "bbprof: at most %s of %s on CPU %d; cycles are %s\n", words.Plural(p.Steps(), "run"), c.Name, r.CPU(), r.Describe())
	done := cli.Progress(notes, p.Steps(), "runs")
	p.Done = done.Step
	got, err := cause.Explain(ctx, r, c, p)
	done.End()
	return cli.Ended(err, got.Sizes > 0, func() error { return e.Out.Write(std, got, causes(got)) })
}

// tracer returns a function that traces a window of the program, from main on by default, or why there is none.
func (e *explainCmd) tracer(c launch.Command) (func(context.Context, launch.Setup) (trace.Counts, error), string) {
	w := trace.Window{Function: cmp.Or(e.traced, "main"), Instructions: e.window, Core: host.Detect(e.Opts.CPUs...).Core,
		Control: e.programs.On(e.Opts.CPUs), Blocks: true}
	if _, err := c.Exe.Function(w.Function); err != nil {
		return nil, "the program has no function main: name the one that its time is spent in by -trace"
	}
	return func(ctx context.Context, s launch.Setup) (trace.Counts, error) { return trace.Count(ctx, c, s, w) }, ""
}

func causes(e cause.Explanation) string {
	var w strings.Builder
	fmt.Fprintf(&w, "of %s of the environment the slowest is %d bytes; %d bytes are usual\n", words.Plural(e.Sizes, "size"), e.Slow, e.Usual)
	w.WriteString(findings(e.Findings, 0) + confirmed(e.Findings))
	if h := e.Held; h != nil {
		fmt.Fprintf(&w, "with the stack held where it starts at %d bytes, the slowest of the sizes is %d bytes: ", e.Usual, h.Slow)
		fmt.Fprintf(&w, "%.0f and %.0f cycles at %d bytes, effect %+.0f, %+.0f to %+.0f: ", h.With, h.Without, h.Usual,
			h.Effect.Size, h.Effect.Low, h.Effect.High)
		w.WriteString(map[stat.Outcome]string{stat.Confirmed: "the sizes still differ", stat.NoEffect: "the spread has collapsed",
			stat.Unclear: "unclear"}[h.Outcome] + "\n")
	}
	if e.Incomplete {
		w.WriteString("incomplete: interrupted; hypotheses with too few runs are left out\n")
	}
	return w.String()
}
