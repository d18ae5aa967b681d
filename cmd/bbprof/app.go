package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
)

// An app is bbprof: its main job, which has no name, and its commands.
type app struct {
	purpose  string // a line in the man page
	main     *command
	commands []*command
	headings []heading
	topic    topic

	// unknown is what to do instead about words that name no command, "" if there is no advice.
	unknown func(words []string) string

	// explain is the exit code of an error, and what to say of it.
	explain func(error) (int, error)
}

// A heading is a group of commands in bbprof -h.
type heading struct {
	title string
	names string // of its commands, with spaces between them
}

// A topic is a group of flags that many commands have, and that the help of these points to.
type topic struct {
	name    string // bbprof help NAME
	title   string // of the group
	summary string
	pointer string // in the place of the flags
	about   string
	declare func(*flags)
}

// builtin are the commands about the other commands.
func (a *app) builtin() []*command {
	return []*command{versionCommand(), a.completionCommand(), a.helpCommand()}
}

// under are the commands below a heading.
func (a *app) under(h heading) (list []*command) {
	all := slices.Concat(a.commands, a.builtin())
	for _, name := range strings.Fields(h.names) {
		list = append(list, all[slices.IndexFunc(all, func(c *command) bool { return c.name == name })])
	}
	return list
}

// all are the main job and the commands, in the order of help.
func (a *app) all() []*command {
	list := []*command{a.main}
	for _, h := range a.headings {
		list = append(list, a.under(h)...)
	}
	return list
}

func (a *app) names() (names []string) {
	for _, c := range a.all()[1:] {
		names = append(names, c.name)
	}
	return names
}

func (a *app) find(name string) *command {
	all := a.all()
	if i := slices.IndexFunc(all, func(c *command) bool { return c.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// run does what the arguments say and returns the exit code.
func (a *app) run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &lossless{Writer: stdout}
	return out.exitCode(a.dispatch(args, streams{stdin, out, stderr}), stderr)
}

func (a *app) dispatch(args []string, std streams) int {
	if len(args) == 0 {
		io.WriteString(std.err, a.overview())
		return exitUsage
	}
	name := args[0]
	if name == "--version" || name == "-version" {
		name = "version"
	}
	if strings.HasPrefix(name, "-") {
		return a.runCommand(a.main, args, std)
	}
	if c := a.find(name); c != nil {
		return a.runCommand(c, args[1:], std)
	}
	return finish("", a.unknownCommand(args), a.explain, std)
}

func (a *app) unknownCommand(args []string) error {
	if advice := a.unknown(args); advice != "" {
		return badUsage("unknown command %q: %s", args[0], advice)
	}
	return badUsage("unknown command %q%s (bbprof -h lists the commands)", args[0], didYouMean("", args[0], a.names()))
}

// runCommand parses the arguments after the command's name, runs it and returns the exit code.
func (a *app) runCommand(c *command, args []string, std streams) int {
	f := newFlags(c.full())
	action := c.setup(f)
	err := f.parse(args)
	if err == nil {
		err = f.keepsInputs()
	}
	switch {
	case errors.Is(err, errHelp):
		err = writeText(std, a.help(c))
	case err != nil:
		err = usage(err)
	default:
		err = action(std)
	}
	return finish(c.name, err, a.explain, std)
}

// finish reports how a command ended and returns the exit code; explain is as in app.
func finish(name string, err error, explain func(error) (int, error), std streams) int {
	var ended exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ended):
		return int(ended)
	case errors.Is(err, syscall.EPIPE):
		return exitPipe // the reader closed the pipe, which needs no message
	}
	code, err := explain(err)
	prefix := "bbprof: "
	if usage := (*usageError)(nil); name != "" && errors.As(err, &usage) {
		prefix += name + ": "
	}
	fmt.Fprintf(std.err, "%s%s\n", prefix, strings.Map(visible, withoutCall(err)))
	return code
}
