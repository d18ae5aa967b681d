package study

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bbprof/bbprof/asm"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/blockflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/resultfile"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/experiment"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/pool"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/launch"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/link"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/programflags"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/study/compare"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// ofRow describes a row's block before it is measured.
func ofRow(row input.Row) sideReport {
	if row.Rejection != nil {
		return sideReport{Hex: row.Rejected().Hex, Line: row.Line}
	}
	insts, _ := asm.Decode(row.Code) // up to the first invalid instruction
	return sideReport{Hex: hex.EncodeToString(row.Code), Instructions: len(insts), Bytes: len(row.Code), Line: row.Line}
}

func (c *compareCmd) runBlocks(ctx context.Context, p pool.Profiler, sides []side, std cli.Streams) error {
	var rows []input.Row
	for _, s := range sides {
		rows = append(rows, s.row)
	}
	done := cli.Progress(c.out.Notes(std), (len(rows)+1)*c.layouts*c.trials, "measurements") // and the control
	all, err := c.blocks(ctx, p, rows, done.Step)
	done.End()
	return (&comparisons{compareCmd: c, all: all, what: "side", end: err}).finish(std)
}

// blocks compares each block with the first and reports each measurement to step. Problems with a block are in the
// comparisons. If ctx ends, its error comes with the conclusion of the layouts so far, if any.
func (c *compareCmd) blocks(ctx context.Context, p pool.Profiler, rows []input.Row, step func(n int)) ([]*Comparison, error) {
	described, blocks := make([]sideReport, len(rows)), make([]profiler.Block, len(rows))
	var rejected *compare.SideError
	for i, row := range rows {
		described[i] = ofRow(row)
		if blocks[i] = row.Block(); row.Rejection != nil && rejected == nil {
			rejected = &compare.SideError{Side: compare.Name(i), Err: row.Rejection}
		}
	}
	if rejected != nil {
		return c.conclude(described, nil, nil, rejected)
	}
	sides, first, err := compare.Blocks(ctx, p, blocks)
	for i, r := range first {
		described[i].Init, described[i].Set = r.Init.Name, r.Init.Set
	}
	if err != nil {
		return c.conclude(described, nil, nil, err)
	}
	layouts := compare.Draw(c.seed, c.layouts)
	for i, l := range layouts {
		if c.apart {
			layouts[i] = l.Spread(c.seed)
		}
	}
	control := len(sides)
	sides = append(sides, func(ctx context.Context, l compare.Layout) (float64, error) {
		v, err := sides[0](ctx, l)
		if err != nil {
			err = &compare.SideError{Side: compare.Name(0), Err: err}
		}
		return v, err
	})
	measured, dropped, err := compare.Run(ctx, layouts, experiment.Plan{Rounds: c.trials, Seed: c.seed, Done: step}, sides)
	against, few := compare.Paired(compare.Pairs(measured, control), 1)
	for i, m := range measured {
		measured[i].Sides = m.Sides[:control]
	}
	all, err := c.conclude(described, measured, dropped, err)
	for _, out := range all {
		if few == nil && out.Rejection == nil {
			out.Control(against)
		}
	}
	return all, err
}

// conclude compares each side with the first over the layouts measured before err. If there are too few, it returns nil
// and err. A rejected side is in the comparisons.
func (c *compareCmd) conclude(sides []sideReport, measured []compare.Measured, dropped []compare.Dropped, err error) (all []*Comparison, _ error) {
	var (
		side      *compare.SideError
		rejection *verdict.Rejection
	)
	rejected := errors.As(err, &side) && errors.As(err, &rejection)
	if err != nil && !rejected && !(cli.Stopped(err) && len(measured) > 1) {
		return nil, err
	}
	for i := 1; i < len(sides); i++ {
		out := c.comparison(sides, i)
		out.Dropped, out.Pairs = dropped, compare.Pairs(measured, i)
		if all = append(all, out); rejected {
			out.Rejection, out.Side = rejection, side.Side
			continue
		}
		out.Incomplete, out.measured = err != nil, measured
		var conclusion compare.Conclusion
		var few error
		if c.link {
			conclusion, few = compare.Linked(out.Pairs, c.setups, len(sides)-1)
		} else {
			conclusion, few = compare.Paired(out.Pairs, len(sides)-1)
		}
		if few != nil { // interrupted too early, if err is set
			return nil, cmp.Or(err, few)
		}
		out.Conclusion, out.Pairs = &conclusion, out.Pairs[:conclusion.Layouts]
		out.Ignore(100 * c.minEffect)
		out.A.Cycles, out.B.Cycles = &out.Conclusion.A, &out.Conclusion.B // Conclusion's own keys a and b are these structures'
		out.Adjusted = out.P
		if c.setups == 1 && len(sides) == 2 { // otherwise it depends on the set-ups or on other sides too
			out.LayoutsForPercent = out.LayoutsFor(1)
		}
	}
	if rejected {
		err = nil
	}
	return all, err
}

// comparison describes that of a side with the first before it is measured.
func (c *compareCmd) comparison(sides []sideReport, i int) *Comparison {
	machine := host.ThisMachine()
	out := &Comparison{Machine: &machine, A: sides[0], B: sides[i], Seed: c.seed, Host: blockflags.Machine(c.measuring.CPUs), Trials: c.trials,
		unit: "cycles per iteration"}
	if out.Settings = resultfile.SettingsOf(c.measuring); sides[0].Command != "" {
		out.Settings, out.unit = map[string]any{"clean-env": c.programs.CleanEnv, "env": c.env != nil}, "cycles a run"
		if c.link {
			out.Settings["lld"], out.Settings["objects"], out.Settings["setups"] = string(c.preset), len(c.objects) > 0, c.setups
		}
	} else if c.apart {
		out.Settings["apart"] = true
	}
	return out
}

// A member is one comparison of programs: command lines that run each side, or with -link, that link it.
type member struct {
	name  string // in a suite
	stdin string
	sides [][]string
	args  []string // of the programs that are linked
}

// placement holds programs in as many places each, and the layout of each place.
type placement struct {
	commands []sideReport
	places   [][]launch.Place
	layouts  []compare.Layout
}

// runPrograms compares each member's programs, one member or a suite. It links all before it measures any, to find link
// errors early.
func (c *compareCmd) runPrograms(ctx context.Context, members []member, std cli.Streams) error {
	var placed []placement
	for _, m := range members {
		p, close, err := c.place(ctx, m, std)
		if err != nil {
			return m.named(err)
		}
		defer close()
		placed = append(placed, p)
	}
	each := len(placed[0].commands) * len(placed[0].layouts) * c.trials
	done := cli.Progress(c.out.Notes(std), len(members)*each, "runs")
	measured := func(i int) ([]*Comparison, error) {
		return c.measurePrograms(ctx, members[i], placed[i], std, func(n int) { done.Step(i*each + n) })
	}
	r := &comparisons{compareCmd: c, what: "side"}
	var failed error
	if c.suite == "" {
		r.all, r.end = measured(0)
	} else {
		failed = r.ofSuite(members, placed, measured)
	}
	done.End()
	return cmp.Or(r.finish(std), failed)
}

func (m member) named(err error) error {
	if m.name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", m.name, err)
}

// place sets programs up in their layouts. Call close after they have run.
func (c *compareCmd) place(ctx context.Context, m member, std cli.Streams) (p placement, close func(), err error) {
	for _, line := range m.sides {
		p.commands = append(p.commands, sideReport{Command: strings.Join(line, " ")})
	}
	if c.link {
		close, err = c.linkAll(ctx, &p, m, std)
		return p, close, err
	}
	setups := launch.Layouts(c.layouts, c.seed)
	for i, size := range c.env {
		setups[i] = launch.Setup{EnvBytes: size, EqualStack: true}
	}
	for _, line := range m.sides {
		command, err := c.programs.Command(ctx, line, c.measuring.CPUs, c.out.Notes(std))
		if err != nil {
			return p, nil, err
		}
		p.places = append(p.places, launch.In(command, setups))
	}
	for i, s := range setups {
		p.layouts = append(p.layouts, layoutOf(i+1, s))
	}
	return p, func() {}, nil
}

func layoutOf(number int, s launch.Setup) compare.Layout {
	return compare.Layout{Number: number, Env: s.EnvBytes, Stack: s.StackShift, Heap: s.HeapShift}
}

// linkAll links all sides in each layout.
func (c *compareCmd) linkAll(ctx context.Context, p *placement, m member, std cli.Streams) (close func(), err error) {
	var recipes []link.Recipe
	for i, line := range m.sides {
		r := link.Recipe{Side: compare.FlagOf(compare.Name(i)), Words: line, Preset: c.preset}
		if err := r.Check(len(c.objects) > 0); err != nil {
			return nil, cli.Usage(err)
		}
		recipes = append(recipes, r)
	}
	linker, err := link.NewLinker()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			linker.Close()
		}
	}()
	variants := link.Variants(c.layouts, c.seed, c.objects)
	done := cli.Progress(c.out.Notes(std), len(m.sides)*c.layouts, "links")
	defer done.End()
	own := launch.Layouts(max(c.layouts, c.setups), c.seed)
	for i := range recipes {
		commands, err := linker.Link(ctx, recipes[i], variants, slices.Concat(m.args, c.args), func(n int) { done.Step(i*c.layouts + n) })
		if err != nil {
			return nil, err
		}
		var places []launch.Place
		for k, command := range commands {
			command.CleanEnv = c.programs.CleanEnv
			setups := own[k : k+1]
			if c.setups > 1 {
				setups = own[:c.setups]
			}
			places = append(places, launch.In(command, setups)...)
		}
		p.places = append(p.places, places)
	}
	for i, at := range p.places[0] {
		layout, v := layoutOf(i+1, at.Setup), variants[i/c.setups]
		layout.Link, layout.Order, layout.Objects = v.Seed, v.Order, v.Objects
		p.layouts = append(p.layouts, layout)
	}
	return linker.Close, nil
}

// from has the times of all sides begin at the same point, and names it: without the dynamic linker's work a program
// that is linked dynamically has done less when it enters its own code than one that is linked statically.
func (p *placement) from() string {
	kinds := map[bool]bool{}
	for _, at := range slices.Concat(p.places...) {
		kinds[at.Command.Exe.Dynamic] = true
	}
	if len(kinds) < 2 {
		return "each program's own first instruction, after dynamic linking"
	}
	for _, places := range p.places {
		for i := range places {
			places[i].Setup.FromExec = true
		}
	}
	return "exec, with dynamic linking, since not all sides are linked so"
}

// measurePrograms compares each program with the first. If ctx ends, its error comes with the conclusion of the layouts
// so far, if any.
func (c *compareCmd) measurePrograms(ctx context.Context, m member, p placement, std cli.Streams, step func(int)) ([]*Comparison, error) {
	programs := c.programs
	programs.Stdin = cmp.Or(m.stdin, programs.Stdin)
	r, err := programs.Runner(c.measuring.CPUs, std)
	if err != nil {
		return nil, err
	}
	var sides []compare.Measure
	from := p.from()
	for _, places := range p.places {
		if err := r.WarmUp(ctx, places[0].Command, places[0].Setup); err != nil {
			return nil, err
		}
		sides = append(sides, func(ctx context.Context, l compare.Layout) (float64, error) {
			at := places[l.Number-1]
			return r.Run(ctx, at.Command, at.Setup)
		})
	}
	measured, dropped, err := compare.Run(ctx, p.layouts, experiment.Plan{Rounds: c.trials, Seed: c.seed, Done: step}, sides)
	if side := (*compare.SideError)(nil); errors.As(err, &side) {
		err = side.Err // it names the program
	}
	programflags.NoteLeft(r, c.out.Notes(std))
	all, err := c.conclude(p.commands, measured, dropped, err)
	for _, out := range all {
		out.Cycles = fmt.Sprintf("%s; from %s, to the end; on CPU %d", r.Describe(), from, r.CPU())
		out.Settings["stdin"], out.Settings["args"] = programs.Stdin, strings.Join(slices.Concat(m.args, c.args), " ")
	}
	return all, err
}
