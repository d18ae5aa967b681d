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
//	deny=CALL:ERROR:ARG:MASK:VALUE
//	                 the same if the lower half of argument ARG, masked, is VALUE
//	before=N         system calls from number N on are not known
//	nobody           user and group 65534, no other groups and no capabilities
//	nocaps           no capabilities, whoever the user is
//	cpu=N            CPU N is the only one allowed
//	files=N          at most N open files
//	space=N          at most N bytes of address space
//	tasks=N          at most N processes and threads of the user
//	filesize=N       at most N bytes in a file
//	noproc           /proc is not mounted
//	namespaces       process and mount namespaces of its own, with their own /proc
//	noexec           memory files may not be executed (vm.memfd_noexec; wants namespaces)
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
		case "before":
			err = before(value)
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
		case "nocaps":
			err = withoutCapabilities()
		case "files":
			err = limit(unix.RLIMIT_NOFILE, value)
		case "space":
			err = limit(unix.RLIMIT_AS, value)
		case "tasks":
			err = limit(unix.RLIMIT_NPROC, value)
		case "filesize":
			err = limit(unix.RLIMIT_FSIZE, value)
		case "noproc":
			err = withoutProc()
		case "namespaces":
			return inNamespaces(args[i+1:])
		case "noexec":
			err = os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0)
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

func limit(which int, value string) error {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return err
	}
	return unix.Setrlimit(which, &unix.Rlimit{Cur: n, Max: n})
}

func withoutCapabilities() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for c := range uintptr(64) {
		unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // fails for those that the kernel does not have
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	return unix.Capset(&header, &none[0])
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
	"getpid": unix.SYS_GETPID, "getppid": unix.SYS_GETPPID, "capset": unix.SYS_CAPSET,
	"clone":             unix.SYS_CLONE,
	"clone3":            unix.SYS_CLONE3,
	"close_range":       unix.SYS_CLOSE_RANGE,
	"execve":            unix.SYS_EXECVE,
	"getrusage":         unix.SYS_GETRUSAGE,
	"memfd_create":      unix.SYS_MEMFD_CREATE,
	"mmap":              unix.SYS_MMAP,
	"mprotect":          unix.SYS_MPROTECT,
	"mremap":            unix.SYS_MREMAP,
	"munmap":            unix.SYS_MUNMAP,
	"openat2":           unix.SYS_OPENAT2,
	"perf_event_open":   unix.SYS_PERF_EVENT_OPEN,
	"pidfd_open":        unix.SYS_PIDFD_OPEN,
	"pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL,
	"prctl":             unix.SYS_PRCTL,
	"prlimit64":         unix.SYS_PRLIMIT64,
	"ptrace":            unix.SYS_PTRACE,
	"seccomp":           unix.SYS_SECCOMP,
	"setaffinity":       unix.SYS_SCHED_SETAFFINITY,
}

var answers = map[string]uint32{
	"EPERM":  unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
	"EACCES": unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES),
	"EAGAIN": unix.SECCOMP_RET_ERRNO | uint32(unix.EAGAIN),
	"ENFILE": unix.SECCOMP_RET_ERRNO | uint32(unix.ENFILE),
	"ENOMEM": unix.SECCOMP_RET_ERRNO | uint32(unix.ENOMEM),
	"ENOSYS": unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS),
	"kill":   unix.SECCOMP_RET_KILL_PROCESS,
}

// deny has a filter answer a call.
func deny(what string) error {
	f := strings.Split(what, ":")
	if len(f) != 2 && len(f) != 5 {
		return errors.New("write deny=CALL:ERROR or deny=CALL:ERROR:ARG:MASK:VALUE")
	}
	nr, ok1 := deniable[f[0]]
	ret, ok2 := answers[f[1]]
	if !ok1 || !ok2 {
		return errors.New("no such call or error")
	}
	rule := []unix.SockFilter{{Code: load}, {Code: ifEqual, K: nr}} // offset of nr in struct seccomp_data
	if len(f) == 5 {
		var of [3]uint32
		for i := range of {
			n, err := strconv.ParseUint(f[2+i], 0, 32)
			if err != nil {
				return err
			}
			of[i] = uint32(n)
		}
		const args = 16 // their offset
		rule = append(rule, unix.SockFilter{Code: load, K: args + 8*of[0]}, unix.SockFilter{Code: and, K: of[1]}, unix.SockFilter{Code: ifEqual, K: of[2]})
	}
	return filter(rule, ret)
}

// before is a kernel that lacks what came later.
func before(first string) error {
	n, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return err
	}
	return filter([]unix.SockFilter{{Code: load}, {Code: ifAtLeast, K: uint32(n)}}, answers["ENOSYS"])
}

// Instructions of a filter (linux/bpf_common.h).
const (
	load      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and       = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ifEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
)

// filter installs one on the calling thread (seccomp(2)), and so for what it executes: a call
// for which all comparisons of the rule hold gets the answer.
func filter(rule []unix.SockFilter, answer uint32) error {
	for i := range rule {
		if rule[i].Code == ifEqual || rule[i].Code == ifAtLeast {
			rule[i].Jf = uint8(len(rule) - i) // to after the answer
		}
	}
	program := append(rule,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	loaded := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&loaded)))
	if e != 0 {
		return e
	}
	return nil
}
