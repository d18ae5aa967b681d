package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// under runs a program as a host would that is set up otherwise:
//
//	under CONDITION... -- PROGRAM [ARG...]
//
// The conditions come true one after the other, so what takes privileges goes before nobody. Filters
// come last, wherever they stand, so that under itself needs none of what they refuse.
//
//	deny=CALL:ERROR  a system-call filter answers CALL with ERROR, or kills for it (ERROR is kill)
//	deny=CALL:ERROR:ARG:MASK:VALUE
//	                 the same if the lower half of argument ARG, masked, is VALUE
//	only=CALL,...    a system-call filter answers all other calls with EPERM, as a container's profile does
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
//	guarded          exit code signalled if the program signals any process but its own or leaves
//	                 one running (wants namespaces)
//	noexec           memory files may not be executed (vm.memfd_noexec; wants namespaces)
//
// Its exit code is the program's, or notUnder if it could not be started under those conditions.
func under() {
	if err := underConditions(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "under:", err)
		os.Exit(notUnder)
	}
}

const (
	notUnder  = 125 // as env(1) has it for its own failures
	signalled = 124
)

func underConditions(args []string) error {
	runtime.LockOSThread() // what is a thread's own lasts into the program that it executes
	var rules []unix.SockFilter
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
			return filtered(rules, program, args[i+1:])
		case "deny":
			var rule []unix.SockFilter
			rule, err = deny(value)
			rules = append(rules, rule...)
		case "only":
			var rule []unix.SockFilter
			rule, err = only(strings.Split(value, ","))
			rules = append(rules, rule...)
		case "before":
			var rule []unix.SockFilter
			rule, err = before(value)
			rules = append(rules, rule...)
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
		case "guarded":
			return guarded(args[i+1:])
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

var answers = map[string]uint32{
	"EPERM":  unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
	"EAGAIN": unix.SECCOMP_RET_ERRNO | uint32(unix.EAGAIN),
	"EINVAL": unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL),
	"ENODEV": unix.SECCOMP_RET_ERRNO | uint32(unix.ENODEV),
	"ENFILE": unix.SECCOMP_RET_ERRNO | uint32(unix.ENFILE),
	"ENOMEM": unix.SECCOMP_RET_ERRNO | uint32(unix.ENOMEM),
	"ENOSYS": unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS),
	"kill":   unix.SECCOMP_RET_KILL_PROCESS,
}

// deny is the part of a filter that answers a call.
func deny(what string) ([]unix.SockFilter, error) {
	f := strings.Split(what, ":")
	if len(f) != 2 && len(f) != 5 {
		return nil, errors.New("write deny=CALL:ERROR or deny=CALL:ERROR:ARG:MASK:VALUE")
	}
	nr, ok1 := deniable[f[0]]
	ret, ok2 := answers[f[1]]
	if !ok1 || !ok2 {
		return nil, errors.New("no such call or error")
	}
	rule := []unix.SockFilter{{Code: load}, {Code: ifEqual, K: nr}} // offset of nr in struct seccomp_data
	if len(f) == 5 {
		var of [3]uint32
		for i := range of {
			n, err := strconv.ParseUint(f[2+i], 0, 32)
			if err != nil {
				return nil, err
			}
			of[i] = uint32(n)
		}
		const args = 16 // their offset
		rule = append(rule, unix.SockFilter{Code: load, K: args + 8*of[0]}, unix.SockFilter{Code: and, K: of[1]}, unix.SockFilter{Code: ifEqual, K: of[2]})
	}
	return answer(rule, ret), nil
}

// only is the part of a filter that answers all calls but those named, and the one that starts the program.
func only(calls []string) ([]unix.SockFilter, error) {
	rule := []unix.SockFilter{{Code: load}}
	allow := func(nr uint32) {
		rule = append(rule, unix.SockFilter{Code: ifEqual, K: nr, Jf: 1}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	}
	allow(unix.SYS_EXECVEAT)
	for _, call := range calls {
		nr, ok := deniable[call]
		if !ok {
			return nil, fmt.Errorf("no such call: %s", call)
		}
		allow(nr)
	}
	return append(rule, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answers["EPERM"]}), nil
}

// before is a kernel that lacks what came later.
func before(first string) ([]unix.SockFilter, error) {
	n, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return nil, err
	}
	return answer([]unix.SockFilter{{Code: load}, {Code: ifAtLeast, K: uint32(n)}}, answers["ENOSYS"]), nil
}

// Instructions of a filter (linux/bpf_common.h).
const (
	load      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and       = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ifEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
)

// answer completes a rule: a call for which all of its comparisons hold gets the answer.
func answer(rule []unix.SockFilter, answer uint32) []unix.SockFilter {
	for i := range rule {
		if rule[i].Code == ifEqual || rule[i].Code == ifAtLeast {
			rule[i].Jf = uint8(len(rule) - i) // to after the answer
		}
	}
	return append(rule, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer})
}

// filtered executes a program with a filter installed (seccomp(2)) of these rules. Between the two it
// makes no other system call, and that is execveat, so any that a program needs can be refused.
func filtered(rules []unix.SockFilter, program string, args []string) error {
	if len(rules) == 0 {
		return syscall.Exec(program, args, os.Environ())
	}
	path, err := unix.BytePtrFromString(program)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	envv, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return err
	}
	rules = append(rules, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	loaded := unix.SockFprog{Len: uint16(len(rules)), Filter: &rules[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&loaded))); e != 0 {
		return e
	}
	here := unix.AT_FDCWD
	_, _, e := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(here), uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])), 0, 0)
	return e
}

// guarded runs the rest beside a process that any signal would end, and looks for what is left
// of it. It is the first process of its namespace, which only the namespace's own end kills.
func guarded(rest []string) error {
	bystander := exec.Command("sleep", "1000")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := bystander.Start(); err != nil {
		return err
	}
	c := exec.Command(os.Args[0], rest...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Run(); c.ProcessState == nil {
		return err
	}
	code := c.ProcessState.ExitCode()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		code = 128 + int(status.Signal()) // as a shell has it
	}
	for try := 0; ; try++ { // a process takes a moment to end
		alive, err := living()
		if err != nil {
			return err
		}
		switch ok := alive[bystander.Process.Pid]; {
		case !ok:
			fmt.Fprintln(os.Stderr, "under: a process beside the program was killed")
			os.Exit(signalled)
		case len(alive) == 2: // this one and the bystander
			os.Exit(code)
		case try == 20:
			fmt.Fprintf(os.Stderr, "under: the program left processes running: %v\n", alive)
			os.Exit(signalled)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// living are the processes of /proc that are not zombies.
func living() (map[int]bool, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	pids := map[int]bool{}
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, state, _ := strings.Cut(string(stat), ") ") // proc_pid_stat(5)
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && !strings.HasPrefix(state, "Z") {
			pids[pid] = true
		}
	}
	return pids, err
}
