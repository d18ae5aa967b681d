package study

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/cause"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/trace"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/words"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/stat"
)

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
	p := cause.Plan{Runs: 3, Rounds: max(e.ask.Rounds, cause.LeastRounds), Seed: e.ask.Seed}
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
func (e *explainCmd) tracer(c program.Command) (func(context.Context, program.Setup) (trace.Counts, error), string) {
	w := trace.Window{Function: cmp.Or(e.traced, "main"), Instructions: e.window, Core: host.Detect(e.Opts.CPUs...).Core,
		Control: e.programs.On(e.Opts.CPUs), Blocks: true}
	if _, err := c.Exe.Function(w.Function); err != nil {
		return nil, "the program has no function main: name the one that its time is spent in by -trace"
	}
	return func(ctx context.Context, s program.Setup) (trace.Counts, error) { return trace.Count(ctx, c, s, w) }, ""
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
