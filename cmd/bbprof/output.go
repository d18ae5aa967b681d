package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// lossless is where a result goes. It remembers the first error of writing, so that no command
// loses it or takes it for one of the input.
type lossless struct {
	io.Writer
	err error
}

func (l *lossless) Write(p []byte) (int, error) {
	n, err := l.Writer.Write(p)
	if l.err == nil {
		l.err = err
	}
	return n, err
}

// instead is the error of writing, if there was one, and else err.
func (l *lossless) instead(err error) error {
	if l.err != nil {
		return l.err
	}
	return err
}

// terminal is the terminal that w writes to, if it is one.
func terminal(w io.Writer) (fd int, ok bool) {
	if l, wrapped := w.(*lossless); wrapped {
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
func (l *lossless) exitCode(code int, stderr io.Writer) int {
	switch {
	case l.err == nil || code == exitInternal || code == exitPipe || code == exitInterrupted:
		return code
	case errors.Is(l.err, syscall.EPIPE):
		return exitPipe
	case code == exitOK || code == exitRejected: // else something has been said
		fmt.Fprintf(stderr, "bbprof: writing the result: %v\n", l.err)
	}
	return exitInternal
}

// output is where and how a command writes its result.
type output struct {
	json    bool
	file    string
	quiet   bool
	folders bool // a name that ends in a slash is a directory to make
}

func (o *output) add(f *flags, what string) {
	f.toggle(&o.json, "json", "one JSON object on one line instead of "+what)
	o.addFile(f)
}

func (o *output) addFile(f *flags) {
	f.declare(flagDecl{name: "o", arg: "FILE", help: "write to FILE instead of standard output, which is also -, and replace what is there; compressed if it ends in .gz or .zst", writes: true, set: func(file string) error {
		if o.file = file; o.folders && strings.HasSuffix(file, "/") {
			return nil
		}
		return replaceable(file)
	}})
	f.toggle(&o.quiet, "q", "quiet: no progress and no notes on standard error, only errors")
}

// outputFile declares a flag that names a file for a result. That it cannot be written is said before measuring, not after.
func outputFile(f *flags, p *string, name, arg, help string) {
	f.declare(flagDecl{name: name, arg: arg, help: help, fallback: *p, writes: true, set: func(file string) error {
		*p = file
		return replaceable(file)
	}})
}

// notes is where a command reports its progress.
func (o *output) notes(std streams) io.Writer {
	if o.quiet {
		return io.Discard
	}
	return std.err
}

func (o *output) write(std streams, result any, text string) error {
	return o.stream(std, func(w io.Writer) error {
		if o.json {
			return json.NewEncoder(w).Encode(result)
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// writeLines writes an object on a line for each of some values, or the text.
func writeLines[T any](o *output, std streams, values []T, text string) error {
	return o.stream(std, func(w io.Writer) error {
		if o.json {
			return jsonLines(w, values)
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

// reject writes the result of a check, which ends the command with errRejected where it failed.
func (o *output) reject(std streams, failed bool, result any, text string) error {
	if err := o.write(std, result, text); err != nil || !failed {
		return err
	}
	return errRejected
}

// stream has write write to where the result goes. An error of write that is not one of writing comes back as it is.
func (o *output) stream(std streams, write func(io.Writer) error) error {
	own := false
	err := writeResults(o.file, nil, std.out, func(w io.Writer) error {
		out := &lossless{Writer: w}
		err := write(out)
		own = err != nil && out.err == nil
		return err
	})
	if err == nil || own {
		return err
	}
	return fmt.Errorf("writing the result: %w", err)
}

// direct is w where a program can write to it by itself, without a pipe to bbprof, and else nil.
func direct(w io.Writer) io.Writer {
	if l, ok := w.(*lossless); ok {
		w = l.Writer
	}
	if f, ok := w.(*os.File); ok {
		return f
	}
	return nil
}
