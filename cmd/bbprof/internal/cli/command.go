package cli

import (
	"context"
	"errors"
	"fmt"
	"github.com/bbprof/bbprof/cmd/bbprof/internal/journal"
	"io"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"unicode"
)

// A Command is one subcommand, declared in its own file. Help, man page and completion are derived from it.
type Command struct {
	Name     string   // "" is bbprof -hex, the main job
	Summary  string   // for the list of commands
	Synopsis []string // ways to call it, without "bbprof"; a comment may follow after two spaces
	About    string   // paragraphs; indented lines are kept as they are
	Notes    string   // like About, below the flags
	Examples string
	Exits    map[int]string // meanings of exit codes; "" stands for the text in commonExits

	// Setup declares the flags, bound to variables of this run, and returns the function to run.
	Setup func(f *Flags) func(std Streams) error
}

// Exits returns the exit codes of a command that measures or runs programs: what 0 and 1 mean, the latter unless it is
// "", and the usual meanings of the others except those in other.
func Exits(ok, rejected string, other map[int]string) map[int]string {
	all := maps.Clone(commonExits)
	if all[ExitOK] = ok; rejected != "" {
		all[ExitRejected] = rejected
	}
	maps.Copy(all, other)
	return all
}

var commonExits = map[int]string{
	ExitUsage:       "bad input or usage",
	ExitHost:        "this host cannot measure; the message says what would help",
	ExitInternal:    "bbprof itself failed, or the results cannot be written",
	ExitInterrupted: "interrupted; what was measured until then is written, and marked as incomplete",
}

const (
	ExitOK          = 0
	ExitRejected    = 1
	ExitUsage       = 2
	ExitHost        = 3
	ExitInternal    = 4
	ExitInterrupted = 130 // 128 + SIGINT, the shells' convention
	ExitPipe        = 141 // 128 + SIGPIPE
)

type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Kept     *journal.Journal // what this command measured before and measures now; nil: nothing is kept
}

func (c *Command) Full() string { return strings.TrimSpace("bbprof " + c.Name) }

type UsageError struct{ error }

func (e *UsageError) Unwrap() error { return e.error }

func Usage(err error) error { return &UsageError{err} }

func BadUsage(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// Rules are what the command line must not hold.
type Rules struct{ Err error } // about the first that is broken

func (r *Rules) Not(broken bool, format string, args ...any) {
	if broken && r.Err == nil {
		r.Err = BadUsage(format, args...)
	}
}

func First(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// Exit ends a command that has already reported everything, with this code.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrRejected ends a command that has already reported the rejection.
const ErrRejected = Exit(ExitRejected)

// visible replaces characters of file names and cells that could control the terminal.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return '\ufffd'
	}
	return r
}

// withoutCall formats an error about a file so that it names the file once and not Go's call. A directory can be opened
// but not read.
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

// Stopped reports whether a signal ended a measurement; earlier results are still worth reporting.
func Stopped(err error) bool { return errors.Is(err, context.Canceled) }

func WriteText(std Streams, text string) error {
	if _, err := io.WriteString(std.Out, text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}
