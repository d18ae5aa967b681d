package ptracethread

import (
	"fmt"
	"os"
	"syscall"

	"github.com/bbprof/bbprof/verdict"
)

// CheckParent has to pass before a child is started that is to die with its parent
// (syscall.SysProcAttr.Pdeathsig). The code that the Go runtime runs in that child compares getppid
// with what getpid gave the parent, and where they differ sends the signal to what getpid gives
// (syscall/exec_linux.go). A system-call filter that lets either fail makes that a negative number or
// 0: kill(2) then signals every process that it may, or a whole process group.
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
		return &verdict.HostError{
			Missing: "a system-call filter keeps close from working",
			Remedy:  "allow it in the seccomp profile (docker: --security-opt seccomp=unconfined)", Err: err,
		}
	}
	if err := syscall.Kill(os.Getpid(), 0); err != nil {
		return verdict.Refused("kill, by which children are ended,", err)
	}
	return nil
}
