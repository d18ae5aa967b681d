package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// under runs a program as a host would that is set up otherwise:
//
//	under CONDITION... -- PROGRAM [ARG...]
//
// The conditions come true one after the other, so what takes privileges goes before nobody.
//
//	deny=CALL:ERROR  a system-call filter answers CALL with ERROR, or kills for it (ERROR is kill)
//	nobody           user and group 65534, no other groups and no capabilities
//	cpu=N            CPU N is the only one allowed
//	files=N          at most N open files
//	noproc           /proc is not mounted
//	namespaces       process and mount namespaces of its own, with their own /proc
//
// Its exit code is the program's, or notUnder if it could not be started under those conditions.
func under() {
	if err := underConditions(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "under:", err)
		os.Exit(notUnder)
	}
}

const notUnder = 125 // as env(1) has it for its own failures

func underConditions(args []string) error {
	runtime.LockOSThread() // what is a thread's own lasts into the program that it executes
	path := func(p string) (string, error) { return exec.LookPath(p) }
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		var err error
		switch name {
		case "--":
			program, err := path(args[i+1])
			if err != nil {
				return err
			}
			return syscall.Exec(program, args[i+1:], os.Environ())
		case "deny":
			err = deny(value)
		case "nobody":
			path, err = byDescriptor(args)
			if err == nil {
				err = becomeNobody()
			}
		case "cpu":
			var n int
			if n, err = strconv.Atoi(value); err == nil {
				var set unix.CPUSet
				set.Set(n)
				err = unix.SchedSetaffinity(0, &set)
			}
		case "files":
			var n uint64
			if n, err = strconv.ParseUint(value, 10, 64); err == nil {
				err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
			}
		case "noproc":
			err = withoutProc()
		case "namespaces":
			return inNamespaces(args[i+1:])
		case "proc": // what inNamespaces adds
			if err = ownMounts(); err == nil {
				err = unix.Mount("proc", "/proc", "proc", 0, "")
			}
		default:
			err = errors.New("no such condition")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return errors.New("no -- and program")
}

// byDescriptor opens the program now, for a user who need not reach the folder that it is in.
func byDescriptor(args []string) (func(string) (string, error), error) {
	for i, a := range args {
		if a == "--" {
			path, err := exec.LookPath(args[i+1])
			if err != nil {
				return nil, err
			}
			fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
			return func(string) (string, error) { return fmt.Sprintf("/proc/self/fd/%d", fd), nil }, err
		}
	}
	return nil, errors.New("no -- and program")
}

// ownMounts keeps what is mounted and unmounted from here on to this mount namespace.
func ownMounts() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

func withoutProc() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := ownMounts(); err != nil {
		return err
	}
	for { // they may stand on each other
		if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
			if err == unix.EINVAL { // nothing is mounted there any more
				return nil
			}
			return err
		}
	}
}

func becomeNobody() error {
	const nobody = 65534
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(nobody); err != nil {
		return err
	}
	return syscall.Setuid(nobody)
}

func inNamespaces(rest []string) error {
	c := exec.Command(os.Args[0], append([]string{"proc"}, rest...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	err := c.Run()
	if c.ProcessState == nil {
		return err
	}
	os.Exit(c.ProcessState.ExitCode())
	return nil
}

// deniable are the calls that a filter may forbid.
var deniable = map[string]uint32{
	"ptrace":          unix.SYS_PTRACE,
	"perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"memfd_create":    unix.SYS_MEMFD_CREATE,
	"seccomp":         unix.SYS_SECCOMP,
	"close_range":     unix.SYS_CLOSE_RANGE,
	"prlimit64":       unix.SYS_PRLIMIT64,
	"execve":          unix.SYS_EXECVE,
	"pidfd_open":      unix.SYS_PIDFD_OPEN,
	"getrusage":       unix.SYS_GETRUSAGE,
	"setaffinity":     unix.SYS_SCHED_SETAFFINITY,
	"mremap":          unix.SYS_MREMAP,
	"prctl":           unix.SYS_PRCTL,
}

var answers = map[string]uint32{
	"EPERM":  unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
	"EACCES": unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES),
	"ENOSYS": unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS),
	"kill":   unix.SECCOMP_RET_KILL_PROCESS,
}

// deny installs a filter on the calling thread (seccomp(2)).
func deny(what string) error {
	call, answer, _ := strings.Cut(what, ":")
	nr, ok1 := deniable[call]
	ret, ok2 := answers[answer]
	if !ok1 || !ok2 {
		return errors.New("write deny=CALL:ERROR")
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // offset of nr in struct seccomp_data
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: ret},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	if e != 0 {
		return e
	}
	return nil
}
