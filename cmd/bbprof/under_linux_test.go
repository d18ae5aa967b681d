package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// under runs a program under a system-call filter:
//
//	under CONDITION... -- PROGRAM [ARG...]
//
//	deny=CALL:ERROR  CALL is answered with ERROR, or kills the program (ERROR is kill)
//	deny=CALL:ERROR:ARG:MASK:VALUE
//	                 the same if the lower half of argument ARG, masked, is VALUE
//	only=CALL,...    all other calls are answered with EPERM, as by a container's profile
//	before=N         system calls from number N on are not known
//	guarded          exit code signalled if the program signals any process but its own or leaves
//	                 one running (wants namespaces, see commandUnder)
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
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		var rule []unix.SockFilter
		var err error
		switch name {
		case "--":
			program, err := exec.LookPath(args[i+1])
			if err != nil {
				return err
			}
			return filtered(rules, program, args[i+1:])
		case "deny":
			rule, err = deny(value)
		case "only":
			rule, err = only(strings.Split(value, ","))
		case "before":
			rule, err = before(value)
		case "guarded":
			return guarded(args[i+1:])
		default:
			err = errors.New("no such condition")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		rules = append(rules, rule...)
	}
	return errors.New("no -- and program")
}

// commandUnder is a command line that runs a program on a host that is set up otherwise. under is the path of the
// program of that name, which makes the conditions of system calls; these come last, whatever their place, so that what
// makes the others needs none of the calls that they refuse. The others are:
//
//	nobody      user and group 65534, no other groups and no capabilities
//	nocaps      no capabilities, whoever the user is
//	cpu=N       CPU N is the only one allowed
//	files=N, space=N, tasks=N, filesize=N
//	            at most N open files, bytes of address space, processes of the user, bytes in a file
//	noproc      /proc is not mounted
//	namespaces  process and mount namespaces of its own, with their own /proc
//	noexec      memory files may not be executed (vm.memfd_noexec; wants namespaces)
func commandUnder(under string, conditions []string, program ...string) (words []string) {
	var filters []string
	for _, c := range conditions {
		switch name, value, _ := strings.Cut(c, "="); name {
		case "nobody":
			words = append(words, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--")
		case "nocaps":
			words = append(words, "setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--")
		case "cpu":
			words = append(words, "taskset", "-c", value)
		case "files", "space", "tasks", "filesize":
			limit := map[string]string{"files": "nofile", "space": "as", "tasks": "nproc", "filesize": "fsize"}[name]
			words = append(words, "prlimit", "--"+limit+"="+value, "--")
		case "noproc": // mounts may stand on each other
			words = append(words, "unshare", "--mount", "sh", "-c", `while umount -l /proc 2>/dev/null; do :; done; exec "$@"`, "sh")
		case "namespaces":
			words = append(words, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
		case "noexec":
			words = append(words, "sh", "-c", `echo 2 >/proc/sys/vm/memfd_noexec && exec "$@"`, "sh")
		default:
			filters = append(filters, c)
		}
	}
	if len(filters) > 0 {
		words = slices.Concat(words, []string{under}, filters, []string{"--"})
	}
	return append(words, program...)
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
