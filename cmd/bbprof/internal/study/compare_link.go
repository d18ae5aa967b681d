package study

import (
	"context"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/measuring"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/link"
)

const linkTitle = "Of programs that are linked in each layout"

type linking struct {
	on      bool
	preset  link.Preset
	objects []string
	setups  int
	args    []string // of the programs
}

func (l *linking) declare(f *cli.Flags) {
	f.Section(linkTitle)
	f.Toggle(&l.on, "link", "A and B are command lines that link a program, in each layout anew: {out} stands for the file to write, {seed} for a number. "+
		"Words after -- are the program's arguments")
	cli.Choice(f, &l.preset, link.Presets(), "lld", "WHAT", "have lld place at random: padding between sections, the order of sections, or both. Adds its flags to A and B")
	cli.Parsed(f, &l.objects, program.Words, "objects", "FILES", "object files, separated by spaces, in another order in each layout: given, alphabetical, then random. "+
		"A word with {objects}, such as O2/{objects}, is repeated for each")
	f.Repeats(&l.setups, 1, "setups", "cross each link with so many sizes of the environment and starts of stack and heap, the same for all. 1: each link has one of its own")
	f.Program = &l.args
}

func (c *comparing) checkLink() error {
	switch only := c.flags.Of(linkTitle); {
	case c.linking.on && c.apart:
		return cli.BadUsage("-apart is for blocks, and -link is for programs")
	case c.linking.on && c.unpaired:
		return cli.BadUsage("-unpaired and -link: links are compared in pairs")
	case c.linking.on && c.flags.Has("program"):
		return cli.BadUsage("-program is for a command that becomes another program by exec, and -link runs what it has linked: leave out -program")
	case c.linking.on && c.flags.Of(measuring.Title) != "":
		return cli.BadUsage("-%s is for blocks, and -link is for programs", c.flags.Of(measuring.Title))
	case c.linking.on || c.linking.args == nil && only == "":
		return nil
	case only == "":
		return cli.BadUsage("words after --: without -link, a program's arguments are part of -a and -b")
	default:
		return cli.BadUsage("-%s is for programs that are linked: add -link", only)
	}
}

func (c *comparing) linkCommands(ctx context.Context, std cli.Streams) error {
	var words [2][]string
	for i, text := range []string{c.a, c.b} {
		var err error
		if words[i], err = program.Words(text); err != nil {
			return cli.BadUsage("-%s: %w", []string{"a", "b"}[i], err)
		}
	}
	return c.runs(ctx, words[0], words[1], std)
}

func (c *comparing) link(ctx context.Context, sides *placed, words [2][]string, args []string, std cli.Streams) (close func(), err error) {
	l := c.linking
	var recipes [2]link.Recipe
	for i := range recipes {
		recipes[i] = link.Recipe{Side: []string{"-a", "-b"}[i], Words: words[i], Preset: l.preset}
		if err := recipes[i].Check(len(l.objects) > 0); err != nil {
			return nil, cli.Usage(err)
		}
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
	variants := link.Variants(c.layouts, c.seed, l.objects)
	done := cli.Progress(c.out.Notes(std), 2*c.layouts, "links")
	defer done.End()
	own := program.Layouts(max(c.layouts, l.setups), c.seed)
	for i := range recipes {
		commands, err := linker.Link(ctx, recipes[i], variants, args, func(n int) { done.Step(i*c.layouts + n) })
		if err != nil {
			return nil, err
		}
		for k, command := range commands {
			command.CleanEnv = c.programs.CleanEnv
			setups := own[k : k+1]
			if l.setups > 1 {
				setups = own[:l.setups]
			}
			sides.places[i] = append(sides.places[i], program.In(command, setups)...)
		}
	}
	for i, p := range sides.places[0] {
		layout := layoutOf(i+1, p.Setup)
		v := variants[i/l.setups]
		layout.Link, layout.Order = v.Seed, v.Order
		sides.layouts = append(sides.layouts, layout)
	}
	return linker.Close, nil
}
