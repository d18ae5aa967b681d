package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"github.com/bbprof/bbprof/internal/limits"
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

// stdout is standard output. Where it was closed at the start, Go has opened /dev/null in its place, which
// would take a result without an error.
func stdout() io.Writer {
	if limits.StdoutClosed() {
		return closedOutput{}
	}
	return os.Stdout
}

type closedOutput struct{}

func (closedOutput) Write([]byte) (int, error) {
	return 0, errors.New("standard output is closed; redirect it to a file, or to /dev/null where only the exit code matters")
}
