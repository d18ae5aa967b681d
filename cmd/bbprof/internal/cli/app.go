// Package cli implements a command line without knowing about blocks: commands with flags, help, man page and
// completion; output that is never lost; tables, progress, signals and exit codes.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
)

// An App is bbprof: its main job, which has no name, and its commands.
type App struct {
	Purpose  string // a line in the man page
	Main     *Command
	Commands []*Command
	Headings []Heading
	Topic    Topic

	// Unknown advises about words that name no command; "" if it has no advice.
	Unknown func(words []string) string

	Explain func(error) (int, error)
}

// A Heading is a group of commands in bbprof -h.
type Heading struct {
	Title string
	Names string // its commands, separated by spaces
}

// A Topic is a group of flags that many commands share, and to which their help refers.
type Topic struct {
	Name    string // bbprof help NAME
	Title   string // heads the group
	Summary string
	Pointer string // replaces the flags in other help
	About   string
	Declare func(*Flags)
}

func (a *App) builtin() []*Command {
	return []*Command{versionCommand(), a.completionCommand(), a.helpCommand()}
}

func (a *App) under(h Heading) (list []*Command) {
	all := slices.Concat(a.Commands, a.builtin())
	for _, name := range strings.Fields(h.Names) {
		list = append(list, all[slices.IndexFunc(all, func(c *Command) bool { return c.Name == name })])
	}
	return list
}

// All lists the main job and the commands, in the order of help.
func (a *App) All() []*Command {
	list := []*Command{a.Main}
	for _, h := range a.Headings {
		list = append(list, a.under(h)...)
	}
	return list
}

func (a *App) Names() (names []string) {
	for _, c := range a.All()[1:] {
		names = append(names, c.Name)
	}
	return names
}

func (a *App) find(name string) *Command {
	for _, c := range a.All() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (a *App) Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &Lossless{Writer: stdout}
	return out.exitCode(a.dispatch(args, Streams{In: stdin, Out: out, Err: stderr}), stderr)
}

func (a *App) dispatch(args []string, std Streams) int {
	if len(args) == 0 {
		io.WriteString(std.Err, a.Overview())
		return ExitUsage
	}
	name := args[0]
	if name == "--version" || name == "-version" {
		name = "version"
	}
	if strings.HasPrefix(name, "-") {
		return a.runCommand(a.Main, args, std)
	}
	if c := a.find(name); c != nil {
		return a.runCommand(c, args[1:], std)
	}
	return Finish("", a.unknownCommand(args), a.Explain, std)
}

func (a *App) unknownCommand(args []string) error {
	if advice := a.Unknown(args); advice != "" {
		return BadUsage("unknown command %q: %s", args[0], advice)
	}
	return BadUsage("unknown command %q%s (bbprof -h lists the commands)", args[0], didYouMean("", args[0], a.Names()))
}

// runCommand parses the arguments after the command's name, runs it and returns the exit code.
func (a *App) runCommand(c *Command, args []string, std Streams) int {
	f := NewFlags(c.Full())
	action := c.Setup(f)
	err := f.Parse(args)
	if err == nil {
		err = f.keepsInputs()
	}
	switch {
	case errors.Is(err, errHelp):
		err = WriteText(std, a.Help(c))
	case err != nil:
		err = Usage(err)
	default:
		err = action(std)
	}
	return Finish(c.Name, err, a.Explain, std)
}

// Finish reports how a command ended and returns the exit code; explain is as in App.
func Finish(name string, err error, explain func(error) (int, error), std Streams) int {
	var ended Exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &ended):
		return int(ended)
	case errors.Is(err, syscall.EPIPE):
		return ExitPipe // the reader closed the pipe, which needs no message
	}
	code, err := explain(err)
	prefix := "bbprof: "
	if usage := (*UsageError)(nil); name != "" && errors.As(err, &usage) {
		prefix += name + ": "
	}
	fmt.Fprintf(std.Err, "%s%s\n", prefix, strings.Map(visible, withoutCall(err)))
	return code
}
