package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// Lossless wraps an output and remembers its first write error, so that no command loses it or takes it for an input
// error.
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

func (l *Lossless) instead(err error) error {
	if l.err != nil {
		return l.err
	}
	return err
}

func file(w io.Writer) *os.File {
	if l, wrapped := w.(*Lossless); wrapped {
		w = l.Writer
	}
	f, _ := w.(*os.File)
	return f
}

func Terminal(w io.Writer) (fd int, ok bool) {
	f := file(w)
	if f == nil {
		return 0, false
	}
	return int(f.Fd()), term.IsTerminal(int(f.Fd()))
}

// exitCode returns code, or failure if standard output could not be written, whatever else the command found.
func (l *Lossless) exitCode(code int, stderr io.Writer) int {
	switch {
	case l.err == nil || code == ExitInternal || code == ExitPipe || code == ExitInterrupted:
		return code
	case errors.Is(l.err, syscall.EPIPE):
		return ExitPipe
	case code == ExitOK || code == ExitRejected: // otherwise an error has been reported
		fmt.Fprintf(stderr, "bbprof: writing the result: %v\n", l.err)
	}
	return ExitInternal
}

// Output says where and in which format a command writes its result.
type Output struct {
	JSON    bool
	File    string
	Quiet   bool
	Folders bool // a name ending in a slash is a directory to create
}

func (o *Output) Add(f *Flags, what string) {
	f.Toggle(&o.JSON, "json", "one JSON object on one line instead of "+what)
	o.AddFile(f)
}

func (o *Output) AddFile(f *Flags) {
	outputFile(f, &o.File, o.Folders, "o", "FILE", "write to FILE, not standard output (also -); compressed if it ends in .gz or .zst")
	f.Toggle(&o.Quiet, "q", "quiet: no progress and no notes on standard error, only errors")
}

// OutputFile declares a flag for an output file. A file that cannot be written is reported before measuring.
func OutputFile(f *Flags, p *string, name, arg, help string) {
	outputFile(f, p, false, name, arg, help)
}

func outputFile(f *Flags, p *string, folders bool, name, arg, help string) {
	f.Declare(Flag{Name: name, Arg: arg, Help: help, Fallback: *p, Writes: true, Set: func(file string) error {
		if *p = file; folders && strings.HasSuffix(file, "/") {
			return nil
		}
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
	return WriteLines(o, std, []any{result}, text)
}

func WriteLines[T any](o *Output, std Streams, values []T, text string) error {
	return o.Stream(std, func(w io.Writer) error {
		if o.JSON {
			return JSONLines(w, values)
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// Ended ends a command that an error may have cut short: it writes the partial result, if any, and returns the error
// together with that of writing; a signal gives way to an error of writing.
func Ended(err error, some bool, write func() error) error {
	if err != nil && !some {
		return err
	}
	unwritten := write()
	if err == nil || unwritten == nil || Stopped(err) {
		return cmp.Or(unwritten, err)
	}
	return fmt.Errorf("%w; %w", err, unwritten)
}

// Reject writes a check's result and returns ErrRejected if the check failed.
func (o *Output) Reject(std Streams, failed bool, result any, text string) error {
	if err := o.Write(std, result, text); err != nil || !failed {
		return err
	}
	return ErrRejected
}

// Stream calls write with the output. Errors that are not write errors are returned unchanged.
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

// Direct returns w if a child process can write to it without a pipe through bbprof, else nil.
func Direct(w io.Writer) io.Writer {
	if f := file(w); f != nil {
		return f
	}
	return nil
}
