package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/explain"
	"github.com/bbprof/bbprof/profiler"
)

func explainCommand() *command {
	return &command{
		name:     "explain",
		summary:  "find which part of a set-up a block's or a program's time depends on",
		synopsis: []string{"explain [flags] -hex HEX", "explain [flags] -- PROGRAM [ARG...]"},
		about: `The set-up is that of a harness that takes no precautions: all pages on one frame, subnormals
computed, nothing rejected for what the addresses say, and the flags below on top. For each
hypothesis that applies to it, explain changes the one thing that removes the cause, holds all
else, and measures both set-ups alternately, in random order:
  4K aliasing         one pointer moves by some lines, until no load has the low 12 bits of a store
  frame sharing       each page gets a frame of its own
  line splits         the pointers move, together if possible, until no access crosses a line
  code alignment      the copies move to the one of 15 other places in a line that differs most,
                      after as many nops
  rename phase        other numbers of nops run before the copies, which stay at their place: they
                      meet the groups that the core renames in a cycle elsewhere
  subnormals          they count as zero
  L1I residency       as many copies as L1I holds, in both cases from the decoders
  op cache residency  as many copies as the op cache holds

The outcome is one of
  confirmed  the effect is at least 2 % of the cycles and its interval does not contain 0
  no effect  the interval lies within 2 %
  unclear    the interval is too wide to tell
  absent     the hypothesis does not apply to this set-up
  untested   no change was found that removes the cause and changes nothing else
The effect is with it minus without it, in cycles per iteration; all intervals together contain the
true values with 95 % probability.

Where the 24 layouts of a block differ (docs/layouts.md), explain says next how many of them each of
some rules is right about: the place of the code in its line, the slots of the rename groups that
were taken before the first copy, both, and the number of nops before it alone. Each rule predicts a
layout from measurements in others. Then it measures all layouts with more copies, from the
decoders, in a loop, and with pointers that are not equal, and says by how much they still differ.

Of a program, explain runs it with 256 sizes of the environment, three times each, takes the slowest
and a usual one, and then measures in turn, at the slowest,
  size of the environment  the usual size: is there an effect at all?
  start of the stack       held where it is at the usual size, with the slow environment
  environment itself       the usual size, with the stack held where the slow one puts it
  start of the heap        1088 bytes higher
  pages of the code        code and static data on other pages, at the same places in them
  aliasing accesses        what a load and a store with equal low 12 bits belong to (stack, heap, or
                           a block of malloc) moved until they differ
in cycles of the whole program; each interval contains the true median with 95 % probability. If
the start of the stack is confirmed, all sizes are run again with the stack held: is there a spread
left? Aliasing accesses are looked for in the first -window instructions of -trace FUNC, which
should be the function that the time is spent in. Where in its page the code stands is the linker's
choice: bbprof compare -link.
`,
		examples: `bbprof explain -frames 16 -set rdi=0x12346600 -hex '48890b 488b17 4883e200 4801d7'
bbprof explain -unroll 100,200 -hex HEX
bbprof explain -clean-env -trace kernel -- ./prog args
`,
		exits: map[int]string{exitOK: "every hypothesis was tested, whatever the outcomes", exitRejected: "the block is rejected in this set-up; the report says why",
			exitUsage: "", exitHost: "", exitInternal: "", exitInterrupted: "interrupted"},
		setup: func(f *flags) func(streams) error {
			e := explaining{flags: f,
				study: study{opts: profiler.Options{NoFTZ: true, NoRescue: true, Detail: true, Tolerate: tolerateAll()}},
				ask:   explain.Options{Rounds: explain.DefaultRounds, Seed: 1},
			}
			e.block.add(f)
			f.repeats(&e.ask.Rounds, 3, "rounds", "times that both set-ups are measured for each hypothesis")
			f.seed(&e.ask.Seed, "seed of the random order")
			e.out.add(f, "the table")
			e.plot.add(f)
			e.set.add(f)
			measuring(f, &e.opts)
			e.programs.declare(f)
			e.window = 3000 // as of sweep
			f.text(&e.traced, "trace", "FUNC", "look for aliasing accesses from the first instruction of FUNC on (default: main)")
			f.number(&e.window, 1, "window", "so many instructions")
			f.program = &e.words
			f.stray = "quote a block that has spaces in it, and write a program and its arguments after --"
			return e.run
		},
	}
}

type explaining struct {
	study
	flags *flags
	ask   explain.Options
	set   setupFlags

	// of a program
	words    []string
	programs programFlags
	traced   string // the function from which on a window is traced
	window   int
}

func (e *explaining) run(std streams) error {
	ofProgram := e.flags.of(programsTitle)
	switch {
	case len(e.words) > 0 && e.block.given():
		return badUsage("a block and the program %s: give one of them", e.words[0])
	case len(e.words) == 0 && ofProgram != "":
		return badUsage("-%s is for a program: write it and its arguments after --", ofProgram)
	case len(e.words) > 0 && e.ofBlock() != "":
		return badUsage("-%s is for a block, and %s is a program", e.ofBlock(), e.words[0])
	case len(e.words) > 0:
		ctx, stop := untilSignal()
		defer stop()
		return e.explainProgram(ctx, std)
	}
	block, err := e.block.read(std)
	if err != nil {
		return err
	}
	if err := oneMode(e.opts); err != nil {
		return err
	}
	setup := e.set.setup(&e.opts)
	setup.At = block.Setup.At
	if e.opts.NoFTZ {
		setup.NoFTZ, e.opts.NoFTZ = true, false // so that one arm can do without
	}
	if e.opts.Frames == profiler.AutoFrames {
		setup.Frames = 1
	}
	return e.out.profiling(std, e.opts, func(ctx context.Context, p *profiler.Profiler) error {
		got, err := explain.Explain(ctx, p, block.Code, setup, e.ask)
		if err != nil {
			return err
		}
		return e.show(std, got, explanation(got), got.Base, func() plot.Figure { return explain.Figure(got) })
	})
}

// ofBlock is the first flag on the command line that says nothing of a program, "" if there is none.
func (e *explaining) ofBlock() string {
	for _, name := range []string{"plot", "at", "address"} {
		if e.flags.has(name) {
			return name
		}
	}
	return e.flags.of(measuringTitle, "cpus", "cpu")
}

func explanation(e explain.Explanation) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%.3f cycles per iteration, 95 %% interval %.3f to %.3f, as set up\n", e.Base.Cycles, e.Base.CILow, e.Base.CIHigh)
	t := newTable("llrrl", "hypothesis", "outcome", "with", "without", "effect and its interval")
	for _, f := range e.Findings {
		why := f.Here
		if f.Change != "" {
			why += "; " + f.Change
		}
		if f.Rounds == 0 {
			t.row(f.Hypothesis, string(f.Outcome), "", "", why)
			continue
		}
		t.row(f.Hypothesis, string(f.Outcome), fmt.Sprintf("%.3f", f.With), fmt.Sprintf("%.3f", f.Without), fmt.Sprintf("%+.3f, %+.3f to %+.3f", f.Effect, f.Low, f.High))
		t.note(why)
	}
	w.WriteString(t.String())
	if e.Layouts != nil && len(e.Layouts.Rules) > 0 {
		w.WriteString(layoutsReport(*e.Layouts))
	}
	if causes := e.Causes(); len(causes) > 0 {
		fmt.Fprintf(&w, "confirmed: %s\n", strings.Join(causes, ", "))
	} else {
		w.WriteString("confirmed: none\n")
	}
	return w.String()
}

// layoutsReport says what decides between layouts, and what ends that they differ.
func layoutsReport(l explain.Layouts) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%d layouts differ by %.1f %%; what the number of nops before the copies and their place say of a layout:\n", len(l.Cycles), 100*l.Differ)
	t := newTable("lr", "rule", "layouts it is right about")
	for _, r := range l.Rules {
		t.row(r.Name, fmt.Sprintf("%d of %d", r.Right, r.Of))
	}
	w.WriteString(t.String())
	if rule := l.Decides(); rule != "" {
		fmt.Fprintf(&w, "what decides: %s\n", rule)
	}
	t = newTable("lrr", "with", "cycles", "layouts differ by")
	for _, c := range l.Ends {
		t.row(c.Name, fmt.Sprintf("%.3f", c.Cycles), fmt.Sprintf("%.1f %%", 100*c.Differ))
	}
	w.WriteString(t.String())
	if ended := l.Ended(); len(ended) > 0 {
		fmt.Fprintf(&w, "they no longer differ with: %s\n", strings.Join(ended, ", "))
	}
	return w.String()
}
