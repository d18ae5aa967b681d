package program

import (
	"errors"
	"os"
	"syscall"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/verdict"
)

// Start starts a command in a set-up and stops it before its first instruction. The calling
// goroutine must be locked to its thread, and call done in the end, which also kills the
// program. stdin is a file, "" is /dev/null, as are stdout and stderr if they are nil.
func (c Command) Start(s Setup, stdin string, stdout, stderr *os.File) (p *debuggee.Process, done func(), err error) {
	files, closeFiles, err := openFiles(stdin, stdout, stderr)
	if err != nil {
		return nil, nil, err
	}
	p, err = debuggee.Start(debuggee.Config{Path: c.Exe.Path, Args: append([]string{c.Name}, c.Args...), Env: s.environ(os.Environ()), Files: files})
	if err != nil {
		closeFiles()
		return nil, nil, startError(c.Name, err)
	}
	done = func() {
		p.Close()
		closeFiles()
	}
	if err := p.ShiftStack(s.StackShift); err != nil {
		done()
		return nil, nil, err
	}
	return p, done, nil
}

// openFiles is what a program gets as its standard input, output and error.
func openFiles(stdin string, stdout, stderr *os.File) (files [3]*os.File, done func(), err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return files, nil, err
	}
	files = [3]*os.File{null, null, null}
	if stdout != nil {
		files[1] = stdout
	}
	if stderr != nil {
		files[2] = stderr
	}
	if stdin == "" {
		return files, func() { null.Close() }, nil
	}
	in, err := os.Open(stdin)
	if err != nil {
		null.Close()
		return files, nil, &Error{Program: stdin, Problem: "it cannot be read as standard input", Err: cause(err)}
	}
	files[0] = in
	return files, func() { null.Close(); in.Close() }, nil
}

// startError tells a file that the kernel does not execute from a host that forbids it.
func startError(name string, err error) error {
	var hostError *verdict.HostError
	var errno syscall.Errno
	switch {
	case errors.As(err, &hostError):
		return err
	case errors.As(err, &errno) && errno == syscall.ENOENT:
		return &Error{Program: name, Problem: "the dynamic linker that it names is not there", Remedy: "readelf -l shows its name; link statically or install it", Err: errno}
	case errors.As(err, &errno) && errno == syscall.E2BIG:
		return &Error{Program: name, Problem: "its arguments and environment are too long together", Remedy: "start bbprof with a smaller environment: env -i bbprof …", Err: errno}
	case errors.As(err, &errno):
		return &Error{Program: name, Problem: "the kernel does not execute it", Err: errno}
	}
	return err
}
