package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/program/debuggee"
	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/verdict"
)

// Control says how a program runs. The zero value means the defaults.
type Control struct {
	CPUs    []int         // to run on: the first. Default: the last allowed, since the first serve most interrupts
	Timeout time.Duration // of a run, default one minute
	Stdin   string        // a file; "" is /dev/null
	Stdout  *os.File      // gets standard output; nil is /dev/null
	Stderr  io.Writer     // gets the first MaxOutput bytes of standard error; nil is /dev/null
	Merge   bool          // standard output also goes to Stderr instead of /dev/null
	// Calm keeps Go's runtime from interrupting a function that takes long, as each does while it is stepped: its
	// goroutine would go on in the runtime's code.
	Calm bool
}

// maxOutput limits how many bytes of a program's output are passed on.
const maxOutput = 1 << 20

// Start starts a command in a set-up and stops it before the first instruction of its Exe. The calling goroutine must
// be locked to its thread, and finally call done, which kills the program and all that it left running. They are also
// killed when ctx ends, even if the program has stopped bbprof.
func (c Command) Start(ctx context.Context, s Setup, o Control) (p *debuggee.Process, done func(), err error) {
	var env []string
	if !c.CleanEnv {
		env = os.Environ()
	}
	if o.Calm && c.Exe.IsGo {
		env = withoutPreemption(env)
	}
	files, err := openFiles(o)
	if err != nil {
		return nil, nil, err
	}
	p, err = debuggee.Start(debuggee.Config{Path: cmp.Or(c.launcher, c.Exe.Path), Args: append([]string{c.Name}, c.Args...),
		Env: s.environ(env), Files: files.given})
	if err != nil {
		files.close()
		return nil, nil, startError(c.Name, err)
	}
	stopKilling := context.AfterFunc(ctx, p.Kill)
	stopContinuing := func() {}
	done = func() {
		stopKilling()
		p.Close()
		files.close()
		stopContinuing()
	}
	if deadline, ok := ctx.Deadline(); ok {
		if stopContinuing, err = debuggee.ContinueAfter(time.Until(deadline)); err != nil {
			stopContinuing = func() {}
			done()
			return nil, nil, err
		}
	}
	if err = c.launch(p, s); err == nil {
		err = c.shiftImage(p, s.ImageShift)
	}
	if err == nil {
		err = c.lowerStack(p, s)
	}
	if err == nil {
		err = p.ShiftHeap(s.HeapShift)
	}
	if err != nil {
		done()
		return nil, nil, c.blame(err)
	}
	return p, done, nil
}

// withoutPreemption puts a setting before those of GODEBUG: the last one of a name counts, and that is the user's.
func withoutPreemption(env []string) []string {
	const name, setting = "GODEBUG=", "asyncpreemptoff=1"
	for i, v := range env {
		if theirs, ok := strings.CutPrefix(v, name); ok {
			env = slices.Clone(env)
			env[i] = name + setting + "," + theirs
			return env
		}
	}
	return append(slices.Clip(env), name+setting)
}

// Control starts a command, passes it to do before its first instruction, on a locked thread as ptrace requires, and
// ends it. The error is context.DeadlineExceeded if the time was up, ctx's if that ended, or else do's.
func (c Command) Control(ctx context.Context, s Setup, o Control, do func(*debuggee.Process) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Timeout, time.Minute))
	defer cancel()
	ptracethread.Run(func() {
		if _, err = pin(o.CPUs); err != nil { // a step is three times as fast on one CPU as across two
			return
		}
		p, done, startErr := c.Start(ctx, s, o)
		if err = startErr; err == nil {
			defer done()
			err = c.blame(do(p))
		}
		if ctx.Err() != nil { // a program killed by ctx may look uncontrollable
			err = ctx.Err()
		}
	})
	return err
}

func (c Command) lowerStack(p *debuggee.Process, s Setup) error {
	depth := 0
	if s.EqualStack {
		var err error
		if depth, err = p.StackDepth(); err != nil {
			return err
		}
	}
	return p.ShiftStack(s.lowered(depth))
}

// shiftImage moves a program's own code and static data, if it can be moved.
func (c Command) shiftImage(p *debuggee.Process, by int) error {
	if by == 0 {
		return nil
	}
	if !c.Exe.Movable {
		return Errorf(c.Name, "link it with -pie and without -static", "its code cannot be moved at run time")
	}
	entry, err := p.Entry()
	if err != nil {
		return err
	}
	slide := c.Exe.slide(entry)
	return p.ShiftImage(c.Exe.low+slide, c.Exe.high+slide, by)
}

type files struct {
	given  [3]*os.File // to the program
	opened []*os.File
	wait   func() // for its output; nil if that is dropped
}

// OpenInput opens a file as a program's standard input. An *Error says why it cannot. It rejects directories, on which
// the program would fail, or read nothing.
func OpenInput(name string) (*os.File, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, &Error{Subject: name, Problem: "it cannot be read as standard input", Err: cause(err)}
	}
	if info, err := in.Stat(); err == nil && info.IsDir() {
		in.Close()
		return nil, Errorf(name, "name a file", "it is a directory, which cannot be read as standard input")
	}
	return in, nil
}

func openFiles(o Control) (f files, err error) {
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return f, err
	}
	f.opened = append(f.opened, null)
	f.given = [3]*os.File{null, null, null}
	if o.Stdin != "" {
		in, err := OpenInput(o.Stdin)
		if err != nil {
			return f, err
		}
		f.opened, f.given[0] = append(f.opened, in), in
	}
	if o.Stdout != nil {
		f.given[1] = o.Stdout
	}
	if o.Stderr == nil {
		return f, nil
	}
	r, end, err := os.Pipe()
	if err != nil {
		return f, cmp.Or(verdict.NoMoreFiles(err), verdict.Refused("pipe2", err))
	}
	f.opened, f.given[2] = append(f.opened, end), end
	if o.Merge {
		f.given[1] = end
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		passOn(o.Stderr, r)
	}()
	f.wait = func() {
		r.SetReadDeadline(time.Now().Add(drainTime))
		<-ended
		r.Close()
	}
	return f, nil
}

// passOn passes on the first MaxOutput bytes of a program's output and reads and drops the rest, so that the program
// does not block.
func passOn(to io.Writer, from io.Reader) {
	io.CopyN(to, from, maxOutput) // an error of to must not block the program
	if dropped, _ := io.Copy(io.Discard, from); dropped > 0 {
		fmt.Fprintf(to, "\nbbprof: the program wrote %d bytes more, which are dropped\n", dropped)
	}
}

// drainTime limits reading a pipe that is still open after all the program's processes were killed: a process that
// bbprof may not kill holds it.
const drainTime = time.Second

// close closes the files when no process of the program is left, and waits for its output.
func (f *files) close() {
	for _, file := range f.opened {
		file.Close()
	}
	if f.wait != nil {
		f.wait()
	}
}

// blame turns an error about the program's own state into an *Error and returns all others unchanged.
func (c Command) blame(err error) error {
	if fault := (*debuggee.Fault)(nil); errors.As(err, &fault) {
		return &Error{Subject: c.Name, Problem: "it could not be controlled: " + fault.Doing, Err: fault.Err,
			Remedy: "run it by itself first: its memory is not as its file says, or something else has killed it"}
	}
	return err
}

// startError distinguishes a file that the kernel cannot execute from a host that forbids it.
func startError(name string, err error) error {
	var (
		hostError *verdict.HostError
		loadError *debuggee.LoadError
		errno     syscall.Errno
	)
	switch {
	case errors.As(err, &hostError):
		return err
	case verdict.NoMoreFiles(err) != nil: // of the pipe by which package syscall reports exec's failure
		return verdict.NoMoreFiles(err)
	case errors.As(err, &loadError):
		return &Error{Subject: name, Problem: loadError.Error(), Remedy: "its program headers ask for memory that it cannot have; readelf -l shows them"}
	case errors.As(err, &errno) && errno == syscall.ENOENT:
		return &Error{Subject: name, Problem: "the dynamic linker that it names is not there", Err: errno,
			Remedy: "readelf -l shows its name; link statically or install it"}
	case errors.As(err, &errno) && errno == syscall.E2BIG:
		return &Error{Subject: name, Problem: "its arguments and environment are too long together", Err: errno,
			Remedy: "run it without bbprof's own environment: -clean-env"}
	case errors.As(err, &errno):
		return &Error{Subject: name, Problem: "the kernel does not execute it", Err: errno}
	}
	return err
}
