package study

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/running"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
)

// placed are two programs, each in as many places, and what the layout of each place is.
type placed struct {
	commands [2]string // as the user wrote them
	places   [2][]program.Place
	layouts  []compare.Layout
}

func (c *comparing) runs(ctx context.Context, a, b []string, std cli.Streams) error {
	r, err := c.programs.Runner(c.measuring.CPUs, std)
	if err != nil {
		return err
	}
	defer r.Close()
	sides, close, err := c.place(ctx, [2][]string{a, b}, c.linking.args, std)
	if err != nil {
		return err
	}
	defer close()
	done := cli.Progress(c.out.Notes(std), c.runsOf(sides), "runs")
	out, err := c.comparePrograms(ctx, r, sides, std, done.Step)
	done.End()
	if err != nil && (out == nil || !out.Incomplete) {
		return err
	}
	return cmp.Or(c.show(out, std), err)
}

// runsOf is how often the two programs run.
func (c *comparing) runsOf(sides placed) int { return 2 * len(sides.layouts) * c.repetitions }

// place puts two programs in their layouts. close is to be called when they have been run.
func (c *comparing) place(ctx context.Context, words [2][]string, args []string, std cli.Streams) (sides placed, close func(), err error) {
	sides.commands = [2]string{strings.Join(words[0], " "), strings.Join(words[1], " ")}
	if c.linking.on {
		close, err = c.link(ctx, &sides, words, args, std)
		return sides, close, err
	}
	setups := [2][]program.Setup{program.Layouts(c.layouts, c.seed), program.Layouts(c.layouts, c.seed)}
	if c.unpaired {
		setups[1] = program.Layouts(c.layouts, ^c.seed)
	}
	for i := range words {
		command, err := c.programs.Command(ctx, words[i], c.measuring.CPUs, c.out.Notes(std))
		if err != nil {
			return sides, nil, err
		}
		sides.places[i] = program.In(command, setups[i])
	}
	for i, s := range setups[0] {
		sides.layouts = append(sides.layouts, layoutOf(i+1, s))
	}
	return sides, func() {}, nil
}

func layoutOf(number int, s program.Setup) compare.Layout {
	return compare.Layout{Number: number, Env: s.EnvBytes, Stack: s.StackShift, Heap: s.HeapShift}
}

// comparePrograms measures two programs and concludes. If ctx ends, its error comes with what the layouts
// until then say, if that is anything.
func (c *comparing) comparePrograms(ctx context.Context, r *program.Runner, sides placed, std cli.Streams, step func(int)) (*Comparison, error) {
	pairs, err := program.Compare(ctx, r, sides.places[0], sides.places[1], program.Plan{Runs: c.repetitions, Seed: c.seed, Done: step})
	running.NoteLeft(r, c.out.Notes(std))
	if err != nil && !(cli.Stopped(err) && len(pairs) > 1) {
		return nil, err
	}
	out := &Comparison{
		A: compared{Command: sides.commands[0]}, B: compared{Command: sides.commands[1]},
		Seed: c.seed, Repetitions: c.repetitions, Cycles: fmt.Sprintf("%s; on CPU %d", r.Describe(), r.CPU()), unit: "cycles a run", Incomplete: err != nil,
	}
	for i, p := range pairs {
		out.Pairs = append(out.Pairs, compare.Pair{Layout: sides.layouts[i], A: p.A, B: p.B})
	}
	if concludeErr := out.conclude(c); concludeErr != nil { // interrupted too early for it, if err is there
		return nil, cmp.Or(err, concludeErr)
	}
	return out, err
}
