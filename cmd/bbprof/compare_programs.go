package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
)

func (c *comparing) runs(ctx context.Context, a, b []string, std streams) error {
	out, err := c.comparePrograms(ctx, a, b, std)
	if err != nil && (out == nil || !out.Incomplete) {
		return err
	}
	return cmp.Or(c.show(out, std), err)
}

func (c *comparing) comparePrograms(ctx context.Context, a, b []string, std streams) (*comparison, error) {
	var commands [2]program.Command
	for i, words := range [][]string{a, b} {
		var err error
		if commands[i], err = program.NewCommand(words); err != nil {
			return nil, err
		}
		commands[i].CleanEnv = c.cleanEnv
	}
	opts := c.programs
	opts.CPUs, opts.Stderr = c.measuring.CPUs, std.err
	r, err := program.NewRunner(opts)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ofA := program.Layouts(c.layouts, c.seed)
	ofB := ofA
	if c.unpaired {
		ofB = program.Layouts(c.layouts, ^c.seed)
	}
	done := progress(c.out.notes(std), c.layouts*c.repetitions, "runs")
	defer done.end()
	pairs, err := program.Compare(ctx, r, program.Side{Command: commands[0], Setups: ofA}, program.Side{Command: commands[1], Setups: ofB},
		program.Plan{Runs: c.repetitions, Seed: c.seed, Done: done.step})
	if err != nil && !(stopped(err) && len(pairs) > 1) {
		return nil, err
	}
	out := &comparison{
		A: compared{Command: strings.Join(a, " ")}, B: compared{Command: strings.Join(b, " ")},
		Seed: c.seed, Repetitions: c.repetitions, Cycles: fmt.Sprintf("%s; on CPU %d", r.Describe(), r.CPU()), unit: "cycles a run", Incomplete: err != nil,
	}
	for i, p := range pairs {
		layout := compare.Layout{Number: i + 1, Env: p.Setup.EnvBytes, Stack: p.Setup.StackShift, Heap: p.Setup.HeapShift}
		out.Pairs = append(out.Pairs, compare.Pair{Layout: layout, A: p.A, B: p.B})
	}
	return out, cmp.Or(err, out.conclude(c.unpaired))
}
