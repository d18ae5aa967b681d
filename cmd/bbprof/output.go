package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/plot"
	"github.com/bbprof/bbprof/internal/host"
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

type plots []string

func (p *plots) add(f *flags) {
	f.declare(flagDecl{name: "plot", arg: "FILE", help: "draw it; FILE ends in .svg, .png or .pdf; may be repeated", set: func(file string) error {
		if _, err := plot.Format(file); err != nil {
			return err
		}
		// What cannot be written should be known before measuring, not after.
		if err := writable(file); err != nil {
			return err
		}
		*p = append(*p, file)
		return nil
	}})
}

// draw writes the figure of a subject, such as "block 4801c0", to each file.
func (p plots) draw(subject string, f plot.Figure) error {
	if len(p) == 0 {
		return nil
	}
	cpu := host.Detect()
	f.Subject, f.Machine = subject, fmt.Sprintf("%s (%s)", cpu.Brand, cpu.Microarchitecture)
	for _, file := range p {
		if err := f.Save(file); err != nil {
			return err
		}
	}
	return nil
}

func blockSubject(hex string) string {
	const shown = 160 // two lines
	if len(hex) > shown {
		hex = hex[:shown] + "…"
	}
	return "block " + hex
}

// writable tries whether a file can be written, before time is spent on what will be in it.
func writable(name string) error {
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if missing != nil {
		os.Remove(name)
	}
	return f.Close()
}
