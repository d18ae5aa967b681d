package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/explain"
	"github.com/bbprof/bbprof/profiler"
)

const usageExplain = `bbprof explain asks which part of a set-up makes a block's time.

  bbprof explain [flags] -hex HEX

The set-up is that of a harness which does nothing about it: all pages on one frame, subnormals
computed, nothing rejected for what the addresses say, and the flags below on top. For each
hypothesis that is of something in it, explain changes one thing that takes it away, holds all
others, and measures both set-ups in turn, in random order:
  4K aliasing         one pointer moves by some lines, until no load has the low 12 bits of a store
  frame sharing       each page gets a frame of its own
  line splits         the pointers move, together if possible, until no access crosses a line
  code alignment      the copies move to that of 15 other places in a line that differs most
  subnormals          they count as zero
  L1I residency       as many copies as L1I holds, in both cases from the decoders
  op cache residency  as many copies as the op cache holds

The verdict is one of
  confirmed  the effect is at least 2 % of the cycles and its interval leaves out 0
  no effect  the interval lies within 2 %
  unclear    the interval is too wide to tell
  absent     the set-up has nothing of it
  untested   no change was found that takes it away and changes nothing else
The effect is with it minus without it, in cycles per iteration; all intervals together hold the
truth with 95 % probability.

Flags:
  -hex HEX        the block, as for bbprof -hex
  -rounds R       times that both set-ups are measured for each hypothesis (default 10)
  -seed S         of the random order (default 1)
  -json           one JSON object on one line instead of the table
` + usagePlot + usageSetup + usageMeasuring + `
Examples:
  bbprof explain -frames 16 -set rdi=0x12346600 -hex '48890b 488b17 4883e200 4801d7'
  bbprof explain -unroll 100,200 -hex HEX

Exit codes:
  0  every hypothesis was asked about, whatever the verdicts
  1  the block is rejected in this set-up; the report says why
  2  bad usage
  3  this host cannot measure; the message says what would help
  4  bbprof itself failed
  130  interrupted
`

// explaining is bbprof explain.
func explaining(args []string, std streams) int {
	var (
		opts   = profiler.Options{NoFTZ: true, NoRescue: true, Detail: true, Tolerate: tolerateAll()}
		ask    = explain.Options{Rounds: explain.DefaultRounds}
		set    setupFlags
		f      = newFlags("bbprof explain")
		text   = f.String("hex", "", "")
		asJSON = f.Bool("json", false, "")
		plot   plots
	)
	measuring(f, &opts)
	set.add(f)
	plot.add(f)
	f.Uint64Var(&ask.Seed, "seed", 1, "")
	f.Func("rounds", "", func(s string) (err error) {
		if ask.Rounds, err = strconv.Atoi(s); err != nil || ask.Rounds < 3 {
			return errors.New("write a number of rounds from 3 on")
		}
		return nil
	})
	operands, code, done := parse(f, args, usageExplain, std)
	switch {
	case done:
		return code
	case len(operands) > 0:
		return usageError(std, "explain: unexpected argument %q: quote a block that has spaces in it", operands[0])
	case *text == "":
		return usageError(std, "explain: no block: give one with -hex")
	case opts.Mode == profiler.Both:
		return usageError(std, "explain: -mode both gives two numbers; choose unroll or loop")
	}
	if err := opts.Check(); err != nil {
		return usageError(std, "%v", err)
	}
	block, err := readBlock(*text, std.in)
	if err != nil {
		return usageError(std, "explain: %v", err)
	}
	setup := set.setup(opts)
	if opts.NoFTZ {
		setup.NoFTZ, opts.NoFTZ = true, false // so that one arm can do without
	}
	if opts.Frames == profiler.AutoFrames {
		setup.Frames = 1
	}
	ctx, stop := untilSignal()
	defer stop()
	p, err := profiler.New(opts)
	if err != nil {
		return failure(std, err)
	}
	defer p.Close()
	got, err := explain.Explain(ctx, p, block.Code, setup, ask)
	if err != nil {
		return failure(std, err)
	}
	if *asJSON {
		err = json.NewEncoder(std.out).Encode(got)
	} else {
		_, err = io.WriteString(std.out, explanation(got))
	}
	if err == nil && got.Base.Status == profiler.OK {
		err = plot.draw(explain.Figure(got))
	}
	if err != nil {
		return failure(std, fmt.Errorf("writing the result: %w", err))
	}
	return verdictCode(got.Base, std)
}

// explanation is the table.
func explanation(e explain.Explanation) string {
	if e.Base.Status != profiler.OK {
		return report(e.Base)
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%.3f cycles per iteration, 95 %% interval %.3f to %.3f, as set up\n", e.Base.Cycles, e.Base.CILow, e.Base.CIHigh)
	fmt.Fprintf(&w, "%-20s%-11s%9s%9s  %s\n", "hypothesis", "verdict", "with", "without", "effect and its interval")
	for _, f := range e.Findings {
		fmt.Fprintf(&w, "%-20s%-11s", f.Hypothesis, f.Verdict)
		if f.Rounds > 0 {
			fmt.Fprintf(&w, "%9.3f%9.3f  %+.3f, %+.3f to %+.3f\n", f.With, f.Without, f.Effect, f.Low, f.High)
			fmt.Fprintf(&w, "%20s%s; %s\n", "", f.Here, f.Change)
			continue
		}
		fmt.Fprintf(&w, "%20s%s", "", f.Here)
		if f.Change != "" {
			fmt.Fprintf(&w, "; %s", f.Change)
		}
		w.WriteString("\n")
	}
	if causes := e.Causes(); len(causes) > 0 {
		fmt.Fprintf(&w, "confirmed: %s\n", strings.Join(causes, ", "))
	} else {
		w.WriteString("confirmed: none\n")
	}
	return w.String()
}
