package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/cause"
	"github.com/bbprof/bbprof/internal/stat"
)

func (e *explaining) explainProgram(ctx context.Context, std streams) error {
	c, err := e.programs.command(e.words)
	if err != nil {
		return err
	}
	r, err := e.programs.runner(e.opts.CPUs, std)
	if err != nil {
		return err
	}
	defer r.Close()
	p := cause.Plan{Runs: 3, Rounds: max(e.ask.Rounds, leastRounds), Seed: e.ask.Seed}
	for size := 0; size < 4096; size += 16 { // a page, beyond which addresses repeat in their low 12 bits
		p.Sizes = append(p.Sizes, size)
	}
	notes := e.out.notes(std)
	fmt.Fprintf(notes, "bbprof: %s of %s on CPU %d; cycles are %s\n", plural(p.Steps(), "run"), c.Name, r.CPU(), r.Describe())
	done := progress(notes, p.Steps(), "runs")
	p.Done = done.step
	got, err := cause.Explain(ctx, r, c, p)
	done.end()
	if err != nil && !(stopped(err) && got.Sizes > 0) {
		return err
	}
	return cmp.Or(e.out.write(std, got, causes(got)), err)
}

// leastRounds is the fewest for an interval of a median.
const leastRounds = 6

func causes(e cause.Explanation) string {
	var w strings.Builder
	fmt.Fprintf(&w, "of %s of the environment the slowest is %d bytes; %d bytes are usual\n", plural(e.Sizes, "size"), e.Slow, e.Usual)
	t := newTable("llrrl", "hypothesis", "outcome", "with", "without", "effect and its interval")
	var confirmed []string
	for _, f := range e.Findings {
		t.row(f.Hypothesis, string(f.Outcome), whole(f.With), whole(f.Without), fmt.Sprintf("%+.0f, %+.0f to %+.0f", f.Effect, f.Low, f.High))
		t.note(f.Change)
		if f.Outcome == stat.Confirmed {
			confirmed = append(confirmed, f.Hypothesis)
		}
	}
	w.WriteString(t.String())
	if len(confirmed) == 0 {
		confirmed = []string{"none"}
	}
	fmt.Fprintf(&w, "confirmed: %s\n", strings.Join(confirmed, ", "))
	if e.Incomplete {
		w.WriteString("incomplete: interrupted; hypotheses with too few runs are left out\n")
	}
	return w.String()
}
