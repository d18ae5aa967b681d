package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/space"
)

// A broken host is made by restricting the test's own binary before it becomes bbprof: by
// limits, another user, namespaces, or a filter that refuses system calls as an older kernel
// or a container does.

// refused is a system call that a filter answers with an error. Of its arguments, word arg of
// seccomp_data (linux/seccomp.h), masked, may have to equal something.
type refused struct {
	nr    uint32
	errno unix.Errno
	arg   int // -1 for whatever arguments
	mask  uint32
	value uint32
}

func refuse(errno unix.Errno, nrs ...uint32) (all []refused) {
	for _, nr := range nrs {
		all = append(all, refused{nr: nr, errno: errno, arg: -1})
	}
	return all
}

// filtered installs the filter on the calling thread, and so for what it executes.
func filtered(from uint32, rules ...refused) error {
	const loadWord, jeq, jge, and, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const allow, fails = 0x7fff_0000, 0x0005_0000 // SECCOMP_RET_ALLOW, _ERRNO
	var prog []unix.SockFilter
	add := func(code uint16, jt, jf uint8, k uint32) {
		prog = append(prog, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	}
	for _, r := range rules {
		add(loadWord, 0, 0, 0)
		if r.arg < 0 {
			add(jeq, 0, 1, r.nr)
		} else {
			add(jeq, 0, 4, r.nr)
			add(loadWord, 0, 0, uint32(16+8*r.arg))
			add(and, 0, 0, r.mask)
			add(jeq, 0, 1, r.value)
		}
		add(ret, 0, 0, fails|uint32(r.errno))
	}
	if from > 0 { // all calls that a kernel of some age does not know
		add(loadWord, 0, 0, 0)
		add(jge, 0, 1, from)
		add(ret, 0, 0, fails|uint32(unix.ENOSYS))
	}
	add(ret, 0, 0, allow)
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return e
	}
	return nil
}

func limited(which int, most uint64) error {
	return unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most})
}

const nobody = 65534

// brokenHost is a host, what bbprof has to say about it, and how it is made: restrict runs in
// a process of its own, which becomes bbprof.
type brokenHost struct {
	name     string
	missing  string // in the message, with exit code 3; "" is that bbprof works
	flags    uintptr
	args     string // besides -hex 90
	restrict func() error
}

var brokenHosts = []brokenHost{
	{name: "as it is", restrict: func() error { return nil }},
	{name: "no ptrace", missing: "ptrace is forbidden", restrict: func() error { return filtered(0, refuse(unix.EPERM, unix.SYS_PTRACE)...) }},
	{name: "no memfd", missing: "memfd_create is refused", restrict: func() error { return filtered(0, refuse(unix.EPERM, unix.SYS_MEMFD_CREATE)...) }},
	{name: "no memfd, older kernel", missing: "memfd_create is refused", restrict: func() error { return filtered(0, refuse(unix.ENOSYS, unix.SYS_MEMFD_CREATE)...) }},
	{name: "no seccomp", missing: "seccomp filters", restrict: func() error { return filtered(0, refuse(unix.EPERM, unix.SYS_SECCOMP)...) }},
	{name: "no prlimit", missing: "is refused", restrict: func() error { return filtered(0, refuse(unix.EPERM, unix.SYS_PRLIMIT64)...) }},
	{name: "no mprotect", missing: "is refused", restrict: func() error {
		return filtered(0, refused{unix.SYS_MPROTECT, unix.EPERM, 0, ^uint32(0), uint32(space.Log & 0xffff_ffff)})
	}},
	{name: "no capset", missing: "is refused", restrict: func() error { return filtered(0, refuse(unix.EPERM, unix.SYS_CAPSET)...) }},
	{name: "a vdso that stays", missing: "vdso", restrict: func() error {
		return filtered(0, refused{unix.SYS_MUNMAP, unix.EPERM, 0, ^uint32(0), uint32(space.End & 0xffff_ffff)})
	}},
	// 424 is pidfd_send_signal, the first of Linux 5.1's; 5.3 brought 434 and 435.
	{name: "Linux 5.0", restrict: func() error { return filtered(424) }},
	{name: "an old container", restrict: func() error {
		return filtered(0, refuse(unix.EPERM, unix.SYS_CLOSE_RANGE, unix.SYS_CLONE3, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_OPENAT2)...)
	}},
	{name: "no more processes", missing: "no more processes", restrict: func() error {
		return filtered(0, refused{unix.SYS_CLONE, unix.EAGAIN, 0, unix.CLONE_VFORK, unix.CLONE_VFORK})
	}},
	{name: "no more files", missing: "no more files", restrict: func() error { return limited(unix.RLIMIT_NOFILE, 8) }}, // the Go runtime takes two,
	{name: "hardly any files", missing: "no more files", restrict: func() error { return limited(unix.RLIMIT_NOFILE, 9) }},
	{name: "no more files on the host", missing: "open on this host", restrict: func() error { return filtered(0, refuse(unix.ENFILE, unix.SYS_MEMFD_CREATE)...) }},
	{name: "no memory to share", missing: "no memory left", restrict: func() error {
		return filtered(0, refused{unix.SYS_MMAP, unix.ENOMEM, 3, unix.MAP_SHARED, unix.MAP_SHARED})
	}},
	{name: "small files", missing: "files may not grow", restrict: func() error { return limited(unix.RLIMIT_FSIZE, 1<<20) }},
	{name: "no /proc", missing: "/proc is not mounted", flags: unix.CLONE_NEWNS, restrict: func() error {
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
		return unix.Unmount("/proc", unix.MNT_DETACH)
	}},
	{name: "memory that is not executable", missing: "vm.memfd_noexec is 2", flags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, restrict: func() error {
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return err
		}
		return os.WriteFile("/proc/sys/vm/memfd_noexec", []byte("2"), 0)
	}},
	{name: "a pid namespace", flags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, restrict: func() error {
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
		return unix.Mount("proc", "/proc", "proc", 0, "")
	}},
	{name: "another user", restrict: becomeNobody},
	{name: "no capabilities, as root", restrict: func() error {
		header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		for c := range uintptr(64) {
			unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
		return unix.Capset(&header, &none[0])
	}},
	{name: "one CPU", restrict: func() error { return host.PinThread(firstCPU()) }},
	{name: "another CPU than allowed", missing: "not ours to run on", args: "-cpu 1023", restrict: func() error { return host.PinThread(firstCPU()) }},
}

func firstCPU() int {
	cpus, err := host.AllowedCPUs()
	if err != nil || len(cpus) == 0 {
		return 0
	}
	return cpus[0]
}

const hostVariable = "BBPROF_TEST_HOST"

// becomeHost restricts this process and becomes bbprof, if a test asks for it.
func becomeHost() {
	name, ok := os.LookupEnv(hostVariable)
	if !ok {
		return
	}
	for _, h := range brokenHosts {
		if h.name != name {
			continue
		}
		runtime.LockOSThread()
		os.Unsetenv(hostVariable)
		self, err := os.Executable()
		if err == nil {
			err = os.Chdir("/")
		}
		if err = errors.Join(err, h.restrict()); err == nil {
			err = syscall.Exec(self, os.Args, os.Environ())
		}
		fmt.Fprintln(os.Stderr, "cannot be made:", err)
		os.Exit(77)
	}
}

// TestHosts: on each, bbprof measures or says with exit code 3 what is missing and what helps.
func TestHosts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making hosts takes root")
	}
	if raced {
		t.Skip("the race detector needs more of a host than bbprof")
	}
	if why := cannotMeasure(t); why != "" {
		t.Skip(why)
	}
	// A copy that any user can execute.
	binary := executableForAll(t)
	for _, h := range brokenHosts {
		t.Run(h.name, func(t *testing.T) {
			code, stdout, stderr, took := runOn(t, binary, h)
			t.Logf("exit code %d in %v: %s", code, took.Round(time.Millisecond), strings.TrimSpace(stderr))
			switch {
			case code == 77:
				t.Skip(stderr)
			case strings.Contains(stderr, "not left alone"):
				t.Skip("somebody else uses the core")
			case h.missing == "" && code != exitOK && code != exitRejected:
				t.Errorf("it does not work: %s %s", stdout, stderr)
			case h.missing != "" && (code != exitHost || !strings.Contains(stderr, h.missing) || !strings.Contains(stderr, "; ")):
				t.Errorf("want exit code %d, and about %q", exitHost, h.missing)
			}
			if took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// executableForAll is this binary under the name by which it is bbprof, for everyone to run.
func executableForAll(t *testing.T) string {
	dir, err := os.MkdirTemp("", "bbprof-hosts-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := dir + "/bbprof"
	build := exec.Command("go", "test", "-c", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the C library's start has failures of its own
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := errors.Join(os.Chmod(path, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

func runOn(t *testing.T, binary string, h brokenHost) (code int, stdout, stderr string, took time.Duration) {
	t.Helper()
	args := append(strings.Fields(h.args), "-budget", "1us", "-hex", "90")
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), hostVariable+"="+h.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: h.flags}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Skip(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(began)
}

// TestPageZeroAsAnotherUser: what only root may map is unmappable to others, and says why.
func TestPageZeroAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	if why := cannotMeasure(t); why != "" {
		t.Skip(why)
	}
	binary := executableForAll(t)
	cmd := exec.Command(binary, "-rescue=false", "-hex", "31c08b00") // xor eax, eax; mov eax, [rax]
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitRejected || !strings.Contains(string(out), "mmap_min_addr") {
		if strings.Contains(string(out), "not left alone") {
			t.Skip("somebody else uses the core")
		}
		t.Errorf("%v: %s", err, out)
	}
}
