package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// Lossless is where a result goes. It remembers the first error of writing, so that no command
// loses it or takes it for one of the input.
type Lossless struct {
	io.Writer
	err error
}

func (l *Lossless) Write(p []byte) (int, error) {
	n, err := l.Writer.Write(p)
	if l.err == nil {
		l.err = err
	}
	return n, err
}

// instead is the error of writing, if there was one, and else err.
func (l *Lossless) instead(err error) error {
	if l.err != nil {
		return l.err
	}
	return err
}

// Terminal is the terminal that w writes to, if it is one.
func Terminal(w io.Writer) (fd int, ok bool) {
	if l, wrapped := w.(*Lossless); wrapped {
		w = l.Writer
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// exitCode is that of a command that ended with code, which standard output may have made wrong: a result
// that did not get there is a failure, whatever else the command found.
func (l *Lossless) exitCode(code int, stderr io.Writer) int {
	switch {
	case l.err == nil || code == ExitInternal || code == ExitPipe || code == ExitInterrupted:
		return code
	case errors.Is(l.err, syscall.EPIPE):
		return ExitPipe
	case code == ExitOK || code == ExitRejected: // else something has been said
		fmt.Fprintf(stderr, "bbprof: writing the result: %v\n", l.err)
	}
	return ExitInternal
}

// Output is where and how a command writes its result.
type Output struct {
	JSON    bool
	File    string
	Quiet   bool
	Folders bool // a name that ends in a slash is a directory to make
}

func (o *Output) Add(f *Flags, what string) {
	f.Toggle(&o.JSON, "json", "one JSON object on one line instead of "+what)
	o.AddFile(f)
}

func (o *Output) AddFile(f *Flags) {
	f.Declare(Flag{Name: "o", Arg: "FILE", Help: "write to FILE instead of standard output, which is also -, and replace what is there; compressed if it ends in .gz or .zst", Writes: true, Set: func(file string) error {
		if o.File = file; o.Folders && strings.HasSuffix(file, "/") {
			return nil
		}
		return Replaceable(file)
	}})
	f.Toggle(&o.Quiet, "q", "quiet: no progress and no notes on standard error, only errors")
}

// OutputFile declares a flag that names a file for a result. That it cannot be written is said before measuring, not after.
func OutputFile(f *Flags, p *string, name, arg, help string) {
	f.Declare(Flag{Name: name, Arg: arg, Help: help, Fallback: *p, Writes: true, Set: func(file string) error {
		*p = file
		return Replaceable(file)
	}})
}

// Notes is where a command reports its progress.
func (o *Output) Notes(std Streams) io.Writer {
	if o.Quiet {
		return io.Discard
	}
	return std.Err
}

func (o *Output) Write(std Streams, result any, text string) error {
	return o.Stream(std, func(w io.Writer) error {
		if o.JSON {
			return json.NewEncoder(w).Encode(result)
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// WriteLines writes an object on a line for each of some values, or the text.
func WriteLines[T any](o *Output, std Streams, values []T, text string) error {
	return o.Stream(std, func(w io.Writer) error {
		if o.JSON {
			return JSONLines(w, values)
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// Ended ends a command that an error may have cut short: it writes what there is of a result, if there is any, and then
// reports the error.
func Ended(err error, some bool, write func() error) error {
	if err != nil && !some {
		return err
	}
	return cmp.Or(write(), err)
}

// Reject writes the result of a check, which ends the command with ErrRejected where it failed.
func (o *Output) Reject(std Streams, failed bool, result any, text string) error {
	if err := o.Write(std, result, text); err != nil || !failed {
		return err
	}
	return ErrRejected
}

// Stream has write write to where the result goes. An error of write that is not one of writing comes back as it is.
func (o *Output) Stream(std Streams, write func(io.Writer) error) error {
	own := false
	err := WriteResults(o.File, std.Out, func(w io.Writer) error {
		out := &Lossless{Writer: w}
		err := write(out)
		own = err != nil && out.err == nil
		return err
	})
	if err == nil || own {
		return err
	}
	return fmt.Errorf("writing the result: %w", err)
}

// Direct is w where a program can write to it by itself, without a pipe to bbprof, and else nil.
func Direct(w io.Writer) io.Writer {
	if l, ok := w.(*Lossless); ok {
		w = l.Writer
	}
	if f, ok := w.(*os.File); ok {
		return f
	}
	return nil
}
