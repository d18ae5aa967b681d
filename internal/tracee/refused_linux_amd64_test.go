package tracee

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

func TestWhyNotStarted(t *testing.T) {
	for _, c := range []struct {
		name       string
		err, probe error
		scope      string
		missing    string // "" if not a host error
		remedy     string
	}{
		{"no /proc", unix.ENOENT, unix.ESRCH, "", "/proc is not mounted", "mount -t proc"},
		{"filter, EPERM", unix.EPERM, unix.EPERM, "", "forbidden by a system-call filter", "seccomp=unconfined"},
		{"filter, ENOSYS", unix.ENOSYS, unix.ENOSYS, "1", "forbidden by a system-call filter", "seccomp=unconfined"},
		{"filter that lets all through but fails oddly", unix.EACCES, nil, "", "forbidden by a system-call filter", "seccomp=unconfined"},
		{"Yama 1 is no obstacle", unix.EPERM, unix.ESRCH, "1", "may not be executed from memory", "security policy"},
		{"Yama 2", unix.EPERM, unix.ESRCH, "2", "kernel.yama.ptrace_scope is 2", "sysctl kernel.yama.ptrace_scope=1"},
		{"Yama 3", unix.EPERM, unix.ESRCH, "3", "kernel.yama.ptrace_scope is 3", "boot again"},
		{"a policy", unix.EACCES, unix.ESRCH, "", "may not be executed from memory", "security policy"},
		{"too many files", unix.EMFILE, unix.ESRCH, "2", "no more files", "ulimit -n"},
		{"anything else", unix.EIO, unix.ESRCH, "2", "", ""},
	} {
		err := whyNotStarted(c.err, c.probe, c.scope)
		var host *verdict.HostError
		switch {
		case c.missing == "":
			if errors.As(err, &host) {
				t.Errorf("%s: blames the host: %v", c.name, err)
			}
		case !errors.As(err, &host):
			t.Errorf("%s: %v", c.name, err)
		case !strings.Contains(host.Missing, c.missing) || !strings.Contains(host.Remedy, c.remedy):
			t.Errorf("%s: missing %q, remedy %q", c.name, host.Missing, host.Remedy)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: the kernel's answer is lost in %v", c.name, err)
		}
	}
}

func TestKilledAtStart(t *testing.T) {
	var host *verdict.HostError
	if err := killedAtStart(&DeadError{Signal: SIGSYS}); !errors.As(err, &host) {
		t.Errorf("by a filter: %v", err)
	}
	for _, err := range []error{&DeadError{Signal: int(syscall.SIGKILL)}, &DeadError{}, fmt.Errorf("other")} {
		if got := killedAtStart(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestMemfdRefused(t *testing.T) {
	for _, c := range []struct {
		err    error
		noexec string
		remedy string
	}{
		{unix.EACCES, "2", "sysctl vm.memfd_noexec=1"},
		{unix.EACCES, "1", "seccomp profile"},
		{unix.EACCES, "", "seccomp profile"},
		{unix.EPERM, "2", "seccomp profile"},
		{unix.ENOSYS, "0", "seccomp profile"},
	} {
		var host *verdict.HostError
		if err := memfdRefused(c.err, c.noexec); !errors.As(err, &host) || !strings.Contains(host.Remedy, c.remedy) || !errors.Is(err, c.err) {
			t.Errorf("%v at level %q: %v", c.err, c.noexec, err)
		}
	}
}

// An exhausted resource is reported with the knob that raises it; other errors are not.
func TestExhausted(t *testing.T) {
	for errno, hint := range map[syscall.Errno]string{
		syscall.EAGAIN: "ulimit -u", syscall.EMFILE: "ulimit -n", syscall.ENFILE: "fs.file-max",
		syscall.ENOMEM: "vm.overcommit_ratio", syscall.EFBIG: "ulimit -f", syscall.ENOSPC: "cgroup",
	} {
		var host *verdict.HostError
		if err := exhausted("a thing", errno); !errors.As(err, &host) || !strings.Contains(host.Remedy, hint) || !strings.Contains(host.Missing, "a thing") {
			t.Errorf("%v: %v", errno, err)
		}
	}
	var host *verdict.HostError
	if err := exhausted("a thing", syscall.EIO); errors.As(err, &host) || !errors.Is(err, syscall.EIO) {
		t.Errorf("EIO: %v", err)
	}
}
