// Package debuggee runs a program of the user's under ptrace: it is started in a controlled
// set-up, stopped at breakpoints and executed an instruction at a time. The child that runs
// blocks is package tracee's; ptrace is in these two packages alone.
//
// A [Process] belongs to the thread that started it: the calling goroutine must be locked to
// its thread from [Start] to [Process.Close]. Between two calls all its threads are stopped.
package debuggee

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/bbprof/bbprof/asm"
)

type Config struct {
	Path  string   // of the ELF file
	Args  []string // with the program's name in front
	Env   []string
	Files [3]*os.File // standard input, output and error
}

// State is all that user code sees in the registers of a thread.
type State struct {
	asm.Regs
	Flags uint64
	XSave []byte // the area that XSAVE writes in its standard format (Intel SDM vol. 1, 13.4)
}

// Stop is why Run came back: a thread stands at a breakpoint, or the program is gone.
type Stop struct {
	Thread int
	Regs   asm.Regs
	End    *End
}

// Usage is what the kernel counted of a process (getrusage(2)).
type Usage struct {
	CPUTime  time.Duration // in user mode and kernel, to the microsecond, from its start on
	Faults   int           // page faults, from the exec on at which its image was set up
	Switches int           // context switches from there on, of the tracer's stops too
}

// Step is what became of one step of a thread.
type Step struct {
	// Executed says that the instruction ran, or one round of a string instruction with a rep
	// prefix. Else a signal came in between, or its handler was entered: step again.
	Executed bool
	// Again says that it was such a round and that the instruction goes on: it is to be counted
	// once, with its last round.
	Again bool
	Regs  asm.Regs
	// Elsewhere is another thread that stands at a breakpoint that foreign took for its own.
	Elsewhere int
	// Gone says that the thread has ended, End that the program has.
	Gone bool
	End  *End
}

// StepsShown is after how many single steps progress is shown: a tenth of a second at most.
const StepsShown = 4096

// End is how a program ended.
type End struct {
	Status int            // its exit status, if Signal is 0
	Signal syscall.Signal // what killed it
	Exec   bool           // it did not end but became another program by exec
	Left   bool           // processes that it had started were still running
}

// LoadError says that the kernel ended a program while it loaded it: past the point where exec could
// still fail (begin_new_exec, fs/exec.c), an error is a signal.
type LoadError struct{ Signal syscall.Signal }

func (e *LoadError) Error() string {
	return fmt.Sprintf("the kernel ended it with signal %d (%v) while loading it", int(e.Signal), e.Signal)
}

// Fault says that the program is not as its control needs it: memory at an address that it named is
// not there, or one of its threads was killed from outside.
type Fault struct {
	Doing string // what failed
	Err   error
}

func (e *Fault) Error() string { return e.Doing + ": " + e.Err.Error() }
func (e *Fault) Unwrap() error { return e.Err }

// fault is an error of a system call about the program's memory, registers or threads: a *Fault where
// the errno says that they are not there.
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

// isRepeated reports whether code starts with a string instruction under a rep prefix: the
// CPU steps it a round at a time (Intel SDM vol. 2, REP). The prefixes and opcodes are those
// of vol. 2, 2.1.1 and appendix A.
func isRepeated(code []byte) bool {
	rep := false
	for _, c := range code {
		switch {
		case c == 0xf2 || c == 0xf3:
			rep = true
		case c == 0x66 || c == 0x67 || c == 0x2e || c == 0x36 || c == 0x3e || c == 0x26 || c == 0x64 || c == 0x65 || c&0xf0 == 0x40:
		default: // ins and outs; movs and cmps; stos, lods and scas
			return rep && (c&^3 == 0x6c || c&^3 == 0xa4 || c >= 0xaa && c <= 0xaf)
		}
	}
	return false
}
