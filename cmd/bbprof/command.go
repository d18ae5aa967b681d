package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"unicode"
)

// A command is one subcommand, declared in a file of its own. Its help, its part
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

// usageError says what is wrong with the command line or the input.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(err error) error { return &usageError{err} }

func badUsage(format string, args ...any) error {
	return usage(fmt.Errorf(format, args...))
}

// exit ends a command that has said all there is to say with this code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errRejected ends a command that has reported the rejection.
const errRejected = exit(exitRejected)

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

// stopped reports whether a signal ended a measurement, of which what came before is worth telling.
func stopped(err error) bool { return errors.Is(err, context.Canceled) }

func writeText(std streams, text string) error {
	if _, err := io.WriteString(std.out, text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
