package tracee

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/verdict"
)

// What the host refuses is reported with its remedy and the kernel's answer; other errors do not blame the host.
func TestRefused(t *testing.T) {
	const filter, profile = "forbidden by a system-call filter", "seccomp=unconfined"
	start := func(probe error, scope string) func(error) error {
		return func(err error) error { return whyNotStarted(err, probe, scope) }
	}
	memfd := func(noexec string) func(error) error {
		return func(err error) error { return memfdRefused(err, noexec) }
	}
	spent := func(err error) error { return exhausted("a thing", err) }
	byFilter, bySomebody := &DeadError{Signal: SIGSYS}, &DeadError{Signal: int(unix.SIGKILL)}
	for _, c := range []struct {
		name            string
		cause           error
		report          func(error) error
		missing, remedy string // "" if not a host error
	}{
		{"no /proc", unix.ENOENT, start(unix.ESRCH, ""), "/proc is not mounted", "mount -t proc"},
		{"filter, EPERM", unix.EPERM, start(unix.EPERM, ""), filter, profile},
		{"filter, ENOSYS", unix.ENOSYS, start(unix.ENOSYS, "1"), filter, profile},
		{"filter that lets all through but fails oddly", unix.EACCES, start(nil, ""), filter, profile},
		{"Yama 1 is no obstacle", unix.EPERM, start(unix.ESRCH, "1"), "executed from memory", "security policy"},
		{"Yama 2", unix.EPERM, start(unix.ESRCH, "2"), "ptrace_scope is 2", "kernel.yama.ptrace_scope=1"},
		{"Yama 3", unix.EPERM, start(unix.ESRCH, "3"), "ptrace_scope is 3", "boot again"},
		{"a policy", unix.EACCES, start(unix.ESRCH, ""), "executed from memory", "security policy"},
		{"too many files", unix.EMFILE, start(unix.ESRCH, "2"), "no more files", "ulimit -n"},
		{"anything else", unix.EIO, start(unix.ESRCH, "2"), "", ""},

		{"killed by a filter", byFilter, killedAtStart, "a system-call filter kills", profile},
		{"killed by somebody", bySomebody, killedAtStart, "", ""},
		{"not killed", unix.EIO, killedAtStart, "", ""},

		{"memfd, level 2", unix.EACCES, memfd("2"), "memfd_noexec is 2", "sysctl vm.memfd_noexec=1"},
		{"memfd, level 1", unix.EACCES, memfd("1"), "memfd_create is refused", "seccomp profile"},
		{"memfd, no level", unix.EACCES, memfd(""), "memfd_create is refused", "seccomp profile"},
		{"memfd, level 2 is not the reason", unix.EPERM, memfd("2"), "memfd_create is refused", "seccomp profile"},
		{"memfd, ENOSYS", unix.ENOSYS, memfd("0"), "memfd_create is refused", "seccomp profile"},

		{"processes", unix.EAGAIN, spent, "a thing", "ulimit -u"},
		{"files", unix.EMFILE, spent, "a thing", "ulimit -n"},
		{"files of the host", unix.ENFILE, spent, "a thing", "fs.file-max"},
		{"memory", unix.ENOMEM, spent, "a thing", "vm.overcommit_ratio"},
		{"size of a file", unix.EFBIG, spent, "a thing", "ulimit -f"},
		{"memory for files", unix.ENOSPC, spent, "a thing", "cgroup"},
		{"no limit", unix.EIO, spent, "", ""},
	} {
		err := c.report(c.cause)
		host, blamed := errors.AsType[*verdict.HostError](err)
		if blamed != (c.missing != "") || !errors.Is(err, c.cause) ||
			blamed && !(strings.Contains(host.Missing, c.missing) && strings.Contains(host.Remedy, c.remedy)) {
			t.Errorf("%s: %v, want %q and %q", c.name, err, c.missing, c.remedy)
		}
	}
}
