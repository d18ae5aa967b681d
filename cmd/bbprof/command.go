package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/program"
	"github.com/bbprof/bbprof/internal/tracee"
	"github.com/bbprof/bbprof/profiler"
	"github.com/bbprof/bbprof/verdict"
)

// A command is one subcommand, declared in a file of its own and listed in commands. Its help, its part
// of the man page and its completion are made of what it declares.
type command struct {
	name     string   // "" is bbprof -hex, the main job
	summary  string   // in the list of commands
	synopsis []string // ways to call it, without "bbprof"; a comment may follow after two spaces
	about    string   // paragraphs; indented lines stand as they are
	notes    string   // likewise, below the flags
	examples string
	exits    map[int]string // what exit codes mean; "" is what commonExits says

	// setup declares the flags, bound to variables of this one run, and returns what runs.
	setup func(f *flags) func(std streams) error
}

// commonExits are what exit codes mean to most commands.
var commonExits = map[int]string{
	exitUsage:       "bad input or usage",
	exitHost:        "this host cannot measure; the message says what would help",
	exitInternal:    "bbprof itself failed, or the results cannot be written",
	exitInterrupted: "interrupted; what was measured until then is written, and marked as incomplete",
}

// Exit codes, as the help texts promise them.
const (
	exitOK          = 0
	exitRejected    = 1
	exitUsage       = 2
	exitHost        = 3
	exitInternal    = 4
	exitInterrupted = 130 // 128 + SIGINT, the shells' convention
	exitPipe        = 141 // 128 + SIGPIPE, likewise
)

type streams struct {
	in       io.Reader
	out, err io.Writer
}

func (c *command) full() string { return strings.TrimSpace("bbprof " + c.name) }

// run parses the arguments after the command's name, runs it and returns the exit code.
func (c *command) run(args []string, std streams) int {
	f := newFlags(c.full())
	action := c.setup(f)
	err := f.parse(args)
	if err == nil {
		err = f.keepsInputs()
	}
	switch {
	case errors.Is(err, errHelp):
		err = writeText(std, c.help())
	case err != nil:
		err = &usageError{err}
	default:
		err = action(std)
	}
	return finish(c.name, err, std)
}

// usageError says what is wrong with the command line or the input.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func badUsage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// exit ends a command that has said all there is to say with this code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errRejected ends a command that has reported the rejection.
const errRejected = exit(exitRejected)

// finish reports an error by what kind it is and returns the exit code.
func finish(name string, err error, std streams) int {
	var code exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, syscall.EPIPE):
		return exitPipe // the reader closed the pipe, which needs no message
	}
	if event := (*profiler.EventError)(nil); errors.As(err, &event) {
		err = fmt.Errorf("-events: %w", event)
	}
	exits := exitOf(err)
	if exits == exitInterrupted {
		err = errors.New("interrupted")
	}
	prefix := "bbprof: "
	if usage := (*usageError)(nil); name != "" && errors.As(err, &usage) {
		prefix += name + ": "
	}
	fmt.Fprintf(std.err, "%s%s\n", prefix, strings.Map(visible, withoutCall(err)))
	return exits
}

// visible keeps what a file's name or a cell holds from telling the terminal what to do.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return '\ufffd'
	}
	return r
}

// withoutCall is an error's text in which a file that cannot be opened is named once, and not by Go's name of the call.
// A directory can be opened, and cannot be read.
func withoutCall(err error) string {
	text, failed := err.Error(), (*fs.PathError)(nil)
	if !errors.As(err, &failed) {
		return text
	}
	why, directory := failed.Err.Error(), errors.Is(failed, syscall.EISDIR)
	if directory {
		why = "it is a directory; name a file"
	}
	if failed.Op == "open" || directory {
		text = strings.ReplaceAll(text, failed.Error(), failed.Path+": "+why)
		for twice := failed.Path + ": " + failed.Path + ": "; strings.Contains(text, twice); {
			text = strings.ReplaceAll(text, twice, failed.Path+": ")
		}
	}
	return text
}

// exitOf tells the user's mistakes, a host that cannot measure and bbprof's own failures apart.
func exitOf(err error) int {
	var (
		usage   *usageError
		events  *profiler.EventError
		bad     *program.Error
		reading *input.ReadError
		host    *verdict.HostError
	)
	switch {
	case errors.Is(err, context.Canceled), interruptedChild(err):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &events), errors.As(err, &bad), errors.As(err, &reading):
		return exitUsage
	case errors.As(err, &host):
		return exitHost
	}
	return exitInternal
}

// interruptedChild reports whether Ctrl-C ended the child: while it is being started, it is still in bbprof's process group.
func interruptedChild(err error) bool {
	dead := (*tracee.DeadError)(nil)
	return errors.As(err, &dead) && (dead.Signal == int(syscall.SIGINT) || dead.Signal == int(syscall.SIGTERM))
}

// stopped reports whether a signal ended a measurement, of which what came before is worth telling.
func stopped(err error) bool { return errors.Is(err, context.Canceled) }

// endedBy is what a line on an incomplete result says of the error that ended the work; finish reports the error itself.
func endedBy(err error) string {
	switch exitOf(err) {
	case exitInterrupted:
		return "interrupted"
	case exitHost:
		return "ended by this host"
	}
	return "ended by an error"
}

func writeText(std streams, text string) error {
	if _, err := io.WriteString(std.out, text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func find(name string) *command {
	all := commands()
	if i := slices.IndexFunc(all, func(c *command) bool { return c.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}
