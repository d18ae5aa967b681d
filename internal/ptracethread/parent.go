package ptracethread

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/bbprof/bbprof/verdict"
)

// Followed is why a child may not be traced where bbprof is traced itself: by what traces its children, too, as
// strace -f does. A process has one tracer (ptrace(2)).
func Followed() *verdict.HostError { return followed(TracerOf("self")) }

func followed(tracer string) *verdict.HostError {
	if tracer == "" {
		return nil
	}
	return &verdict.HostError{
		Missing: fmt.Sprintf("process %s traces bbprof and its children (strace -f, a debugger that follows forks), so that bbprof cannot trace them", tracer),
		Remedy:  "run bbprof without it, or have it leave children alone (strace without -f)",
	}
}

// Status reads a field of a process's status (proc_pid_status(5)), "" without it. The process is a number, or self.
func Status(process, field string) string {
	status, _ := os.ReadFile("/proc/" + process + "/status")
	_, after, _ := strings.Cut("\n"+string(status), "\n"+field+":")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// TracerOf is the thread that traces a process, "" if none does.
func TracerOf(process string) string { return strings.TrimLeft(Status(process, "TracerPid"), "0") }

// CheckParent has to pass before a child is started that is to die with its parent (syscall.SysProcAttr.Pdeathsig).
// The code that the Go runtime runs in that child compares getppid with what getpid gave the parent, and where they
// differ sends the signal to what getpid gives (syscall/exec_linux.go). A system-call filter that lets either fail
// makes that a negative number or 0: kill(2) then signals every process that it may, or a whole process group.
//
// Where close is refused this process keeps its end of the pipe by which the child tells that exec failed,
// and waits for ever, as it would for a child that it cannot end because kill is refused.
func CheckParent() error {
	if pid, parent := os.Getpid(), os.Getppid(); pid <= 0 || parent < 0 {
		return &verdict.HostError{
			Missing: fmt.Sprintf("a system-call filter keeps getpid or getppid from answering (%d and %d)", pid, parent),
			Remedy:  "allow both in the seccomp profile (docker: --security-opt seccomp=unconfined)",
		}
	}
	if err := syscall.Close(-1); err != syscall.EBADF { // what any kernel answers
		return verdict.Refused("close", err)
	}
	if err := syscall.Kill(os.Getpid(), 0); err != nil {
		return verdict.Refused("kill, by which children are ended,", err)
	}
	return nil
}
