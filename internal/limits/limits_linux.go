package limits

import (
	"os"
	"path"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	// leastFiles lets one block be measured (strace of bbprof -hex 90). When the child starts there are 0 to 2, the
	// runtime's epoll, eventfd and two for the cgroup's CPU limit, the memory shared with the child, its program, two
	// pidfds and a pipe. Hardware counters need more.
	leastFiles = 13
	// leastSpace bounds the address space: the runtime reserves 600 MiB for its page summaries, 512 MiB more if it gets
	// them, and then 64 MiB at a time, so that it was killed between 1150 and 1290 MiB.
	leastSpace = 1536 << 20
	// leastTasks counts processes and threads: measuring one block on two CPUs takes eleven, including the child.
	leastTasks = 11

	rlimitNproc = 6 // RLIMIT_NPROC, asm-generic/resource.h; package syscall lacks it

	exitHost = 3 // as in cmd/bbprof
)

func init() {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err == nil && l.Cur < leastFiles {
		end("no more than "+strconv.FormatUint(l.Cur, 10)+" files may be open in this process", strconv.Itoa(leastFiles), "raise ulimit -n")
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &l); err == nil && l.Cur < leastSpace {
		end("this process may use no more than "+strconv.FormatUint(l.Cur>>20, 10)+" MiB of address space",
			strconv.Itoa(leastSpace>>20)+" MiB", "raise ulimit -v")
	}
	// Before the first file is opened.
	if call, err := refusedFiles(); call != "" {
		end(call+" is refused ("+err.Error()+")", "it", "allow it in the seccomp profile (docker: --security-opt seccomp=unconfined)")
	}
	if call, err := refusedPoll(); err != 0 && err != syscall.EMFILE && err != syscall.ENFILE {
		end(call+" is refused ("+err.Error()+")", "it", "allow it in the seccomp profile (docker: --security-opt seccomp=unconfined)")
	}
	if n := tasksLeft("/"); n < leastTasks {
		end("no more than "+strconv.Itoa(n)+" processes and threads are left to this one", strconv.Itoa(leastTasks),
			"raise ulimit -u, or the pids limit of the cgroup (docker: --pids-limit)")
	}
}

// refusedFiles returns the first refused call that every command needs, and whose refusal makes the runtime die,
// hang, or misbehave silently. The kernel answers EBADF for an invalid descriptor.
func refusedFiles() (call string, err syscall.Errno) {
	const getrandom = 318 // asm/unistd_64.h; package syscall lacks it
	if runtime.GOARCH == "amd64" {
		if _, _, err = syscall.RawSyscall(getrandom, 0, 0, 0); err != 0 && err != syscall.ENOSYS {
			return "getrandom", err
		}
	}
	const none = ^uintptr(0)
	for _, c := range []struct {
		name   string
		number uintptr
	}{{"read", syscall.SYS_READ}, {"write", syscall.SYS_WRITE}, {"close", syscall.SYS_CLOSE}} {
		if _, _, err = syscall.RawSyscall(c.number, none, 0, 0); err != syscall.EBADF {
			return c.name, err
		}
	}
	return "", 0
}

// refusedPoll returns the first failing call of those that the runtime needs to poll files, without which it crashes
// (netpollinit, runtime/netpoll_epoll.go).
func refusedPoll() (call string, err syscall.Errno) {
	epoll, _, err := syscall.RawSyscall(syscall.SYS_EPOLL_CREATE1, syscall.EPOLL_CLOEXEC, 0, 0)
	if err != 0 {
		return "epoll_create1", err
	}
	defer syscall.Close(int(epoll))
	event, _, err := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != 0 {
		return "eventfd2", err
	}
	defer syscall.Close(int(event))
	of := syscall.EpollEvent{Events: syscall.EPOLLIN}
	if _, _, err = syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, epoll, syscall.EPOLL_CTL_ADD, event, uintptr(unsafe.Pointer(&of)), 0, 0); err != 0 {
		return "epoll_ctl", err
	}
	_, _, err = syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, epoll, uintptr(unsafe.Pointer(&of)), 1, 0, 0, 0)
	return "epoll_pwait", err
}

func end(missing, needed, remedy string) {
	os.Stderr.WriteString("bbprof: this host cannot measure: " + missing + ", and bbprof needs " + needed + "; " + remedy + "\n")
	os.Exit(exitHost)
}

// tasksLeft returns how many processes and threads this process may consist of and start, as far as limits are known.
func tasksLeft(root string) int {
	self := read(root + "/proc/self/status")
	own := number(field(self, "Threads"))
	left := cgroupTasks(root) + own

	var l syscall.Rlimit
	const few = 256 // counting the existing processes is worthwhile only below this
	capabilities, _ := strconv.ParseUint(field(self, "CapEff"), 16, 64)
	const exempt = 1<<21 | 1<<24 // CAP_SYS_ADMIN and CAP_SYS_RESOURCE (setrlimit(2))
	if err := syscall.Getrlimit(rlimitNproc, &l); err != nil || l.Cur >= few || capabilities&exempt != 0 {
		return left
	}
	entries, err := os.ReadDir(root + "/proc")
	if err != nil {
		return left
	}
	user, used := word(field(self, "Uid")), 0
	for _, e := range entries {
		if number(e.Name()) == 0 {
			continue
		}
		if status := read(root + "/proc/" + e.Name() + "/status"); word(field(status, "Uid")) == user {
			used += number(field(status, "Threads"))
		}
	}
	return min(left, int(l.Cur)-used+own)
}

// cgroupTasks returns how many more tasks the pids controller allows (cgroup-v2.rst, "PID").
func cgroupTasks(root string) int {
	left := 1 << 30
	for text := read(root + "/proc/self/cgroup"); text != ""; {
		var line, controllers string
		line, text = cut(text, '\n')
		_, line = cut(line, ':') // a line is number:controllers:path (cgroups(7))
		controllers, dir := cut(line, ':')
		if controllers != "" && controllers != "pids" {
			continue
		}
		for { // any ancestor may set a limit
			at := root + "/sys/fs/cgroup/" + controllers + dir
			most, current := read(at+"/pids.max"), read(at+"/pids.current")
			if number(most) > 0 && current != "" { // "max" is no limit
				left = min(left, number(most)-number(current))
			}
			if len(dir) <= 1 {
				break
			}
			dir = path.Dir(dir)
		}
	}
	return left
}

// Package strings would do for the following, but its import unicode is initialised after the packages that crash.

func read(file string) string {
	text, _ := os.ReadFile(file)
	return string(text)
}

func cut(s string, sep byte) (before, after string) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// field returns the value of a line in a status file of /proc.
func field(status, name string) string {
	for status != "" {
		var line string
		line, status = cut(status, '\n')
		if key, value := cut(line, ':'); key == name {
			for value != "" && (value[0] == '\t' || value[0] == ' ') {
				value = value[1:]
			}
			return value
		}
	}
	return ""
}

func word(s string) string {
	w, _ := cut(s, '\t')
	return w
}

// number parses the leading digits of s, 0 if there are none.
func number(s string) int {
	line, _ := cut(s, '\n')
	n, _ := strconv.Atoi(line)
	return n
}
