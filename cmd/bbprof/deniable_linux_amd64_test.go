package main

import "golang.org/x/sys/unix"

// deniable are the calls that a filter may forbid: what bbprof and the Go runtime use. They are those
// that the kernel's tracepoint raw_syscalls:sys_enter saw of -hex, batch, doctor, count, sweep and
// compare, and what newer or older systems use in their place.
var deniable = map[string]uint32{
	"access": unix.SYS_ACCESS, "arch_prctl": unix.SYS_ARCH_PRCTL, "brk": unix.SYS_BRK, "capget": unix.SYS_CAPGET, "capset": unix.SYS_CAPSET,
	"chdir": unix.SYS_CHDIR, "clock_gettime": unix.SYS_CLOCK_GETTIME, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3, "close": unix.SYS_CLOSE,
	"close_range": unix.SYS_CLOSE_RANGE, "copy_file_range": unix.SYS_COPY_FILE_RANGE, "dup2": unix.SYS_DUP2, "dup3": unix.SYS_DUP3,
	"epoll_create1": unix.SYS_EPOLL_CREATE1, "epoll_ctl": unix.SYS_EPOLL_CTL, "epoll_pwait": unix.SYS_EPOLL_PWAIT, "eventfd2": unix.SYS_EVENTFD2,
	"execve": unix.SYS_EXECVE, "exit": unix.SYS_EXIT, "exit_group": unix.SYS_EXIT_GROUP, "faccessat2": unix.SYS_FACCESSAT2, "fcntl": unix.SYS_FCNTL,
	"flock": unix.SYS_FLOCK, "fstat": unix.SYS_FSTAT, "fsync": unix.SYS_FSYNC, "ftruncate": unix.SYS_FTRUNCATE, "futex": unix.SYS_FUTEX,
	"getcwd": unix.SYS_GETCWD, "getdents64": unix.SYS_GETDENTS64, "getegid": unix.SYS_GETEGID, "geteuid": unix.SYS_GETEUID, "getgid": unix.SYS_GETGID,
	"getpid": unix.SYS_GETPID, "getppid": unix.SYS_GETPPID, "getrandom": unix.SYS_GETRANDOM, "getrusage": unix.SYS_GETRUSAGE, "gettid": unix.SYS_GETTID,
	"getuid": unix.SYS_GETUID, "getxattr": unix.SYS_GETXATTR, "ioctl": unix.SYS_IOCTL, "kill": unix.SYS_KILL, "lseek": unix.SYS_LSEEK,
	"madvise": unix.SYS_MADVISE, "memfd_create": unix.SYS_MEMFD_CREATE, "mmap": unix.SYS_MMAP, "mprotect": unix.SYS_MPROTECT, "mremap": unix.SYS_MREMAP,
	"munmap": unix.SYS_MUNMAP, "nanosleep": unix.SYS_NANOSLEEP, "newfstatat": unix.SYS_NEWFSTATAT, "openat": unix.SYS_OPENAT,
	"openat2": unix.SYS_OPENAT2, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "personality": unix.SYS_PERSONALITY, "pidfd_open": unix.SYS_PIDFD_OPEN,
	"pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL, "pipe2": unix.SYS_PIPE2, "prctl": unix.SYS_PRCTL, "pread64": unix.SYS_PREAD64,
	"prlimit64": unix.SYS_PRLIMIT64, "ptrace": unix.SYS_PTRACE, "pwrite64": unix.SYS_PWRITE64, "read": unix.SYS_READ, "readlink": unix.SYS_READLINK,
	"readlinkat": unix.SYS_READLINKAT, "rename": unix.SYS_RENAME, "renameat": unix.SYS_RENAMEAT, "rt_sigaction": unix.SYS_RT_SIGACTION,
	"rt_sigprocmask": unix.SYS_RT_SIGPROCMASK, "rt_sigreturn": unix.SYS_RT_SIGRETURN, "sched_getaffinity": unix.SYS_SCHED_GETAFFINITY,
	"sched_setaffinity": unix.SYS_SCHED_SETAFFINITY, "sched_yield": unix.SYS_SCHED_YIELD, "seccomp": unix.SYS_SECCOMP, "setsid": unix.SYS_SETSID,
	"sigaltstack": unix.SYS_SIGALTSTACK, "tgkill": unix.SYS_TGKILL, "timer_create": unix.SYS_TIMER_CREATE, "timer_delete": unix.SYS_TIMER_DELETE,
	"timer_settime": unix.SYS_TIMER_SETTIME, "uname": unix.SYS_UNAME, "unlinkat": unix.SYS_UNLINKAT, "wait4": unix.SYS_WAIT4, "waitid": unix.SYS_WAITID,
	"write": unix.SYS_WRITE,
}
