package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/cli"
	states "github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/state"
	"github.com/bbprof/bbprof/initial"
	"github.com/bbprof/bbprof/internal/host"
	"github.com/bbprof/bbprof/internal/layout"
	"github.com/bbprof/bbprof/internal/require"
	"github.com/bbprof/bbprof/internal/tinyelf"
)

// brokenHosts are hosts by the conditions that make them (see under), and what bbprof has to say
// about each, besides those of TestDoctorKeepsItsWord.
var brokenHosts = []struct {
	name       string
	conditions string
	missing    string // in the message, with exit code 3; "" is that bbprof works
	args       string // of bbprof, -hex 90 by default
}{
	{name: "as it is"},
	{name: "no prlimit", conditions: "deny=prlimit64:EPERM", missing: "is refused"},
	{name: "no mprotect", conditions: denyAt("mprotect", layout.Log), missing: "is refused"},
	{name: "no capset", conditions: "deny=capset:EPERM", missing: "is refused"},
	{name: "a vdso that stays", conditions: denyAt("munmap", layout.End), missing: "vdso"},
	{name: "Linux 5.0", conditions: "before=424"}, // pidfd_send_signal, the first of 5.1's; 5.3 brought 434 and 435
	{name: "an old container", conditions: "deny=close_range:EPERM deny=clone3:EPERM deny=pidfd_open:EPERM deny=pidfd_send_signal:EPERM deny=openat2:EPERM"},
	{name: "no more processes", conditions: "deny=clone:EAGAIN:0:0x4000:0x4000", missing: "no more processes"}, // CLONE_VFORK (linux/sched.h): how Go forks
	// In a PID namespace of its own: a mistake here signals every process that there is.
	{name: "no getpid", conditions: "namespaces deny=getpid:EPERM", missing: "getpid or getppid"},
	{name: "no getppid", conditions: "namespaces deny=getppid:EPERM", missing: "getpid or getppid"},
	{name: "no signals", conditions: "namespaces deny=kill:ENOSYS deny=pidfd_send_signal:ENOSYS", missing: "kill, by which children are ended, is refused"},
	{name: "address space with which Go may be killed at any allocation", conditions: "space=1610612735", missing: "1535 MiB of address space"},
	{name: "just enough address space", conditions: "space=1610612736"},
	{name: "hardly any threads", conditions: "nobody tasks=8", missing: "processes and threads are left"},
	{name: "no files", conditions: "files=0", missing: "no more than 0 files"},
	{name: "too few files for a child", conditions: "files=12", missing: "no more than 12 files"},
	{name: "just enough files", conditions: "files=13", args: "-clock tsc -budget 50ms -precision 50% -hex 90"},
	{name: "no more files on the host", conditions: "deny=memfd_create:ENFILE", missing: "open on this host"},
	{name: "no memory to share", conditions: "deny=mmap:ENOMEM:3:1:1", missing: "no memory left"}, // MAP_SHARED
	{name: "small files", conditions: "filesize=1048576", missing: "files may not grow"},
	{name: "memory that is not executable", conditions: "namespaces noexec", missing: "vm.memfd_noexec is 2"},
	{name: "no capabilities, as root", conditions: "nocaps"},
	{name: "another CPU than allowed", conditions: "cpu=" + strconv.Itoa(firstCPU()),
		missing: "not here, or not in this process's affinity mask", args: "-cpus 1023 -hex 90"},
	{name: "count without /proc", conditions: "noproc", missing: "/proc is not mounted", args: "count -func main -- PROGRAM"},
	// NT_X86_XSTATE, of PTRACE_GETREGSET (linux/elf.h), is missing in an emulated Nehalem.
	{name: "no XSAVE", conditions: "deny=ptrace:ENODEV:2:0xffffffff:0x202", missing: "XSAVE", args: "capture -verify STATES"},
}

// denyAt refuses a call for one address.
func denyAt(call string, addr uint64) string {
	return fmt.Sprintf("deny=%s:EPERM:0:0xffffffff:%#x", call, uint32(addr))
}

func firstCPU() int {
	cpus, err := host.AllowedCPUs()
	if err != nil || len(cpus) == 0 {
		return 0
	}
	return cpus[0]
}

// TestHosts: on each, bbprof measures or says with exit code 3 what is missing and what helps.
func TestHosts(t *testing.T) {
	require.Slow(t)
	under, bbprof := forAnyHost(t)
	visits := filepath.Join(t.TempDir(), "s.states")
	file := require.Get(states.Create(visits, states.About{}))(t)
	require.NoError(t, errors.Join(file.Add(&states.Visit{Entry: states.Entry{Hex: "90"}, Before: initial.Captured{State: initial.Paper()}}), file.Close()))
	program := tinyelf.Write(t, []byte(tinyelf.Exit(0)), tinyelf.Symbol{Name: "main"})
	paths := strings.NewReplacer("PROGRAM", program, "STATES", visits)
	for _, h := range brokenHosts {
		t.Run(h.name, func(t *testing.T) {
			args := strings.Fields(paths.Replace(cmp.Or(h.args, "-budget 50ms -precision 50% -hex 90")))
			stderr := measures(t, h.missing == "", under, strings.Fields(h.conditions), append([]string{bbprof}, args...)...)
			if h.missing != "" && (!strings.Contains(stderr, h.missing) || !strings.Contains(stderr, "; ")) {
				t.Errorf("it does not say that %q", h.missing)
			}
		})
	}
}

// measures runs bbprof under conditions with which it works, or cannot with exit code 3.
func measures(t *testing.T, works bool, under string, conditions []string, program ...string) (stderr string) {
	t.Helper()
	code, stdout, stderr := runOnceUnder(t, under, conditions, program...)
	t.Logf("exit code %d: %s", code, strings.TrimSpace(stderr))
	if disturbed(stderr) {
		require.Skip(t, require.Idle, "somebody else uses the core")
	}
	if works && code != cli.ExitOK && code != cli.ExitRejected || !works && code != cli.ExitHost {
		t.Errorf("exit code %d, is to work: %t: %s %s", code, works, stdout, stderr)
	}
	return stderr
}

// ofGo are the calls that programs in Go make to read and write files, and to start and end others.
const ofGo = "arch_prctl,clock_gettime,clone,close,epoll_create1,epoll_ctl,epoll_pwait,eventfd2,exit,exit_group,fcntl," +
	"fstat,futex,getdents64,kill,getpid,getppid,getrandom,gettid,ioctl,lseek,madvise,mmap,nanosleep,newfstatat,openat,pipe2,pread64,pwrite64,read," +
	"readlinkat,rt_sigaction,rt_sigprocmask,rt_sigreturn,sched_getaffinity,sched_yield,sigaltstack,tgkill,uname,write"

// TestContainerProfile: a profile that allows what docs/install.md names, and no more than Go needs besides, lets
// bbprof measure; without any one of those it says which is missing.
func TestContainerProfile(t *testing.T) {
	require.Slow(t)
	under, bbprof := forAnyHost(t)
	_, sentence, found := strings.Cut(page(t, "docs/install.md"), "The container's system-call profile has to allow")
	sentence, _, ended := strings.Cut(sentence, "\n")
	var named []string
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(sentence, -1) {
		named = append(named, m[1])
	}
	if !found || !ended || len(named) < 10 {
		t.Fatalf("docs/install.md names %q", named)
	}
	for _, without := range append([]string{""}, named...) {
		t.Run("without "+without, func(t *testing.T) {
			allowed := slices.DeleteFunc(slices.Clone(named), func(call string) bool { return call == without })
			profile := "only=" + strings.Join(append(allowed, ofGo), ",")
			measures(t, without == "", under, []string{profile}, bbprof, "-budget", "50ms", "-precision", "50%", "-hex", "488b03") // or it need not be named
		})
	}
}

// TestCountWithFewFiles: as many as let bbprof start and not the program are no fault of the program's.
func TestCountWithFewFiles(t *testing.T) {
	require.Slow(t)
	under, bbprof := forAnyHost(t)
	program := tinyelf.Write(t, []byte(tinyelf.Exit(0)), tinyelf.Symbol{Name: "main"})
	for files := 13; files <= 16; files++ {
		code, _, stderr := runOnceUnder(t, under, []string{fmt.Sprintf("files=%d", files)}, bbprof, "count", "-func", "main", "-stdin", os.DevNull, "--", program)
		blamed := strings.Contains(stderr, "too many open files")
		if full := strings.Contains(stderr, "no more files may be open"); full != (code == cli.ExitHost) ||
			full != blamed || files == 16 && full { // 13 are enough on some machines
			t.Errorf("%d files: exit code %d: %s", files, code, stderr)
		}
	}
}

// forAnyHost is this binary twice, as under and as bbprof, without the C library, whose start
// has failures of its own: that of glibc's threads, where clone3 is refused.
func forAnyHost(t *testing.T) (under, bbprof string) {
	t.Helper()
	if os.Geteuid() != 0 {
		require.Skip(t, require.Root, "making hosts takes root")
	}
	mustMeasure(t)
	built := require.Get(builtStatically())(t)
	dir := t.TempDir()
	reachable(t, dir)
	under, bbprof = filepath.Join(dir, "under"), filepath.Join(dir, "bbprof")
	require.NoError(t, errors.Join(os.WriteFile(bbprof, built, 0o755), os.Chmod(bbprof, 0o755), os.Link(bbprof, under)))
	return under, bbprof
}

// builtStatically is this test binary without the C library.
var builtStatically = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "bbprof")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bbprof")
	build := exec.Command("go", "test", "-c", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(file)
})
