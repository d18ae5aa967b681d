// Package debuggee runs a user's program under ptrace: it starts it in a controlled set-up, stops it at breakpoints and
// single-steps it. Package tracee controls the child that runs blocks; no other package uses ptrace.
//
// A [Process] belongs to the thread that started it: the calling goroutine must be locked to its thread from [Start] to
// [Process.Close]. Between calls all the program's threads are stopped.
package debuggee

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/bbprof/bbprof/asm"
)

type Config struct {
	Path  string   // of the ELF file
	Args  []string // including the program's name
	Env   []string
	Files [3]*os.File // standard input, output and error
}

type State struct {
	asm.Regs
	Flags uint64
	XSave []byte // written by XSAVE in its standard format (Intel SDM vol. 1, 13.4)
}

type Stop struct {
	Thread int
	Regs   asm.Regs
	End    *End
}

type Step struct {
	// Executed means that the instruction, or one iteration of a rep string instruction, ran. Otherwise a signal came
	// first, or its handler was entered, or a system call went on that a signal had interrupted: step again.
	Executed bool
	// Again means that it was such an iteration and more follow: the instruction counts once, with its last.
	Again bool
	Regs  asm.Regs
	// Elsewhere is another thread at a breakpoint that foreign claimed.
	Elsewhere int
	// Gone means that the thread has ended; End, that the program has.
	Gone bool
	End  *End
}

// ErrCopies means that the program ended in a copy of its code, or left that in an unknown way.
var ErrCopies = errors.New("it ran out of a copy of its code")

// StepsShown is the number of single steps between reports of progress: at most a tenth of a second.
const StepsShown = 4096

type End struct {
	Status int            // exit status, if Signal is 0
	Signal syscall.Signal // that killed it
	Exec   bool           // it became another program by exec instead
	Left   bool           // processes that it started were still running
}

// LoadError means that the kernel killed a program while loading it: past the point of no return in exec
// (begin_new_exec, fs/exec.c), errors become signals.
type LoadError struct{ Signal syscall.Signal }

func (e *LoadError) Error() string {
	return fmt.Sprintf("the kernel ended it with signal %d (%v) while loading it", int(e.Signal), e.Signal)
}

// Fault means that the program is not in the expected state: memory at an address it named is missing, or one of its
// threads was killed from outside.
type Fault struct {
	Doing string // what failed
	Err   error
}

func (e *Fault) Error() string { return e.Doing + ": " + e.Err.Error() }
func (e *Fault) Unwrap() error { return e.Err }

// fault wraps an error of a system call about the program's memory, registers or threads: in a *Fault if the errno says
// that they do not exist.
func fault(err error, doing string, args ...any) error {
	doing = fmt.Sprintf(doing, args...)
	for _, missing := range []syscall.Errno{syscall.EIO, syscall.EFAULT, syscall.ESRCH, syscall.EINVAL} {
		if errors.Is(err, missing) {
			return &Fault{doing, err}
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func (e *End) String() string {
	switch {
	case e.Exec:
		return "it became another program by exec"
	case e.Signal != 0:
		return fmt.Sprintf("it was killed by signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("it ended with status %d", e.Status)
}
