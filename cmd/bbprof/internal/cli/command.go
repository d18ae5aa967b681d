package cli

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

// A Command is one subcommand, declared in a file of its own. Its help, its part
// of the man page and its completion are made of what it declares.
type Command struct {
	Name     string   // "" is bbprof -hex, the main job
	Summary  string   // in the list of commands
	Synopsis []string // ways to call it, without "bbprof"; a comment may follow after two spaces
	About    string   // paragraphs; indented lines stand as they are
	Notes    string   // likewise, below the flags
	Examples string
	Exits    map[int]string // what exit codes mean; "" takes the text of commonExits

	// Setup declares the flags, bound to variables of this one run, and returns what runs.
	Setup func(f *Flags) func(std Streams) error
}

// commonExits are what exit codes mean to most commands.
var commonExits = map[int]string{
	ExitUsage:       "bad input or usage",
	ExitHost:        "this host cannot measure; the message says what would help",
	ExitInternal:    "bbprof itself failed, or the results cannot be written",
	ExitInterrupted: "interrupted; what was measured until then is written, and marked as incomplete",
}

// Exit codes, as the help texts promise them.
const (
	ExitOK          = 0
	ExitRejected    = 1
	ExitUsage       = 2
	ExitHost        = 3
	ExitInternal    = 4
	ExitInterrupted = 130 // 128 + SIGINT, the shells' convention
	ExitPipe        = 141 // 128 + SIGPIPE, likewise
)

type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

func (c *Command) Full() string { return strings.TrimSpace("bbprof " + c.Name) }

// UsageError says what is wrong with the command line or the input.
type UsageError struct{ error }

func (e *UsageError) Unwrap() error { return e.error }

func Usage(err error) error { return &UsageError{err} }

func BadUsage(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// Exit ends a command that has said all there is to say with this code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrRejected ends a command that has reported the rejection.
const ErrRejected = Exit(ExitRejected)

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

// Stopped reports whether a signal ended a measurement, of which what came before is worth telling.
func Stopped(err error) bool { return errors.Is(err, context.Canceled) }

func WriteText(std Streams, text string) error {
	if _, err := io.WriteString(std.Out, text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
