package tracee

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/ptracethread"
	"github.com/bbprof/bbprof/verdict"
)

// unprofiled allows a container all system calls.
const unprofiled = "docker: --security-opt seccomp=unconfined"

// isRefusal reports an errno of a security policy or filter, or of a kernel that lacks the call or a flag.
func isRefusal(err error) bool {
	for _, e := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// notStarted explains why fork and exec of the traced child failed: a host can forbid either.
func (t *Tracee) notStarted(err error) error {
	// Nobody traces process 0. So ESRCH is the kernel's answer, and any other a filter's.
	probe := unix.PtraceCont(0, 0)
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if host := ptracethread.Followed(); host != nil && isRefusal(err) && errors.Is(probe, unix.ESRCH) {
		host.Err = err
		return host
	}
	return whyNotStarted(err, probe, strings.TrimSpace(string(scope)))
}

// whyNotStarted explains the error of fork and exec by ptrace's answer to a safe request and by Yama's level
// (Documentation/admin-guide/LSM/Yama.rst), "" without Yama.
func whyNotStarted(err, probe error, scope string) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &verdict.HostError{Missing: "/proc is not mounted, and the child is started from it", Remedy: "mount -t proc proc /proc", Err: err}
	case !isRefusal(err):
		return exhausted("another process", err)
	case !errors.Is(probe, unix.ESRCH):
		return &verdict.HostError{
			Missing: "ptrace is forbidden by a system-call filter, and the child is run under it",
			Remedy:  "allow ptrace in the seccomp profile (" + unprofiled + ")", Err: err,
		}
	case scope == "3":
		return &verdict.HostError{
			Missing: "ptrace is off until the next boot (kernel.yama.ptrace_scope is 3)",
			Remedy:  "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and boot again", Err: err,
		}
	case scope == "2":
		return &verdict.HostError{
			Missing: "ptrace is kept for CAP_SYS_PTRACE (kernel.yama.ptrace_scope is 2)",
			Remedy:  "sudo sysctl kernel.yama.ptrace_scope=1, or run as root", Err: err,
		}
	}
	return &verdict.HostError{
		Missing: "a traced child may not be executed from memory",
		Remedy:  "let the security policy (SELinux, AppArmor, fapolicyd, seccomp) allow ptrace of an own child and executing memory of memfd_create", Err: err,
	}
}

// orDeath returns the reason for a failed launch: err, unless the child is dead or dying. Requests to such a child
// fail in many ways, some like a refusal. A filter that kills for a system call is a refusal.
func (t *Tracee) orDeath(err error) error {
	var regs unix.PtraceRegs
	if t.pid > 0 && errors.Is(unix.PtraceGetRegs(t.pid, &regs), unix.ESRCH) { // a living child is stopped here
		t.end()
	}
	if t.dead == nil || t.dead.Signal == SIGSYS {
		return err
	}
	return t.dead
}

// killedAtStart distinguishes a filter that kills for ptrace from other deaths.
func killedAtStart(err error) error {
	if dead := (*DeadError)(nil); errors.As(err, &dead) && dead.Signal == SIGSYS {
		return &verdict.HostError{
			Missing: "a system-call filter kills the child when it asks to be traced",
			Remedy:  "allow ptrace in the seccomp profile (" + unprofiled + ")", Err: err,
		}
	}
	return err
}

// exhausted says which limit of this host prevents something.
func exhausted(what string, err error) error {
	missing, remedy := "", ""
	switch {
	case errors.Is(err, syscall.EAGAIN): // fork(2), clone(2)
		missing, remedy = "no more processes are allowed", "raise ulimit -u, or the pids limit of the cgroup (docker: --pids-limit)"
	case errors.Is(err, syscall.EMFILE):
		missing, remedy = "no more files may be open in this process", "raise ulimit -n"
	case errors.Is(err, syscall.ENFILE):
		missing, remedy = "no more files may be open on this host", "raise fs.file-max"
	case errors.Is(err, syscall.ENOMEM):
		missing, remedy = "the kernel has no memory left, or none for this process",
			"raise ulimit -v or the memory limit of the cgroup; with vm.overcommit_memory=2, vm.overcommit_ratio"
	case errors.Is(err, syscall.EFBIG):
		missing, remedy = "files may not grow as large as bbprof's shared memory", "raise ulimit -f"
	case errors.Is(err, syscall.ENOSPC):
		missing, remedy = "the memory that files may take is used up", "free memory, or raise the memory limit of the cgroup"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return &verdict.HostError{Missing: fmt.Sprintf("%s, and bbprof needs %s", missing, what), Remedy: remedy, Err: err}
}
